"""The decoded bytes of one block that are in its spool file now, and which of them were used last.

The file is sparse and has no name.  To free room, segments that were not used for the longest time are punched out.
The caller holds the main lock.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import BinaryIO, Final

from asdffs.storage.linux_calls import punch_hole

#: Bytes that are freed together.  Use is noted for each segment.
SEGMENT: Final = 1 << 20
#: Freeing more bytes than this takes long enough to use a thread.
_LONG: Final = 8 << 20


class Spooled:
    """The spool file of one block; ``create()`` opens a new one."""

    def __init__(self, create: Callable[[], BinaryIO]) -> None:
        self._create = create
        self._open: BinaryIO | None = None
        self._starts: list[int] = []
        self._stops: list[int] = []
        self._used: dict[int, None] = {}  # numbers of segments, least recently used first
        self.size = 0

    @property
    def file(self) -> BinaryIO:
        """The open file.  Raises ``OSError``."""
        if self._open is None:
            self._open = self._create()
        return self._open

    def has(self, start: int, stop: int) -> bool:
        """Return whether all bytes ``[start, stop)`` are there."""
        return self.missing(start, stop) is None

    def missing(self, start: int, stop: int) -> int | None:
        """Return the offset of the first byte of ``[start, stop)`` that is not there; None if all are."""
        if start >= stop:
            return None
        place = bisect_right(self._starts, start) - 1
        if place < 0 or self._stops[place] <= start:
            return start
        return None if self._stops[place] >= stop else self._stops[place]

    def use(self, start: int, stop: int) -> None:
        """Note that ``[start, stop)`` is used now."""
        for number in range(start // SEGMENT, -(-stop // SEGMENT)):
            self._used.pop(number, None)
            self._used[number] = None

    def add(self, start: int, stop: int) -> None:
        """Note that the file has ``[start, stop)`` now."""
        if start >= stop:
            return
        first, last = bisect_left(self._stops, start), bisect_right(self._starts, stop)
        inside = range(first, last)
        self.size += stop - start - sum(min(self._stops[n], stop) - max(self._starts[n], start) for n in inside)
        low = min(start, self._starts[first]) if inside else start
        high = max(stop, self._stops[last - 1]) if inside else stop
        self._starts[first:last], self._stops[first:last] = [low], [high]
        self.use(start, stop)

    def free(self, wanted: int, keep: tuple[int, int]) -> int:
        """Free ``wanted`` bytes or more, but none of ``keep``; return how many were freed, which may be fewer.

        Segments that were not used for the longest time go first.
        """
        freed = 0
        for number in list(self._used):
            start, stop = number * SEGMENT, (number + 1) * SEGMENT
            if freed >= wanted:
                break
            if stop <= keep[0] or start >= keep[1]:
                freed += self._punch(start, stop)
                del self._used[number]
        return freed

    def _punch(self, start: int, stop: int) -> int:
        """Free ``[start, stop)`` and return how many bytes of it were there."""
        punch_hole(self.file.fileno(), start, stop - start)
        first, last = bisect_right(self._stops, start), bisect_left(self._starts, stop)
        inside = list(zip(self._starts[first:last], self._stops[first:last], strict=True))
        left = [(a, b) for low, high in inside for a, b in ((low, min(high, start)), (max(low, stop), high)) if a < b]
        self._starts[first:last], self._stops[first:last] = [a for a, _ in left], [b for _, b in left]
        freed = sum(high - low for low, high in inside) - sum(b - a for a, b in left)
        self.size -= freed
        return freed

    def truncate(self, size: int) -> None:
        """Make ``[0, size)`` all that is there; bytes that were not read as zeros.  Raises ``OSError``."""
        self.file.truncate(size)
        self._starts, self._stops, self._used = [], [], {}
        self.size = 0
        self.add(0, size)

    def clear(self) -> None:
        """Close the file and forget all bytes; a large file in another thread, because freeing it takes a while."""
        file, self._open = self._open, None
        if file is not None and self.size > _LONG:
            threading.Thread(target=file.close, name="freeing", daemon=True).start()
        elif file is not None:
            file.close()
        self._starts, self._stops, self._used = [], [], {}
        self.size = 0

    def name(self, path: str) -> None:
        """Give the file the name ``path``, durably and without a copy.  Raises ``OSError``."""
        os.fsync(self.file.fileno())
        descriptors = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:  # only with src_dir_fd Python calls linkat(2), which can follow the link in /proc
            os.link(str(self.file.fileno()), path, src_dir_fd=descriptors, follow_symlinks=True)
        finally:
            os.close(descriptors)
