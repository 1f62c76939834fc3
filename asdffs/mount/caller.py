"""Tells whether the program behind a FUSE request was killed or is gone.

The kernel closes the files of a killed editor, too, and the YAML written by then may be incomplete and still valid.
Such a close must not commit.  The kernel flag PF_EXITING alone means a normal exit.
"""

from __future__ import annotations

import logging
import os
import signal
from typing import Final

logger = logging.getLogger(__name__)

#: Flag of a kernel task: killed by a signal (field 9 of /proc/PID/stat, see proc(5)).
_PF_SIGNALED: Final = 0x400
_FLAGS_AFTER_COMM: Final = 6
#: Bit of SIGKILL in the signal masks of /proc/PID/status (proc(5)), and the names of these masks.
_SIGKILL: Final = 1 << (signal.SIGKILL - 1)
_MASKS: Final = (b"SigPnd", b"ShdPnd", b"SigBlk", b"SigIgn", b"SigCgt")
#: Signals that dump core by default.  The kernel turns other deadly signals into SIGKILL, but not these.
_CORE_DUMPS: Final = sum(
    1 << (number - 1)
    for number in (
        *(signal.SIGQUIT, signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE),
        *(signal.SIGSEGV, signal.SIGSYS, signal.SIGXCPU, signal.SIGXFSZ),
    )
)


def is_dying(pid: int) -> bool:
    """Return whether process ``pid`` is gone or dies as soon as its request is answered; False if unknown.

    A process that waits for the answer to a FUSE request cannot die before it has the answer.  Until then the signal
    is pending (proc(5), status).  It is unknown if /proc hides the processes of other users.
    """
    if pid == 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # it exists, but belongs to another user
        pass
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            facts = dict(line.split(b":", 1) for line in file if b":" in line)
    except OSError:
        return False
    pending, shared, blocked, ignored, caught = (int(facts.get(name, b"0"), 16) for name in _MASKS)
    deadly = (pending | shared) & ~(blocked | ignored | caught) & _CORE_DUMPS | (pending | shared) & _SIGKILL
    return facts[b"State"].split()[0] in (b"Z", b"X") or bool(deadly)


def was_killed(pid: int) -> bool:
    """Return whether a signal is killing process ``pid``; False if unknown."""
    if pid == 0:
        logger.info("a program in another PID namespace saved a file: asdffs cannot tell whether it was killed")
        return False
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return False  # gone already: its parent has waited for it, so it had closed its files
    return bool(int(fields[_FLAGS_AFTER_COMM]) & _PF_SIGNALED)
