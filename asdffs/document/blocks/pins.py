"""Pins: the blocks that this program has mapped into memory.

A change that would alter a mapping is refused.  Python does the same: as long as a buffer is exported, its owner
cannot be resized.

The caller holds the main lock.  But a mapping may be freed in any thread, with or without the lock.
"""

from __future__ import annotations

import itertools
import mmap
import os
import weakref

from asdffs.errors import InUseError
from asdffs.storage.backend import Extent
from asdffs.storage.descriptors import open_fd

_ADVICE = "is mapped into memory by this program (Block.buffer, Array.mapped); delete all references to it first"


class Pins:
    """The pins of one open file."""

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
