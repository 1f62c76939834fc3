"""Prepares what a process has from its caller: standard streams, signals, the environment of child processes.

A stream that the caller closed is opened.  Else the ASDF file would be opened as descriptor 0, 1 or 2, and libfuse
would write its messages into it.

Child processes import no modules of the working directory, which may hold a stranger's files.  ``python -c`` and
``python -m`` look there first, and so does each process that ``multiprocessing`` starts.

Signals that end a command, SIGTERM and SIGHUP, let it remove its temporary files first, as SIGINT does.  A daemon has
handlers of its own while it serves (``mount/session``).
"""

from __future__ import annotations

import codecs
import io
import os
import signal
import sys
import threading
from typing import Final, NoReturn

from asdffs import interrupts

_AS_POSSIBLE: Final = "asdffs-as-possible"
#: The variable that Python reads, and the value by which ours is known.
_SAFE_PATH: Final = ("PYTHONSAFEPATH", "asdffs")


def protect_children() -> None:
    """Have all Python processes that this one starts leave the working directory out of ``sys.path``."""
    os.environ.setdefault(*_SAFE_PATH)


def environment_for_programs() -> dict[str, str]:
    """Return the environment for a program of the user, such as an editor: as it was when the command began."""
    return dict(item for item in os.environ.items() if item != _SAFE_PATH)


def wanted_libfuse() -> str:
    """Return the version of libfuse that the user asks for with ``ASDFFS_LIBFUSE``; ``auto`` by default."""
    return os.environ.get("ASDFFS_LIBFUSE") or "auto"


def open_standard_streams() -> None:
    """Open all three standard streams, and print names that are not UTF-8 as they are."""
    null = os.open(os.devnull, os.O_RDWR)  # the lowest that is free: maybe one of the three already
    while null <= 2:
        null = os.dup(null)
    os.close(null)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115  # as long as the process
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        codecs.register_error(_AS_POSSIBLE, _as_possible)
        sys.stdout.reconfigure(errors=_AS_POSSIBLE)


def _as_possible(error: UnicodeError) -> tuple[str | bytes, int]:
    """Print bytes of a name as they are, and characters that the terminal does not have as escapes."""
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeError:
        return codecs.backslashreplace_errors(error)


def forget_output() -> None:
    """Send what is still to be printed nowhere, because the reader of the standard output went away."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


class EndedError(BaseException):
    """A signal ended the command.  Not an ``Exception``: nobody below handles it, every ``finally`` runs."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def raise_at_signals() -> None:
    """Have SIGTERM and SIGHUP raise ``EndedError``, and SIGINT ``KeyboardInterrupt``, in the main thread.

    Where a command is critical they wait (``interrupts``).
    A signal that the process was started to ignore (``nohup``) stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: interrupts.note(EndedError(number)))
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: interrupts.note(KeyboardInterrupt()))


def die_of(number: int) -> NoReturn:
    """End the process by that signal: its parent then sees the cause in the exit status."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # as shells count; reached only where the signal is blocked
