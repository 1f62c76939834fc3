"""Signals that end a command: SIGTERM and SIGHUP, as SIGINT does, let it remove its temporary files first.

A daemon has handlers of its own while it serves (``mount/request_queue``).
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Final, NoReturn

from asdffs import interrupts

_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


class EndedError(BaseException):
    """A signal ended the command.  Not an ``Exception``: nobody below handles it, every ``finally`` runs."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def raise_at_signals() -> None:
    """From now on, have these signals raise ``EndedError``, and SIGINT ``KeyboardInterrupt``, in the main thread.

    Where a command is critical they wait (``interrupts``).
    A signal that the process was started to ignore (``nohup``) stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _raise)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupt)


def _raise(number: int, frame: FrameType | None) -> None:
    interrupts.note(EndedError(number))


def _interrupt(number: int, frame: FrameType | None) -> None:
    interrupts.note(KeyboardInterrupt())


def die_of(number: int) -> NoReturn:
    """End the process by that signal: its parent then sees the cause in the exit status."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # as shells count; reached only where the signal is blocked
