"""Delays signals, so that a command ends only where it can clean up its files.

A Python signal handler runs between any two steps of the main thread.  So an exception that it raises may leave a
lock taken or a temporary file unknown.  Therefore a signal is only noted inside a ``critical`` section.  The next
``check``, which all long work calls regularly, raises it, or else the end of the section does.  A second signal is
raised at once, except while the command cleans up (``cleaning``).

The state belongs to the process, as signals do.  Only ``cli/process`` installs handlers; without them this module
has no effect.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class _State:
    """The state of the process.

    ``depth``: the number of nested critical sections; ``cleaning``: that of sections that clean up; ``whole``: that
    of changes that must not stop half-way.  ``pending``: the error of the noted signal, or None.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.cleaning = 0
        self.whole = 0
        self.pending: BaseException | None = None


_state = _State()


def note(error: BaseException) -> None:
    """Raise ``error`` now, or note it inside a ``critical`` section.  For signal handlers.

    If another one is already noted, ``error`` is raised now, except inside ``cleaning``.
    """
    if not _state.cleaning and (not _state.depth or _state.pending is not None):
        _state.pending = None
        raise error
    _state.pending = error


def is_noted() -> bool:
    """Return whether a signal was noted and not raised yet."""
    return _state.pending is not None


def check() -> None:
    """Raise the noted signal, if there is one.  Does nothing inside ``whole``, or outside the main thread."""
    if _state.pending is not None and not _state.whole and threading.current_thread() is threading.main_thread():
        error, _state.pending = _state.pending, None
        raise error


@contextlib.contextmanager
def critical() -> Iterator[None]:
    """Delay signals inside the block until a ``check``, or until the end of the outermost such block."""
    _state.depth += 1
    try:
        yield
    finally:
        _state.depth -= 1
    if not _state.depth:
        check()


@contextlib.contextmanager
def cleaning() -> Iterator[None]:
    """Only note signals inside the block, however many come: it removes temporary files, which is quick."""
    _state.cleaning += 1
    try:
        yield
    finally:
        _state.cleaning -= 1


@contextlib.contextmanager
def whole() -> Iterator[None]:
    """Make ``check`` raise nothing inside the block, because a file is being changed there."""
    _state.whole += 1
    try:
        yield
    finally:
        _state.whole -= 1


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Raise signals at once inside the block, a part of a critical section that only waits."""
    depth, _state.depth = _state.depth, 0
    try:
        check()
        yield
    finally:
        _state.depth = depth
