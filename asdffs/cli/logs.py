"""Sets up logging: a file or syslog for daemons, the error output for commands."""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import signal
import stat
from typing import Any, Final

from asdffs.cli.printing import SafeFormatter
from asdffs.errors import MountError

logger = logging.getLogger(__name__)

#: The option that means the system's log.
SYSLOG: Final = "syslog"
_SYSLOG_SOCKET: Final = "/dev/log"


#: Bytes after which a log is rotated: one in the state directory, and one that the user chose.
_LONGEST: Final = 1 << 20
_LONGEST_CHOSEN: Final = 16 << 20
_TEXT: Final[dict[str, Any]] = {"encoding": "utf-8", "errors": "backslashreplace"}


class _Log(logging.FileHandler):
    """A log file of bounded size, for the user alone if it is new.  SIGUSR1 adds what each thread is doing.

    When it is longer than ``longest`` bytes, it becomes ``NAME.1``, and the one before it goes.  ``logging.handlers``
    has such a class, but also imports sockets and pickle, which takes too long for a mount.
    """

    stream: Any

    def __init__(self, place: str, longest: int, *, keep: bool) -> None:
        super().__init__(place, "a" if keep else "w", **_TEXT)
        self.mode = "a"
        self._longest = longest

    def _open(self) -> Any:
        os.close(_made(self.baseFilename))
        stream = super()._open()
        faulthandler.register(signal.SIGUSR1, stream)
        return stream

    def reopen(self) -> None:
        """Open the file again by its name, as after a rotation by another program.  Raises ``OSError``."""
        with self.lock or contextlib.nullcontext():
            before, self.stream = self.stream, self._open()
            before.close()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record.  One that cannot be written is left out: a daemon has more to do than to log."""
        try:
            now = os.fstat(self.stream.fileno())
            if now.st_size > self._longest and stat.S_ISREG(now.st_mode):
                self._rotate(now)
        except OSError:
            self.handleError(record)
            return
        super().emit(record)

    def _rotate(self, now: os.stat_result) -> None:
        """Begin a new file, unless another mount with this log did; where no file may be made, empty this one."""
        try:
            if os.path.samestat(now, os.stat(self.baseFilename)):
                os.replace(self.baseFilename, f"{self.baseFilename}.1")
            self.reopen()
        except OSError:
            self.stream.truncate(0)


def reopen_logs() -> None:
    """Open the log file again by its name, and say so in it; nothing where there is none.  Raises ``OSError``."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, _Log):
            handler.reopen()
            logger.info("the log was opened again, because of SIGHUP")


def _made(place: str) -> int:
    """Open the log at ``place``, for the user alone if it is new: it has names and words of private files.

    Raises ``OSError``.
    """
    return os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def silence(*modules: str) -> None:
    """Log no warnings of these modules: the command itself prints what they tell."""
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
        handler = _Log(place, _LONGEST_CHOSEN if keep else _LONGEST, keep=keep)
        handler.setFormatter(SafeFormatter("%(asctime)s %(levelname)s %(message)s"))
    root.addHandler(handler)
