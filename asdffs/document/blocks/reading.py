"""Reads blocks: their headers, sizes and content, decoded or as they are stored.

While a block is overwritten its readers wait; readers of others do not (``locks``).  The caller holds the main lock.
"""

from __future__ import annotations

import contextlib
from typing import Final, NamedTuple

from asdffs.document.blocks.checksums import find_fault
from asdffs.document.blocks.codecs import BlockCodecs
from asdffs.document.blocks.compressed import CompressedBlocks
from asdffs.document.blocks.decoding import RetiredError
from asdffs.document.blocks.editor import BlockEditor
from asdffs.document.blocks.locks import BlockLocks
from asdffs.document.blocks.table import BlockTable
from asdffs.document.blocks.transaction import Transaction
from asdffs.document.blocks.windows import Window
from asdffs.document.changes import Changes
from asdffs.document.progress import Progress
from asdffs.errors import DamagedBlockError, Remedy
from asdffs.format.block_header import BlockHeader
from asdffs.scheduling import RankedLock, Scheduler
from asdffs.storage.backend import Extent, read_bytes
from asdffs.storage.sharing import Stretch

_CUT_OFF: Final = "the file ends inside this block"
#: Sizes of files have 63 bits.
_LARGEST = (1 << 63) - 1


class BlockParts(NamedTuple):
    """What reading and storing blocks share.  ``change``: held by whoever changes the file."""

    transaction: Transaction
    table: BlockTable
    editor: BlockEditor
    codecs: BlockCodecs
    compressed: CompressedBlocks
    locks: BlockLocks
    change: RankedLock
    changes: Changes
    scheduler: Scheduler
    progress: Progress


