"""Which blocks programs have mapped, so that what would change under a map is refused.

The precedent is Python's own: who exports a buffer keeps its owner from being resized.  One thread at a time has the
turn; a map may go away in any.
"""

from __future__ import annotations

import itertools
import mmap
import os
import weakref

from asdffs.errors import InUseError
from asdffs.storage.backend import Extent

_ADVICE = "is mapped by this program (Block.buffer, Array.mapped); let go of the map first"


class Pins:
    """Those of one open file."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}  # of each map its block; setting and popping need no lock
        self._keys = itertools.count()

    def map(self, number: int, extent: Extent) -> memoryview:
        """A read-only map of content of block ``number``, pinned while anything of it lives.  Raises ``OSError``."""
        start = extent.offset - extent.offset % mmap.ALLOCATIONGRANULARITY
        length = extent.offset + extent.length - start
        own = os.open(f"/proc/self/fd/{extent.fd}", os.O_RDONLY)  # a map of ours would keep the lock of that one
        try:
            pages = mmap.mmap(own, length, prot=mmap.PROT_READ, flags=mmap.MAP_SHARED, offset=start)
        finally:
            os.close(own)
        key = next(self._keys)
        self._numbers[key] = number
        weakref.finalize(pages, self._numbers.pop, key, None)
        return memoryview(pages)[extent.offset - start :]

    def check(self, number: int) -> None:
        """Raise ``InUseError`` while the block is mapped."""
        if number in list(self._numbers.values()):
            raise InUseError(_ADVICE, block=number)

    def check_all(self) -> None:
        """Raise ``InUseError`` while any block is mapped."""
        for number in list(self._numbers.values()):
            self.check(number)
