"""Where a daemon's log goes: it has no terminal.  User: ``mount``."""

from __future__ import annotations

import logging
import logging.handlers
from typing import Final

#: The option that means the system's log.
SYSLOG: Final = "syslog"
_SYSLOG_SOCKET: Final = "/dev/log"


def log_to(place: str, *, keep: bool) -> None:
    """From now on into the file ``place``, or the system's log; without ``keep`` the file begins anew.

    Raises ``OSError``.
    """
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
    root.setLevel(logging.INFO)
    if place == SYSLOG:
        handler = logging.handlers.SysLogHandler(_SYSLOG_SOCKET)
        handler.setFormatter(logging.Formatter("asdffs[%(process)d]: %(levelname)s %(message)s"))
    else:
        handler = logging.FileHandler(place, "a" if keep else "w", encoding="utf-8", errors="backslashreplace")
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    root.addHandler(handler)
