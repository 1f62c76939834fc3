"""How much of the disk and of memory the decoded blocks of a document may take, and who gives way.

Blocks ask before they keep anything.  The caller holds the main lock.
"""

from __future__ import annotations

import os
import tempfile
from typing import BinaryIO, Final, Protocol

from asdffs.errors import Remedy, SpoolFullError

#: Blocks that have a spool file at a time.
_MOST_FILES: Final = 256
#: Bytes of memory that decoders keep while nobody reads from them.
_MOST_MEMORY: Final = 256 << 20


class Occupant(Protocol):
    """A decoded block that takes room.

    ``reader``: where it is read; ``dirty``: it was written, and is not in the file; ``ended``: it is decoded to its
    end.
    """

    number: int
    reader: int
    dirty: bool
    ended: bool

    @property
    def kept(self) -> int:
        """Bytes in the spool."""

    @property
    def memory(self) -> int:
        """Bytes of memory that the decoder keeps, about."""

    @property
    def busy(self) -> bool:
        """Whether somebody is decoding it."""

    def trim(self, keep_from: int) -> int:
        """Give up what lies before ``keep_from``, but for a little; return how many bytes that was."""

    def restart(self) -> None:
        """Give everything up."""

    def stop_decoding(self) -> None:
        """Give the decoder up."""


class SpoolRoom:
    """What decoded blocks may take of the disk: ``most`` bytes in ``directory`` (None: the system's).

    Without ``most``: half of what is free when the first block is decoded.
    """

    def __init__(self, directory: str | None, most: int | None = None) -> None:
        self._directory = directory
        self._most = most
        self._used: dict[Occupant, None] = {}  # the least recently used first

    @property
    def directory(self) -> str:
        """Where spool files are.  Raises ``OSError`` where the system has no such place."""
        return self._directory or tempfile.gettempdir()

    @property
    def most(self) -> int:
        """In bytes."""
        if self._most is None:
            free = os.statvfs(self.directory)
            self._most = free.f_bavail * free.f_frsize // 2
        return self._most

    def create(self, *, in_memory: bool = False) -> BinaryIO:
        """A new spool file without a name; where the system can it may be given one later.  Raises ``OSError``.

        ``in_memory``: of a block of which only what lies around its reader is kept; the disk is full.
        """
        if in_memory:
            return open(os.memfd_create("asdffs decoded block", os.MFD_CLOEXEC), "w+b")
        try:
            fd = os.open(self.directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except (AttributeError, OSError):  # not this system, or not this file system
            return tempfile.TemporaryFile(dir=self.directory)
        return open(fd, "w+b")

    def use(self, block: Occupant) -> None:
        """``block`` is used now."""
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
        """``block`` keeps nothing any more."""
        self._used.pop(block, None)

    def admit(self, block: Occupant, more: int, keep_from: int) -> None:
        """Let ``block`` keep ``more`` bytes; of its own it gives up those before ``keep_from`` at most.

        First go blocks that are decoded to their end, then what others in work have behind their readers, then
        what this one has, then all that others have.
        """
        over = sum(used.kept for used in self._used) + more - self.most
        if over <= 0:
            return
        over -= self._evict(block, over, ended=True)
        for other in self._others(block):
            if over > 0:
                over -= other.trim(other.reader)
        if over > 0:
            over -= block.trim(keep_from)
        if over > 0:
            self._evict(block, over)

    def shrink(self) -> None:
        """The disk is full: there is no more room than is taken."""
        self._most = sum(used.kept for used in self._used)

    def check_fits(self, block: Occupant, size: int) -> None:
        """Raise ``SpoolFullError`` when ``block`` cannot keep all of ``size`` bytes."""
        dirty = [used for used in self._used if used.dirty and used is not block]
        if len(dirty) >= _MOST_FILES:
            raise SpoolFullError(f"{len(dirty)} blocks are being written already; close some", block=block.number)
        taken = sum(used.kept for used in dirty)
        if taken + size > self.most:
            raise SpoolFullError(
                f"its {size} bytes must be decoded to be written, and {self.most - taken} are left for that",
                block=block.number,
                remedy=Remedy.MORE_SPOOL,
            )

    def _evict(self, block: Occupant, over: int, *, ended: bool = False) -> int:
        """Have others give up ``over`` bytes, or what they can; how many.  ``ended``: only complete ones."""
        given = 0
        for other in self._others(block):
            if given < over and (other.ended or not ended):
                given += max(1, other.kept)
                other.restart()
        return given

    def _others(self, block: Occupant) -> list[Occupant]:
        """Those that may give something up, the least recently used first."""
        return [other for other in self._used if other is not block and not other.dirty and not other.busy]
