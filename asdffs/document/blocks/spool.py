"""Spool files: the decoded bytes of blocks on the disk, and how much disk space and memory they may take.

``SpoolRoom`` has the limits of a document, and evicts blocks: a block asks for room before it keeps anything.
``Spooled`` is the file of one block.  It is sparse and has no name.  To free room, segments that were not used for
the longest time are punched out.  Segments with bytes that were written, and are not in the ASDF file, stay.

The caller holds the main lock.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, Protocol

from asdffs.errors import Remedy, SpoolFullError
from asdffs.storage.descriptors import is_scarce, open_fd
from asdffs.storage.linux_calls import AT_FDCWD, name_file, punch_hole

#: Most blocks that have a spool file at a time.
_MOST_FILES: Final = 256
#: Most bytes of memory that all decoders keep together.
_MOST_MEMORY: Final = 256 << 20


class Occupant(Protocol):
    """A decoded block that takes room.

    ``dirty``: it was written and is not committed; ``ended``: it was decoded to its end.
    """

    number: int
    ended: bool

    @property
    def dirty(self) -> bool:
        """Whether the spool has content that the ASDF file has not.  Then it must not be evicted."""

    @property
    def held(self) -> int:
        """Bytes in the spool that cannot be freed."""

    @property
    def kept(self) -> int:
        """Bytes that the block has in the spool."""

    @property
    def memory(self) -> int:
        """About how many bytes of memory the decoder keeps."""

    @property
    def busy(self) -> bool:
        """Whether a thread is decoding the block now.  Then it must not be evicted."""

    def free(self, wanted: int) -> int:
        """Free ``wanted`` bytes, but not what was read last; return how many were freed, which may be fewer."""

    def restart(self) -> None:
        """Free all that was decoded."""

    def stop_decoding(self) -> None:
        """Free the memory of the decoder, but keep the bytes in the spool."""


class SpoolRoom:
    """The disk space for decoded blocks: ``most`` bytes in ``directory``.

    Without ``directory`` it is in the temporary directory of the system.  Without ``most`` the limit is half of the
    space that these blocks and nobody else have.  Others fill and empty the disk, so that is asked each time.
    """

    def __init__(self, directory: str | None, most: int | None = None) -> None:
        self._directory = directory
        self._most = most
        self._used: dict[Occupant, None] = {}  # least recently used first
        self._free_when_full = 0

    @property
    def directory(self) -> str:
        """The directory of the spool files.  Raises ``OSError`` if the system has no temporary directory."""
        from tempfile import gettempdir  # late, as below: it takes a while

        return self._directory or gettempdir()

    @property
    def limit(self) -> int:
        """The limit in bytes, now.  Raises ``OSError``."""
        room = self.kept + self._free
        return room // 2 if self._most is None else min(self._most, room)

    @property
    def kept(self) -> int:
        """Bytes that all blocks keep now."""
        return sum(used.kept for used in self._used)

    @property
    def _free(self) -> int:
        found = os.statvfs(self.directory)
        return found.f_bavail * found.f_frsize

    def create(self, *, in_memory: bool = False) -> BinaryIO:
        """Create a spool file without a name.  Raises ``OSError``.

        It is made with ``O_TMPFILE`` if the file system supports that; then it can be given a name later.
        ``in_memory``: create it in memory, because the disk is full.  Only bytes near the reader are kept there.
        Other blocks are evicted if the process has few file descriptors left.
        """
        if in_memory:
            return open(os.memfd_create("asdffs decoded block", os.MFD_CLOEXEC), "w+b")
        file = self._unnamed()
        while is_scarce(file.fileno()) and self._evict(None, 1):
            file.close()
            file = self._unnamed()  # with the number that is free now
        return file

    def _unnamed(self) -> BinaryIO:
        try:
            return open(open_fd(self.directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600), "w+b")
        except (AttributeError, OSError):  # O_TMPFILE is not supported by this system or file system
            from tempfile import TemporaryFile

            return TemporaryFile(dir=self.directory)

    def touch(self, block: Occupant) -> None:
        """Note that ``block`` is used now; evict others if there are too many files, or too much memory is used."""
        self._used.pop(block, None)
        self._used[block] = None
        if len(self._used) > _MOST_FILES:
            self._evict(block, 1)
        over = sum(used.memory for used in self._used) - _MOST_MEMORY
        for other in self._others(block) if over > 0 else ():
            if over > 0:
                over -= other.memory
                other.stop_decoding()

    def forget(self, block: Occupant) -> None:
        """Note that ``block`` keeps nothing any more."""
        self._used.pop(block, None)

    def make_room(self, block: Occupant, more: int, *, full: bool = False) -> None:
        """Free room so that ``block`` can keep ``more`` bytes; ``full``: the disk has just refused them.

        Bytes are freed in this order, until there is enough room:

        1. other blocks that were decoded to their end,
        2. the bytes of other blocks that were not read last,
        3. the bytes of ``block`` that were not read last,
        4. all other blocks.

        What was written and is not committed, and blocks that are being decoded, are never freed.
        """
        if full:
            self._free_when_full = self._free  # not always 0: it may be a quota that is exhausted
        over = more if full else self.kept + more - self.limit
        if over <= 0:
            return
        over -= self._evict(block, over, ended=True)
        for other in [used for used in self._used if used is not block and not used.busy]:
            if over > 0:
                over -= other.free(over)
        if over > 0:
            over -= block.free(over)
        if over > 0:
            self._evict(block, over)

    def has_again(self, size: int) -> bool:
        """Return whether the disk, which refused bytes, has room for ``size`` bytes now."""
        return self._free - self._free_when_full >= size and self.limit >= size

    def check_fits(self, block: Occupant, size: int) -> None:
        """Raise ``SpoolFullError`` if ``block`` cannot keep all of ``size`` bytes beside the dirty blocks."""
        dirty = [used for used in self._used if used.dirty and used is not block]
        if len(dirty) >= _MOST_FILES:
            raise SpoolFullError(f"{len(dirty)} blocks are being written already; close some", block=block.number)
        taken = sum(used.held for used in dirty)
        if taken + size > self.limit:
            raise SpoolFullError(
                f"its {size} bytes must be decoded to write it, but the spool has only {self.limit - taken} left",
                block=block.number,
                remedy=Remedy.MORE_SPOOL,
            )

    def _evict(self, block: Occupant | None, over: int, *, ended: bool = False) -> int:
        """Evict other blocks until ``over`` bytes are freed, if possible; return how many bytes were freed.

        Each evicted block counts as at least one byte.  With ``ended``, evict only blocks that were decoded to their
        end.
        """
        given = 0
        for other in self._others(block):
            if given < over and (other.ended or not ended):
                given += max(1, other.kept)
                other.restart()
        return given

    def _others(self, block: Occupant | None) -> list[Occupant]:
        """Return the other blocks that may be evicted, least recently used first."""
        return [other for other in self._used if other is not block and not other.dirty and not other.busy]


#: Bytes that are freed together.  Use is noted for each segment.
SEGMENT: Final = 1 << 20
#: Freeing more bytes than this takes long enough to use a thread.
_LONG: Final = 8 << 20


class Spooled:
    """The spool file of one block; ``create()`` opens a new one.

    ``there``: the bytes that the file has; ``changed``: those that were written and are not in the ASDF file.
    """

    def __init__(self, create: Callable[[], BinaryIO]) -> None:
        self._create = create
        self._open: BinaryIO | None = None
        self.there = Ranges()
        self._used: dict[int, None] = {}  # numbers of segments, least recently used first
        self.changed = Ranges()

    @property
    def file(self) -> BinaryIO:
        """The open file.  Raises ``OSError``."""
        if self._open is None:
            self._open = self._create()
        return self._open

    def use(self, start: int, stop: int) -> None:
        """Note that ``[start, stop)`` is used now."""
        for number in range(start // SEGMENT, -(-stop // SEGMENT)):
            self._used.pop(number, None)
            self._used[number] = None

    def add(self, start: int, stop: int) -> None:
        """Note that the file has ``[start, stop)`` now."""
        if start < stop:
            self.there.add(start, stop)
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
        return self.there.remove(start, stop)

    def truncate(self, size: int) -> None:
        """Make ``[0, size)`` all that is there; bytes that were not read as zeros.  Raises ``OSError``."""
        self.file.truncate(size)
        self._forget()
        self.add(0, size)

    def clear(self) -> None:
        """Close the file and forget all bytes; a large file in another thread, because freeing it takes a while."""
        file, self._open = self._open, None
        if file is not None and self.there.size > _LONG:
            threading.Thread(target=file.close, name="freeing", daemon=True).start()
        elif file is not None:
            file.close()
        self._forget()

    def _forget(self) -> None:
        self._used = {}
        self.there.clear()
        self.changed.clear()

    def name(self, path: str) -> None:
        """Give the file the name ``path``, durably and without a copy.  Raises ``OSError``."""
        os.fsync(self.file.fileno())
        name_file(self.file.fileno(), AT_FDCWD, path)


class Ranges:
    """Ranges ``[start, stop)`` of bytes, in ascending order.  ``size``: how many bytes they have together."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        self.size = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._stops, strict=True)

    def missing(self, start: int, stop: int) -> int | None:
        """Return the offset of the first byte of ``[start, stop)`` that is not in the set; None if all are."""
        if start >= stop:
            return None
        place = bisect_right(self._starts, start) - 1
        if place < 0 or self._stops[place] <= start:
            return start
        return None if self._stops[place] >= stop else self._stops[place]

    def touches(self, start: int, stop: int) -> bool:
        """Return whether any byte of ``[start, stop)`` is in the set."""
        return start < stop and bisect_right(self._stops, start) < bisect_left(self._starts, stop)

    def gaps(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of ``[start, stop)`` that are not in the set."""
        if start >= stop:
            return
        for place in range(bisect_right(self._stops, start), bisect_left(self._starts, stop)):
            if start < self._starts[place]:
                yield start, self._starts[place]
            start = self._stops[place]
        if start < stop:
            yield start, stop

    def add(self, start: int, stop: int) -> None:
        """Add the bytes ``[start, stop)``."""
        if start >= stop:
            return
        first, last = bisect_left(self._stops, start), bisect_right(self._starts, stop)
        inside = range(first, last)
        self.size += stop - start - sum(min(self._stops[n], stop) - max(self._starts[n], start) for n in inside)
        low = min(start, self._starts[first]) if inside else start
        high = max(stop, self._stops[last - 1]) if inside else stop
        self._starts[first:last], self._stops[first:last] = [low], [high]

    def remove(self, start: int, stop: int) -> int:
        """Remove the bytes ``[start, stop)``, and return how many of them were in the set."""
        if start >= stop:
            return 0
        first, last = bisect_right(self._stops, start), bisect_left(self._starts, stop)
        inside = list(zip(self._starts[first:last], self._stops[first:last], strict=True))
        left = [(a, b) for low, high in inside for a, b in ((low, min(high, start)), (max(low, stop), high)) if a < b]
        self._starts[first:last], self._stops[first:last] = [a for a, _ in left], [b for _, b in left]
        removed = sum(high - low for low, high in inside) - sum(b - a for a, b in left)
        self.size -= removed
        return removed

    def clear(self) -> None:
        """Remove all bytes."""
        self._starts, self._stops, self.size = [], [], 0
