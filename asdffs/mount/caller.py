"""Whether the program behind a FUSE request was killed, or is gone.  Users: ``operations``, ``relief``.

A killed editor still closes its files, with partial and perhaps valid YAML; such a close
must not commit.  PF_EXITING alone is a normal exit.
"""

from __future__ import annotations

import logging
from typing import Final

logger = logging.getLogger(__name__)

#: Flag of the kernel's task: killed by a signal (field 9 of /proc/PID/stat, see proc(5)).
_PF_SIGNALED: Final = 0x400
_FLAGS_AFTER_COMM: Final = 6
#: In the masks of proc(5), status.
_SIGKILL: Final = 1 << 8


def is_dying(pid: int) -> bool:
    """Whether process ``pid`` is gone, or will be as soon as it is answered; False when that cannot be known.

    A process that waits for an answer that was already asked for dies only when it has it: until then the
    signal is pending (proc(5), status).
    """
    if pid == 0:
        return False
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            facts = dict(line.split(b":", 1) for line in file if b":" in line)
    except OSError:
        return True
    pending = int(facts.get(b"SigPnd", b"0"), 16) | int(facts.get(b"ShdPnd", b"0"), 16)
    return facts[b"State"].split()[0] in (b"Z", b"X") or bool(pending & _SIGKILL)


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
