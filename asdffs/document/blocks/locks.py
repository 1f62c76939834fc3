"""Locks of the blocks of a document, for changes, overwrites and moves.

| operation                      | waits for                                                       |
|--------------------------------|-----------------------------------------------------------------|
| change or commit a block       | other changes and commits of this block (its lock)              |
| read bytes of a block          | overwrites of this block in the file, and all moves of blocks   |
| read a header                  | all moves of blocks                                             |

The caller holds the main lock, and releases it while it waits here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from asdffs.scheduling import Rank, RankedLock, Scheduler


class RetiredError(Exception):
    """The block was stored in another way meanwhile, so this object is obsolete; ask the document for the new one."""


class BlockLocks:
    """The locks of one document.  ``moving()`` returns the lock that is taken while blocks move within the file."""

    def __init__(self, scheduler: Scheduler, moving: Callable[[], RankedLock]) -> None:
        self._scheduler = scheduler
        self._moving = moving
        self._locks: dict[int, RankedLock] = {}
        self._overwritten: dict[int, RankedLock] = {}

    @property
    def taken(self) -> bool:
        """Whether any block is being changed or committed."""
        return any(lock.taken for lock in self._locks.values())

    def of(self, number: int) -> RankedLock:
        """Return the lock of block ``number``, which changes and commits of its content hold."""
        return self._locks.setdefault(number, RankedLock(self._scheduler, Rank.BLOCK))

    @contextlib.contextmanager
    def overwriting(self, number: int) -> Iterator[None]:
        """Hold the overwrite lock of block ``number`` inside the ``with`` block.

        Inside, its bytes in the file are a mixture of the old and the new ones, so its readers must wait.
        """
        with self._overwritten.setdefault(number, RankedLock(self._scheduler, Rank.OVERWRITE)).entered():
            yield

    def unsteady(self, number: int) -> bool:
        """Return whether a reader of the bytes of block ``number`` would have to wait now."""
        overwritten = self._overwritten.get(number)
        return self._moving().taken or (overwritten is not None and overwritten.taken)

    def await_move(self) -> None:
        """Wait until no blocks move.  During a move they are neither at the old nor at the new offsets."""
        if self._moving().taken:
            with self._moving().entered(patiently=True):
                pass

    def await_steady(self, number: int, *, also: bool = True) -> None:
        """Wait until no blocks move and, with ``also``, block ``number`` is not being overwritten."""
        overwritten = self._overwritten.get(number) if also and self._overwritten else None
        while self._moving().taken or (overwritten is not None and overwritten.taken):
            self.await_move()
            if overwritten is not None and overwritten.taken:
                with overwritten.entered(patiently=True):
                    pass
