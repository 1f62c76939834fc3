"""Cooperative scheduling: how slow code lets other requests run while it waits.

Everything that a mount shares is protected by one *main lock*, as CPython protects its objects by the GIL.  Code that
is about to be slow (decode, fsync, copy, validate) releases the lock with ``waiting`` and takes it back with
``resumed`` for the moments in which it touches something shared.

Four schedulers implement the protocol: ``mount/loop`` serves the requests of a mount; ``SingleThread`` is for
programs that have nothing else to run; ``WorkerThreads`` is for several threads that work on one document;
``SerialCalls`` is for threads of programs that call the Python API.
"""

from __future__ import annotations

import contextlib
import enum
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Final, Protocol, TypeVar

#: Default number of bytes to read, write or hash at a time.
CHUNK: Final = 1 << 20


T = TypeVar("T")


class Scheduler(Protocol):
    """Runs other work while the caller waits."""

    def waiting(self) -> AbstractContextManager[None]:
        """Release the main lock inside the block and take it again afterwards.  Touch nothing shared inside."""

    def resumed(self) -> AbstractContextManager[None]:
        """Hold the main lock again for a moment, inside ``waiting``."""

    @property
    def held(self) -> bool:
        """Whether this thread holds the main lock, or there is only one thread."""

    def entered(self) -> AbstractContextManager[None]:
        """Hold the main lock inside the block, in a thread that does not hold it yet."""

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        """Run ``call`` with the main lock held after ``seconds``.

        The call is dropped if the mount has ended by then, so never use it for work that must be done.
        """

    @property
    def stopping(self) -> bool:
        """Whether slow work should be abandoned because the mount is ending."""

    @property
    def wanted(self) -> bool:
        """Whether the program that made this thread's request is still alive.  Cheap."""


def yielding(scheduler: Scheduler, things: Iterable[T], every: int = 64) -> Iterator[T]:
    """Yield ``things``, and release the main lock after every ``every`` of them, so that others can run.

    Anything shared may have changed when the next one is yielded.
    """
    for number, thing in enumerate(things):
        if number % every == every - 1:
            with scheduler.waiting():
                pass
        yield thing


class SingleThread:
    """The scheduler of a program with one thread: waiting releases nothing, and work is never abandoned."""

    stopping = False
    wanted = True
    held = True

    def entered(self) -> AbstractContextManager[None]:
        """See ``Scheduler``."""
        return contextlib.nullcontext()

    def waiting(self) -> AbstractContextManager[None]:
        """See ``Scheduler``."""
        return contextlib.nullcontext()

    def resumed(self) -> AbstractContextManager[None]:
        """See ``Scheduler``."""
        return contextlib.nullcontext()

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        """See ``Scheduler``: does nothing."""


class WorkerThreads(SingleThread):
    """The scheduler of several threads of one command: its own lock takes the place of a mount's main lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder = 0

    @property
    def held(self) -> bool:  # type: ignore[override]  # a constant elsewhere
        """See ``Scheduler``."""
        return self._holder == threading.get_ident()

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """See ``Scheduler``."""
        self._take()
        try:
            yield
        finally:
            self._give()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """See ``Scheduler``."""
        self._give()
        try:
            yield
        finally:
            self._take()

    def resumed(self) -> AbstractContextManager[None]:
        """See ``Scheduler``."""
        return self.entered()

    def _take(self) -> None:
        self._lock.acquire()
        self._holder = threading.get_ident()

    def _give(self) -> None:
        self._holder = 0
        self._lock.release()


class SerialCalls(SingleThread):
    """The scheduler of program threads that share a document: calls run one at a time, each from start to end."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._holders: list[int] = []

    @property
    def held(self) -> bool:  # type: ignore[override]  # a constant elsewhere
        """See ``Scheduler``."""
        return self._holders[-1:] == [threading.get_ident()]

    def entered(self) -> AbstractContextManager[None]:
        """See ``Scheduler``."""
        return self

    def __enter__(self) -> None:
        self._lock.acquire()
        self._holders.append(threading.get_ident())

    def __exit__(self, *_: object) -> None:
        self._holders.pop()
        self._lock.release()


class Rank(enum.IntEnum):
    """The order in which a thread may take locks, lowest first.  docs/design/concurrency.md describes each lock."""

    DOCUMENT = 0
    NODE = 1
    SAVE = 2
    STORE_READING = 3
    STORE = 4
    PAGES = 5
    BLOCK = 6
    DECODER = 7
    OVERWRITE = 8
    OUTLINE = 9
    LINKED_FILES = 10
    LOOK = 11
    FILE = 12
    MOVE = 13
    TAPE = 14


class _Held(threading.local):
    """The ranks of the locks that this thread holds."""

    def __init__(self) -> None:
        self.ranks: list[Rank] = []


_held: Final = _Held()
_checked = False


def check_ranks() -> None:
    """Raise ``RuntimeError`` from now on when a thread takes locks out of order.  For tests."""
    global _checked
    _checked = True


class RankedLock:
    """A lock that may be held across a wait.

    Its caller holds the main lock.  A thread that queues for this lock releases the main lock meanwhile.
    """

    def __init__(self, scheduler: Scheduler, rank: Rank) -> None:
        self._scheduler = scheduler
        self._rank = rank
        self._lock = threading.Lock()
        self._queue = 0

    @property
    def wanted(self) -> bool:
        """Whether a thread that cannot wait long queues for the lock."""
        return self._queue > 0

    @property
    def taken(self) -> bool:
        """Whether a thread holds the lock."""
        return self._lock.locked()

    def __enter__(self) -> None:
        """Take the lock; the end of the ``with`` block releases it."""
        if _checked:
            self._check_rank()
        if not self._lock.acquire(blocking=False):
            self._queue += 1  # no race: the main lock is held here and below
            try:
                with self._scheduler.waiting():
                    self._lock.acquire()
            finally:
                self._queue -= 1
        _held.ranks.append(self._rank)

    def __exit__(self, *_: object) -> None:
        _held.ranks.remove(self._rank)
        self._lock.release()

    @contextlib.contextmanager
    def entered(self, *, patiently: bool = False) -> Iterator[None]:
        """Hold the lock inside the block.  With ``patiently``, do not count as a waiter in ``wanted``."""
        self._queue -= patiently
        try:
            self.__enter__()
        finally:
            self._queue += patiently
        try:
            yield
        finally:
            self.__exit__()

    def _check_rank(self) -> None:
        """Raise ``RuntimeError`` for a wrong order even if the lock is free: two orders deadlock one day."""
        if _held.ranks and self._rank <= max(_held.ranks):
            before = ", ".join(rank.name for rank in _held.ranks)
            raise RuntimeError(f"the lock {self._rank.name} is taken while {before} is held")
