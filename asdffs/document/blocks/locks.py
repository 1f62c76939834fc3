"""Who waits for whom at the blocks: for one that is changed, overwritten, or moved.

| who                                | waits for                                          |
|------------------------------------|----------------------------------------------------|
| changes a block, or stores it anew | the block's lock                                   |
| reads bytes of the file            | an overwrite of that block, and any move of blocks |
| reads a header                     | any move of blocks                                 |

The caller holds the main lock; who waits here gives it up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from asdffs.scheduling import Rank, RankedLock, Scheduler


class BlockLocks:
    """Of one document.  ``moving()``: taken while blocks move within the file."""

    def __init__(self, scheduler: Scheduler, moving: Callable[[], RankedLock]) -> None:
        self._scheduler = scheduler
        self._moving = moving
        self._locks: dict[int, RankedLock] = {}
        self._overwritten: dict[int, RankedLock] = {}

    @property
    def taken(self) -> bool:
        """Whether any block is being changed."""
        return any(lock.taken for lock in self._locks.values())

    def of(self, number: int) -> RankedLock:
        """The lock of a block."""
        return self._locks.setdefault(number, RankedLock(self._scheduler, Rank.BLOCK))

    @contextlib.contextmanager
    def overwriting(self, number: int) -> Iterator[None]:
        """Its bytes in the file are neither the old nor the new ones inside."""
        with self._overwritten.setdefault(number, RankedLock(self._scheduler, Rank.OVERWRITE)).entered():
            yield

    def unsteady(self, number: int) -> bool:
        """Whether who reads its bytes would have to wait now."""
        overwritten = self._overwritten.get(number)
        return self._moving().taken or (overwritten is not None and overwritten.taken)

    def await_move(self) -> None:
        """While blocks move nobody reads them: they are neither at the old nor at the new offsets."""
        if self._moving().taken:
            with self._moving().entered(patiently=True):
                pass

    def await_steady(self, number: int, *, also: bool = True) -> None:
        """While blocks move, or (``also``) this one is overwritten, nobody reads its bytes."""
        overwritten = self._overwritten.get(number) if also and self._overwritten else None
        while self._moving().taken or (overwritten is not None and overwritten.taken):
            self.await_move()
            if overwritten is not None and overwritten.taken:
                with overwritten.entered(patiently=True):
                    pass
