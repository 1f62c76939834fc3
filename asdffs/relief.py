"""Relief: how slow code lets others be served while it waits.

One thread at a time touches what a mount shares: whoever holds the turn.  Code that is about to be slow (decode,
fsync, copy, validate) gives the turn up with ``waiting`` and takes it back for the moments in which it touches
something shared with ``resumed``.  The floors below ``mount`` only say where they wait; ``mount/relief`` is what
serves others meanwhile, ``Alone`` is for programs with nobody else to serve, ``Turns`` for several threads of one
that work on one thing, ``Calls`` for threads of programs that know nothing of turns.
"""

from __future__ import annotations

import contextlib
import enum
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Final, Protocol, TypeVar

#: Bytes that are read, written or hashed at a time where nothing else says how many.
CHUNK: Final = 1 << 20


T = TypeVar("T")


class Relief(Protocol):
    """Who is served while somebody waits."""

    def waiting(self) -> AbstractContextManager[None]:
        """Give the turn up inside; take it back at the end.  Nothing shared is touched inside."""

    def resumed(self) -> AbstractContextManager[None]:
        """Inside ``waiting``: have the turn for a moment."""

    @property
    def held(self) -> bool:
        """Whether this thread has the turn, or needs none."""

    def entered(self) -> AbstractContextManager[None]:
        """Have the turn inside, in a thread that has it not."""

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        """Have ``call`` run then, with the turn, if anybody is served then: what must be done is not left to it."""

    @property
    def stopping(self) -> bool:
        """Whether slow work should be given up, because nobody is served any more."""

    @property
    def wanted(self) -> bool:
        """Whether anybody waits for the answer to the request that this thread is at.  Cheap."""


def giving_way(relief: Relief, things: Iterable[T], every: int = 64) -> Iterator[T]:
    """Go through ``things`` with the turn, and let others have it now and then: for work that is long by its number.

    Between two of them anybody may change anything.
    """
    for number, thing in enumerate(things):
        if number % every == every - 1:
            with relief.waiting():
                pass
        yield thing


class Alone:
    """No others, and the work is always wanted."""

    stopping = False
    wanted = True
    held = True

    def entered(self) -> AbstractContextManager[None]:
        """See ``Relief``."""
        return contextlib.nullcontext()

    def waiting(self) -> AbstractContextManager[None]:
        """See ``Relief``."""
        return contextlib.nullcontext()

    def resumed(self) -> AbstractContextManager[None]:
        """See ``Relief``."""
        return contextlib.nullcontext()

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        """See ``Relief``: nobody is served."""


class Turns:
    """Several threads of one program: who is ``entered`` has the turn, and gives it up as for ``Relief``."""

    stopping = False
    wanted = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder = 0

    @property
    def held(self) -> bool:
        """See ``Relief``."""
        return self._holder == threading.get_ident()

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """See ``Relief``."""
        self._take()
        try:
            yield
        finally:
            self._give()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """See ``Relief``."""
        self._give()
        try:
            yield
        finally:
            self._take()

    def resumed(self) -> AbstractContextManager[None]:
        """See ``Relief``."""
        return self.entered()

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        """See ``Relief``: nobody is served."""

    def _take(self) -> None:
        self._lock.acquire()
        self._holder = threading.get_ident()

    def _give(self) -> None:
        self._holder = 0
        self._lock.release()


class Calls(Alone):
    """Threads of a program that share something: one call at a time, whole, whatever it waits for."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._holder = 0

    @property
    def held(self) -> bool:  # type: ignore[override]  # a constant elsewhere
        """See ``Relief``."""
        return self._holder == threading.get_ident()

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """See ``Relief``."""
        with self._lock:
            before, self._holder = self._holder, threading.get_ident()
            try:
                yield
            finally:
                self._holder = before


class Rank(enum.IntEnum):
    """The order in which one thread enters locks, from the top; docs/design/concurrency.md says what each is for."""

    NODE = 1
    SAVE = 2
    STORE_READING = 3
    STORE = 4
    PAGES = 5
    BLOCK = 6
    DECODER = 7
    OVERWRITE = 8
    OUTLINE = 9
    NEIGHBOURS = 10
    FILE = 11
    MOVE = 12


class _Held(threading.local):
    """The ranks that this thread has entered, while that is checked."""

    def __init__(self) -> None:
        self.ranks: list[Rank] = []


_held: Final = _Held()
_checked = False


def check_ranks() -> None:
    """From now on raise ``RuntimeError`` in a thread that enters locks in another order than ``Rank``: for tests."""
    global _checked
    _checked = True


class Exclusive:
    """One at a time does something that may wait half-way; the others queue.

    Whoever enters holds the turn.  ``wanted`` tells the one inside that somebody queues who is
    to go first: not mere readers.
    """

    def __init__(self, relief: Relief, rank: Rank) -> None:
        self._relief = relief
        self._rank = rank
        self._lock = threading.Lock()
        self._queue = 0

    @property
    def wanted(self) -> bool:
        """Whether somebody waits to come in, and wants it soon."""
        return self._queue > 0

    @property
    def taken(self) -> bool:
        """Whether somebody is inside."""
        return self._lock.locked()

    @contextlib.contextmanager
    def entered(self, *, patiently: bool = False) -> Iterator[None]:
        """Be the one inside; ``patiently``: without being ``wanted``."""
        if _checked:
            self._check_rank()
        if not self._lock.acquire(blocking=False):
            self._queue += not patiently  # the turn is held here and below: no race
            try:
                with self._relief.waiting():
                    self._lock.acquire()
            finally:
                self._queue -= not patiently
        _held.ranks.append(self._rank)
        try:
            yield
        finally:
            _held.ranks.remove(self._rank)
            self._lock.release()

    def _check_rank(self) -> None:
        """Also where nobody is inside: two threads in different orders wait for each other for ever, some day."""
        if _held.ranks and self._rank <= max(_held.ranks):
            before = ", ".join(rank.name for rank in _held.ranks)
            raise RuntimeError(f"the lock {self._rank.name} is entered under {before}")
