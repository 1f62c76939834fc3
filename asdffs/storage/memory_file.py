"""The bytes of a file in memory, and their simulated addresses on a disk.

One thread at a time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from asdffs.storage.backend import PhysicalExtent

#: Granularity of the range operations, in bytes.
UNIT = 256
#: Number of pages with neighbouring addresses, so that a file has several extents.
_RUN = 3
_INODES = itertools.count(1)


@dataclass(frozen=True, slots=True)
class MemoryStep:
    """One step of a range operation: move the pages ``[start, stop)`` by ``shift``, or resize to ``size`` bytes."""

    start: int = 0
    stop: int = 0
    shift: int = 0
    size: int | None = None


class MemoryFile:
    """The content and the pages of a file; ``pages[i]`` is the address of page i, or None in a hole."""

    def __init__(self, content: bytes = b"", inode: int | None = None) -> None:
        self.inode = next(_INODES) if inode is None else inode
        self.changes = 0
        self.holder: int | None = None
        self.content = bytearray()
        self.pages: list[int | None] = []
        self._next = 0
        self.write(0, content)

    def write(self, offset: int, payload: bytes) -> None:
        """Write ``payload``; a shorter file is extended with zeros."""
        self.resize(max(len(self.content), offset + len(payload)))
        self.content[offset : offset + len(payload)] = payload
        if payload:
            self.allocate(offset, len(payload))

    def resize(self, size: int) -> None:
        """Cut the file, or extend it with a hole."""
        del self.content[size:]
        self.content.extend(bytes(size - len(self.content)))
        count = -(-size // UNIT)
        del self.pages[count:]
        self.pages.extend([None] * (count - len(self.pages)))

    def allocate(self, offset: int, length: int) -> None:
        """Give addresses to the pages of a range, and extend the file."""
        self.resize(max(len(self.content), offset + length))
        for page in range(offset // UNIT, -(-(offset + length) // UNIT)):
            if self.pages[page] is None:
                self.pages[page] = self._next + self._next // _RUN
                self._next += 1

    def extents(self) -> list[PhysicalExtent]:
        """Return runs of pages with neighbouring addresses."""
        found: list[PhysicalExtent] = []
        for page, address in enumerate(self.pages):
            if address is None:
                continue
            here, there, last = page * UNIT, address * UNIT, found[-1] if found else None
            if last and (last.logical + last.length, last.physical + last.length) == (here, there):
                found[-1] = PhysicalExtent(last.logical, last.physical, last.length + UNIT)
            else:
                found.append(PhysicalExtent(here, there, UNIT))
        return found

    def insertion(self, offset: int, length: int) -> Iterator[MemoryStep]:
        """Yield the steps of an insert range.

        First the size, then the extents after ``offset``, the last one first.
        """
        yield MemoryStep(size=len(self.content) + length)
        for extent in reversed(self.extents()):
            start = max(extent.logical, offset)
            stop = extent.logical + extent.length
            if start < stop:
                yield MemoryStep(start // UNIT, stop // UNIT, length // UNIT)

    def collapsing(self, offset: int, length: int) -> Iterator[MemoryStep]:
        """Yield the steps of a collapse range.

        First the extents after the removed range, the first one first, then the size.
        """
        for extent in self.extents():
            if extent.logical >= offset + length:
                yield MemoryStep(extent.logical // UNIT, (extent.logical + extent.length) // UNIT, -(length // UNIT))
        yield MemoryStep(size=len(self.content) - length)

    def take(self, step: MemoryStep) -> None:
        """Carry out one step."""
        if step.size is not None:
            self.resize(step.size)
            return
        size, count = len(self.content), step.stop - step.start
        pages = self.pages[step.start : step.stop]
        content = bytes(self.content[step.start * UNIT : step.stop * UNIT])
        self.pages[step.start : step.stop] = [None] * count
        self.content[step.start * UNIT : step.start * UNIT + len(content)] = bytes(len(content))
        target = step.start + step.shift
        self.pages[target : target + count] = pages
        self.content[target * UNIT : target * UNIT + len(content)] = content
        del self.content[size:]  # the last page is not full

    def copy(self) -> MemoryFile:
        """Return another file with the same bytes, addresses and inode."""
        twin = MemoryFile(inode=self.inode)
        twin.content, twin.pages, twin._next = bytearray(self.content), list(self.pages), self._next
        return twin
