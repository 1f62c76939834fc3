"""The decoded bytes of one block that are in its spool file now, and which of them were used last.

The file is sparse and has no name.  To free room, segments that were not used for the longest time are punched out.
Segments with bytes that were written, and are not in the ASDF file, stay.  The caller holds the main lock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

from asdffs.document.blocks.ranges import Ranges
from asdffs.storage.linux_calls import AT_FDCWD, name_file, punch_hole

#: Bytes that are freed together.  Use is noted for each segment.
SEGMENT: Final = 1 << 20
#: Freeing more bytes than this takes long enough to use a thread.
_LONG: Final = 8 << 20


class Spooled:
    """The spool file of one block; ``create()`` opens a new one.

    ``changed``: the bytes that were written and are not in the ASDF file.
    """

    def __init__(self, create: Callable[[], BinaryIO]) -> None:
        self._create = create
        self._open: BinaryIO | None = None
        self._there = Ranges()
        self._used: dict[int, None] = {}  # numbers of segments, least recently used first
        self.changed = Ranges()

    @property
    def size(self) -> int:
        """Bytes that are there."""
        return self._there.size

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
        return self._there.missing(start, stop)

    def missing_ranges(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of ``[start, stop)`` that are not there."""
        return self._there.gaps(start, stop)

    def use(self, start: int, stop: int) -> None:
        """Note that ``[start, stop)`` is used now."""
        for number in range(start // SEGMENT, -(-stop // SEGMENT)):
            self._used.pop(number, None)
            self._used[number] = None

    def add(self, start: int, stop: int) -> None:
        """Note that the file has ``[start, stop)`` now."""
        if start < stop:
            self._there.add(start, stop)
            self.use(start, stop)

    def free(self, wanted: int, keep: tuple[int, int]) -> int:
        """Free ``wanted`` bytes or more, but none of ``keep`` or ``changed``; return how many were freed.

        These may be fewer.  Segments that were not used for the longest time go first.
        """
        freed = 0
        for number in list(self._used):
            start, stop = number * SEGMENT, (number + 1) * SEGMENT
            if freed >= wanted:
                break
            if (stop <= keep[0] or start >= keep[1]) and not self.changed.touches(start, stop):
                freed += self._punch(start, stop)
                del self._used[number]
        return freed

    def _punch(self, start: int, stop: int) -> int:
        """Free ``[start, stop)`` and return how many bytes of it were there."""
        punch_hole(self.file.fileno(), start, stop - start)
        return self._there.remove(start, stop)

    def truncate(self, size: int) -> None:
        """Make ``[0, size)`` all that is there; bytes that were not read as zeros.  Raises ``OSError``."""
        self.file.truncate(size)
        self._forget()
        self.add(0, size)

    def clear(self) -> None:
        """Close the file and forget all bytes; a large file in another thread, because freeing it takes a while."""
        file, self._open = self._open, None
        if file is not None and self.size > _LONG:
            threading.Thread(target=file.close, name="freeing", daemon=True).start()
        elif file is not None:
            file.close()
        self._forget()

    def _forget(self) -> None:
        self._used = {}
        self._there.clear()
        self.changed.clear()

    def name(self, path: str) -> None:
        """Give the file the name ``path``, durably and without a copy.  Raises ``OSError``."""
        os.fsync(self.file.fileno())
        name_file(self.file.fileno(), AT_FDCWD, path)
