"""Whether the program behind a FUSE request was killed, or is gone.

A killed editor still closes its files, with partial and perhaps valid YAML; such a close
must not commit.  PF_EXITING alone is a normal exit.
"""

from __future__ import annotations

import logging
import os
import signal
from typing import Final

logger = logging.getLogger(__name__)

#: Flag of the kernel's task: killed by a signal (field 9 of /proc/PID/stat, see proc(5)).
_PF_SIGNALED: Final = 0x400
_FLAGS_AFTER_COMM: Final = 6
#: In the masks of proc(5), status.
_SIGKILL: Final = 1 << (signal.SIGKILL - 1)
_MASKS: Final = (b"SigPnd", b"ShdPnd", b"SigBlk", b"SigIgn", b"SigCgt")
#: Signals whose default is to dump core: the kernel makes no SIGKILL of them, as it does of other deadly ones.
_CORE_DUMPS: Final = sum(
    1 << (number - 1)
    for number in (
        *(signal.SIGQUIT, signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE),
        *(signal.SIGSEGV, signal.SIGSYS, signal.SIGXCPU, signal.SIGXFSZ),
    )
)


def is_dying(pid: int) -> bool:
    """Whether process ``pid`` is gone, or will be as soon as it is answered; False when that cannot be known.

    A process that waits for an answer that was already asked for dies only when it has it: until then the
    signal is pending (proc(5), status).  /proc may hide the processes of others.
    """
    if pid == 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # not ours to signal, but there
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
    """Whether process ``pid`` is dying of a signal; False when that cannot be known."""
    if pid == 0:
        logger.info("a save by a program in another PID namespace: whether it was killed cannot be known")
        return False
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return False  # gone already: it was waited for, so it had closed its files
    return bool(int(fields[_FLAGS_AFTER_COMM]) & _PF_SIGNALED)