class BlockReader:
    """The blocks of a file.  ``verify``: checksums are looked at before the first read."""

    def __init__(self, parts: BlockParts, *, verify: bool) -> None:
        self._transaction = parts.transaction
        self._table = parts.table
        self._editor = parts.editor
        self._codecs = parts.codecs
        self._compressed = parts.compressed
        self._locks = parts.locks
        self._change = parts.change
        self._scheduler = parts.scheduler
        self._progress = parts.progress
        self._verify = verify
        self._checked: dict[int, str] = {}

    @property
    def count(self) -> int:
        """Number of blocks."""
        return len(self._table)

    def header(self, number: int) -> BlockHeader:
        """The header as it is on disk.  Raises ``DamagedBlockError``."""
        self._locks.await_move()
        return self._table.header(number)

    def size(self, number: int) -> int:
        """Decoded size in bytes, pending changes included.  Raises ``DamagedBlockError``."""
        return self._size(number, self.header(number))

    def _size(self, number: int, header: BlockHeader) -> int:
        size = self._compressed.size(number) if header.compressed else self._editor.used(number)
        if size > _LARGEST:
            raise DamagedBlockError(f"its size of {size} bytes cannot be right", block=number)
        return size

    def check_readable(self, number: int) -> None:
        """Raise ``DamagedBlockError`` when nothing of the block can be read."""
        self.size(number)

    def stated_size(self, number: int) -> int | None:
        """The decoded size of a block, also of one that nobody here can decode; None where it is not known."""
        try:
            return self.header(number).data_size if self.obstacle(number) else self.size(number)
        except (DamagedBlockError, OSError):
            return None

    def obstacle(self, number: int) -> str:
        """Why the block can only be shown as it is stored; empty when it can be decoded."""
        return self.codecs.obstacle(number)

    @property
    def codecs(self) -> BlockCodecs:
        """Which codec each block has; asked for anew each time, because blocks may be moving."""
        self._locks.await_move()
        return self._codecs

    def read(self, number: int, offset: int, length: int) -> bytes | Extent:
        """Decoded bytes of a block, fewer where it ends.  Raises ``DamagedBlockError``, ``OSError``."""
        if self._verify and not self._compressed.is_dirty(number):
            self._check_sum(number)
        return self.read_decoded(number, offset, length)

    def window(self, number: int) -> Window | None:
        """Where all of a block can be read, and until when; None where each read must be looked at."""
        header = self._table.header(number)
        if self._verify or header.compressed or header.streamed or self._locks.unsteady(number):
            return None
        start, size = self._table.offset(number) + header.full_size, self._size(number, header)
        if not size or start + size > self._table.layout.size:
            return None
        place = self._transaction.backend.extent(start, 0)
        if not isinstance(place, Extent):  # it is in memory
            return None
        return Window(
            self._table,
            number,
            place,
            size,
            moving=self._transaction.moving,
            lock=self._locks.of(number),
            change=self._change,
            begun=self._editor.has_begun(number),
        )

    def read_decoded(self, number: int, offset: int, length: int) -> bytes | Extent:
        """Decoded bytes, whatever the checksum says.  Raises ``DamagedBlockError``, ``OSError``."""
        while True:
            self._locks.await_steady(number, also=not self._compressed.is_dirty(number))
            header = self._table.header(number)
            length = max(0, min(length, self._size(number, header) - offset))
            decoded = self._compressed.block(number) if header.compressed else None
            if decoded is None:
                return self._extent(number, header, offset, length)
            with contextlib.suppress(RetiredError):  # it was stored in another way while this waited
                return decoded.read(offset, length) if length or not decoded.size else b""

    def read_stored(self, number: int, offset: int, length: int) -> bytes:
        """Bytes of a block as they are stored, fewer where it ends.  Raises ``DamagedBlockError``, ``OSError``."""
        return read_bytes(self.read_stored_extent(number, offset, length))

    def read_stored_extent(self, number: int, offset: int, length: int) -> bytes | Extent:
        """As ``read_stored``, or where the bytes are."""
        self._locks.await_steady(number)
        span = self._table.content(number).clip(offset, length)
        return self._transaction.backend.extent(span.start, len(span)) if span else b""

    def stored_stretch(self, number: int) -> Stretch:
        """Where the stored bytes of a block are.  Raises ``DamagedBlockError``, also when the file ends there."""
        self._locks.await_steady(number)
        span, header = self._table.content(number), self._table.header(number)
        if not header.streamed and len(span) < header.used_size:
            raise self._cut_off(number)
        return Stretch(self._transaction.backend, span.start, len(span))

    def find_fault(self, number: int) -> str:
        """A sentence when the block's checksum is wrong, or empty.  Raises ``DamagedBlockError``, ``OSError``."""
        header = self.header(number)
        self.stored_stretch(number)  # there is all of it
        with self._progress.over("verification", header.used_size, number) as step:
            return find_fault(
                header,
                lambda offset, length: self.read_stored(number, offset, length),
                lambda offset, length: read_bytes(self.read_decoded(number, offset, length)),
                scheduler=self._scheduler,
                step=step,
            )

    def _extent(self, number: int, header: BlockHeader, offset: int, length: int) -> bytes | Extent:
        if not length:
            return b""
        start = self._table.offset(number) + header.full_size + offset
        if start + length > self._table.layout.size:
            raise self._cut_off(number)
        return self._transaction.backend.extent(start, length)

    def _check_sum(self, number: int) -> None:
        """Before the first read: raise ``DamagedBlockError`` when the checksum is wrong."""
        if number not in self._checked:
            with self._locks.of(number).entered():
                self._checked[number] = self._checked.get(number) or self.find_fault(number)
        if self._checked.get(number):
            raise DamagedBlockError(self._checked[number], block=number)

    def _cut_off(self, number: int) -> DamagedBlockError:
        return DamagedBlockError(_CUT_OFF, block=number, offset=self._table.layout.size, remedy=Remedy.STORED_BYTES)

    def trust(self, number: int) -> None:
        """The block was written: its old checksum says nothing any more."""
        self._checked[number] = ""

    def forget_sum(self, number: int) -> None:
        """Block ``number`` is another one from now on."""
        self._checked.pop(number, None)

    def check_sound(self, number: int) -> None:
        """Before all of a block gets a new checksum: the old one must be right, or what is wrong would be hidden."""
        if not self._compressed.is_dirty(number) and number not in self._editor.written:
            fault = self.find_fault(number)
            if fault:
                raise DamagedBlockError(fault, block=number)
