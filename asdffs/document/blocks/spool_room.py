"""Limits for the disk space and memory that the decoded blocks of a document take, with eviction.

A block asks for room before it keeps anything.  The caller holds the main lock.
"""

from __future__ import annotations

import os
from typing import BinaryIO, Final, Protocol

from asdffs.errors import Remedy, SpoolFullError
from asdffs.storage.descriptors import is_scarce, open_fd

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
    def most(self) -> int:
        """The limit in bytes, now.  Raises ``OSError``."""
        room = self._kept + self._free
        return room // 2 if self._most is None else min(self._most, room)

    @property
    def _kept(self) -> int:
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

    def use(self, block: Occupant) -> None:
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

    def admit(self, block: Occupant, more: int, *, full: bool = False) -> None:
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
        over = more if full else self._kept + more - self.most
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
        return self._free - self._free_when_full >= size and self.most >= size

    def check_fits(self, block: Occupant, size: int) -> None:
        """Raise ``SpoolFullError`` if ``block`` cannot keep all of ``size`` bytes beside the dirty blocks."""
        dirty = [used for used in self._used if used.dirty and used is not block]
        if len(dirty) >= _MOST_FILES:
            raise SpoolFullError(f"{len(dirty)} blocks are being written already; close some", block=block.number)
        taken = sum(used.held for used in dirty)
        if taken + size > self.most:
            raise SpoolFullError(
                f"its {size} bytes must be decoded to write it, but the spool has only {self.most - taken} left",
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
