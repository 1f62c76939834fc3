"""When a signal may end a command that changes files: at a moment when it can clean up.

A signal handler of Python runs between any two steps of the main thread, so an exception that it raises may leave a
lock taken or a temporary file unknown.  While a command is ``critical`` a signal is therefore only noted.  It is
raised at the next ``check``, which every long piece of work calls as it goes on, or at the end of the command.  A
second signal is raised at once.

The state is that of the process, as signals are.  Handlers are installed by ``cli/signals`` alone; without them
nothing here has an effect.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class _State:
    """``depth``: of critical sections; ``whole``: of those that cannot be left half-way; ``pending``: was noted."""

    def __init__(self) -> None:
        self.depth = 0
        self.whole = 0
        self.pending: BaseException | None = None


_state = _State()


def note(error: BaseException) -> None:
    """Raise ``error`` now, or where it may be raised: for signal handlers."""
    if not _state.depth or _state.pending is not None:
        _state.pending = None
        raise error
    _state.pending = error


def is_noted() -> bool:
    """Whether a signal waits to be raised."""
    return _state.pending is not None


def check() -> None:
    """Raise what was noted, in the main thread, unless the caller is in the middle of a ``whole`` change."""
    if _state.pending is not None and not _state.whole and threading.current_thread() is threading.main_thread():
        error, _state.pending = _state.pending, None
        raise error


@contextlib.contextmanager
def critical() -> Iterator[None]:
    """Inside, signals wait for a ``check``, or for the end.  May be nested."""
    _state.depth += 1
    try:
        yield
    finally:
        _state.depth -= 1
    if not _state.depth:
        check()


@contextlib.contextmanager
def whole() -> Iterator[None]:
    """Inside, a ``check`` raises nothing: a change is on its way into a file."""
    _state.whole += 1
    try:
        yield
    finally:
        _state.whole -= 1


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Inside a critical section, have signals raised at once: nothing happens but waiting."""
    depth, _state.depth = _state.depth, 0
    try:
        check()
        yield
    finally:
        _state.depth = depth
