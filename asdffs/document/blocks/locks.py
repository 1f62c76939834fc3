"""Who waits for whom at the blocks: for one that is changed, overwritten, or moved.

| who                                | waits for                                          |
|------------------------------------|----------------------------------------------------|
| changes a block, or stores it anew | the block's lock                                   |
| reads bytes of the file            | an overwrite of that block, and any move of blocks |
| reads a header                     | any move of blocks                                 |

One thread at a time has the turn; who waits here gives it up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from asdffs.relief import Exclusive, Rank, Relief


class BlockLocks:
    """Of one document.  ``moving()``: taken while blocks move within the file."""

    def __init__(self, relief: Relief, moving: Callable[[], Exclusive]) -> None:
        self._relief = relief
        self._moving = moving
        self._locks: dict[int, Exclusive] = {}
        self._overwritten: dict[int, Exclusive] = {}

    @property
    def taken(self) -> bool:
        """Whether any block is being changed."""
        return any(lock.taken for lock in self._locks.values())

    def of(self, number: int) -> Exclusive:
        """The lock of a block."""
        return self._locks.setdefault(number, Exclusive(self._relief, Rank.BLOCK))

    @contextlib.contextmanager
    def overwriting(self, number: int) -> Iterator[None]:
        """Its bytes in the file are neither the old nor the new ones inside."""
        with self._overwritten.setdefault(number, Exclusive(self._relief, Rank.OVERWRITE)).entered():
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
