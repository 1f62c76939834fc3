"""Sets up logging: a file or syslog for daemons, the error output for commands."""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
from typing import Any, Final

from asdffs.cli.saying import SafeFormatter
from asdffs.errors import MountError

#: The option that means the system's log.
SYSLOG: Final = "syslog"
_SYSLOG_SOCKET: Final = "/dev/log"


#: Bytes of a log of ours; the one before it stays, too.
_LONGEST: Final = 1 << 20
_TEXT: Final[dict[str, Any]] = {"encoding": "utf-8", "errors": "backslashreplace"}


class _Log(logging.FileHandler):
    """A log file, for the user alone if it is new.  SIGUSR1 adds what each thread is doing."""

    def _open(self) -> Any:
        os.close(_made(self.baseFilename))
        stream = super()._open()
        faulthandler.register(signal.SIGUSR1, stream)
        return stream


class _BoundedLog(_Log):
    """A log file that is rotated at 1 MiB: the previous one stays as ``NAME.1``.

    A file that the user chose is not rotated: logrotate does that.  ``logging.handlers`` has such a class, but also
    imports sockets and pickle, which takes too long for a mount.
    """

    def __init__(self, place: str) -> None:
        super().__init__(place, "w", **_TEXT)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record.  One that cannot be written is left out: a daemon has more to do than to log."""
        try:
            if self.stream is not None and self.stream.tell() > _LONGEST:
                self.stream.close()
                os.replace(self.baseFilename, f"{self.baseFilename}.1")
                self.stream = self._open()
        except OSError:  # tell() writes what a full disk left in the buffer
            self.handleError(record)
            return
        super().emit(record)


def _made(place: str) -> int:
    """Open the log at ``place``, for the user alone if it is new: it has names and words of private files.

    Raises ``OSError``.
    """
    return os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def told_here(*modules: str) -> None:
    """What these modules log as warnings the command itself tells: it is not to be told twice."""
    for module in modules:
        logging.getLogger(module).setLevel(logging.ERROR)


def check_log(place: str) -> None:
    """Raise ``MountError`` when nothing can be logged there: the daemon could not say so any more."""
    if place == SYSLOG:
        if not os.path.exists(_SYSLOG_SOCKET):
            raise MountError(f"log=syslog: there is no {_SYSLOG_SOCKET}; start a system log, or give a file")
        return
    try:
        os.close(_made(place))
    except OSError as err:
        raise MountError(f"log={place}: cannot be written: {err.strerror}") from err


def log_to(place: str, *, keep: bool, also: bool = False) -> None:
    """Log to the file ``place``, or to the system's log.  Without ``keep`` the file is emptied first.

    ``also``: keep logging to the present place, too.  Raises ``OSError``.
    """
    root = logging.getLogger()
    handler: logging.Handler
    for handler in list(root.handlers):
        if also:
            handler.setLevel(root.level)
        else:
            root.removeHandler(handler)
    root.setLevel(logging.INFO)
    if place == SYSLOG:
        from logging.handlers import SysLogHandler  # sockets and more, which nobody else needs

        handler = SysLogHandler(_SYSLOG_SOCKET)
        handler.setFormatter(SafeFormatter("asdffs[%(process)d]: %(levelname)s %(message)s"))
    else:
        handler = _Log(place, "a", **_TEXT) if keep else _BoundedLog(place)
        handler.setFormatter(SafeFormatter("%(asctime)s %(levelname)s %(message)s"))
    root.addHandler(handler)
