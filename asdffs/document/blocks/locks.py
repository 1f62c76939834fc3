"""Who uses a block: the locks for changes, overwrites and moves, and the pins of blocks that a program has mapped.

| operation                      | waits for                                                       |
|--------------------------------|-----------------------------------------------------------------|
| change or commit a block       | other changes and commits of this block (its lock)              |
| read bytes of a block          | overwrites of this block in the file, and all moves of blocks   |
| read a header                  | all moves of blocks                                             |

The caller holds the main lock, and releases it while it waits here.  But a mapping may be freed in any thread, with
or without the lock.
"""

from __future__ import annotations

import itertools
import mmap
import os
import weakref

from asdffs.errors import InUseError
from asdffs.scheduling import Rank, RankedLock, Scheduler
from asdffs.storage.backend import Extent
from asdffs.storage.descriptors import open_fd


class RetiredError(Exception):
    """The block was stored in another way meanwhile, so this object is obsolete; ask the document for the new one."""


def await_free(lock: RankedLock) -> None:
    """Wait until no thread holds ``lock``."""
    while lock.taken:
        with lock.entered(patiently=True):
            pass


class BlockLocks:
    """The locks of one document.  ``moving``: the lock that is taken while blocks move within the file."""

    def __init__(self, scheduler: Scheduler, moving: RankedLock) -> None:
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
        lock = self._locks.get(number)
        if lock is None:
            lock = self._locks[number] = RankedLock(self._scheduler, Rank.BLOCK)
        return lock

    def of_overwrite(self, number: int) -> RankedLock:
        """Return the lock that is held while the bytes of block ``number`` in the file are overwritten.

        They are a mixture of the old and the new ones then, so readers must wait.
        """
        return self._overwritten.setdefault(number, RankedLock(self._scheduler, Rank.OVERWRITE))

    def must_wait(self, number: int, *, stored: bool = True) -> bool:
        """Return whether a reader of block ``number`` has to wait; without ``stored``, only for moves of blocks."""
        overwritten = self._overwritten.get(number) if stored else None
        return self._moving.taken or (overwritten is not None and overwritten.taken)

    def await_steady(self, number: int, *, stored: bool = True) -> None:
        """Wait until no blocks move and, with ``stored``, block ``number`` is not being overwritten."""
        while self.must_wait(number, stored=stored):
            await_free(self._moving)
            if stored:
                await_free(self.of_overwrite(number))


_ADVICE = "is mapped into memory by this program (Block.buffer, Array.mapped); delete all references to it first"


class Pins:
    """The blocks of one open file that this program has mapped into memory.

    A change that would alter a mapping is refused.  Python does the same: as long as a buffer is exported, its owner
    cannot be resized.
    """

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}  # mapping -> its block; setting and popping are atomic and need no lock
        self._keys = itertools.count()

    def map(self, number: int, extent: Extent) -> memoryview:
        """Return a read-only mapping of the bytes at ``extent``, which are content of block ``number``.

        The block is pinned as long as anything refers to the mapping.  Raises ``OSError``.
        """
        start = extent.offset - extent.offset % mmap.ALLOCATIONGRANULARITY
        length = extent.offset + extent.length - start
        own = open_fd(f"/proc/self/fd/{extent.fd}", os.O_RDONLY)  # a mapping of extent.fd would keep its file lock
        try:
            pages = mmap.mmap(own, length, prot=mmap.PROT_READ, flags=mmap.MAP_SHARED, offset=start)
        finally:
            os.close(own)
        key = next(self._keys)
        self._numbers[key] = number
        weakref.finalize(pages, self._numbers.pop, key, None)
        return memoryview(pages)[extent.offset - start :]

    def check(self, number: int) -> None:
        """Raise ``InUseError`` if block ``number`` is mapped."""
        if number in list(self._numbers.values()):
            raise InUseError(_ADVICE, block=number)

    def check_all(self) -> None:
        """Raise ``InUseError`` if any block is mapped."""
        for number in list(self._numbers.values()):
            self.check(number)
