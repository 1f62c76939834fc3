"""Reads of blocks: headers, sizes, and content as decoded or stored bytes; and windows, which need no further checks.

While a block is overwritten, its readers wait.  Readers of other blocks do not (``locks``).  The caller holds the
main lock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from asdffs.document.blocks.checksums import find_fault
from asdffs.document.blocks.codecs import BlockCodecs
from asdffs.document.blocks.compressed import CompressedBlocks
from asdffs.document.blocks.editor import BlockEditor
from asdffs.document.blocks.locks import BlockLocks, RetiredError
from asdffs.document.blocks.table import BlockTable
from asdffs.document.blocks.transaction import Transaction
from asdffs.document.changes import CONTENTS, Changes, content, stored
from asdffs.document.report import Progress
from asdffs.errors import DamagedBlockError, Remedy
from asdffs.format.block_header import BlockHeader
from asdffs.format.constants import NO_COMPRESSION
from asdffs.scheduling import RankedLock, Scheduler
from asdffs.storage.backend import Extent, read_bytes
from asdffs.storage.copying import Stretch

_CUT_OFF: Final = "the file ends inside this block"
#: File sizes have 63 bits.
_LARGEST = (1 << 63) - 1


class Window:
    """The content of block ``number``: ``size`` bytes from ``start`` on of the open file ``fd``.

    A window is for reads and writes without further checks.  It is valid as long as the epoch of the table stays the
    same and the lock ``moving`` is free.  ``begun``: the block was written since the file was last finished, so its
    header has no checksum.
    """

    __slots__ = ("_change", "_epoch", "_lock", "_subjects", "_table", "begun", "fd", "moving", "size", "start")

    def __init__(
        self,
        table: BlockTable,
        number: int,
        place: Extent,
        size: int,
        *,
        moving: RankedLock,
        lock: RankedLock,
        change: RankedLock,
        begun: bool,
    ) -> None:
        """``lock``: the lock of the block; ``change``: the lock for changes of the file, moves of blocks included."""
        self._table = table
        self._epoch = table.epoch
        self._subjects = (content(number), stored(number), CONTENTS)
        self._lock = lock
        self._change = change
        self.fd = place.fd
        self.start = place.offset
        self.size = size
        self.moving = moving
        self.begun = begun

    def write(self, offset: int, payload: bytes | memoryview, transaction: Transaction, changes: Changes) -> int:
        """Write ``payload`` at ``offset`` of the content through ``transaction``; return the stamp of the change.

        Return 0 and write nothing if the slow path must be taken: the block was not written yet (its header may have
        a checksum), the window is outdated, the block would grow, or the block or the file is being changed.  Raises
        as ``Transaction.write_content``.
        """
        if not self.begun or self._table.epoch != self._epoch or offset + len(payload) > self.size:
            return 0
        if self._lock.taken or self._change.taken:
            return 0
        try:
            transaction.write_content(self.start + offset, payload)
        finally:  # a failed write may have written a part
            changes.note(*self._subjects)
        return changes.last


class BlockParts(NamedTuple):
    """The parts shared by reading and committing.  ``change``: the lock for changes of the file."""

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
    """The reader of the blocks of a file.  ``verify``: verify the checksum of a block before its first read."""

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
        """Return the header as it is on the disk.  Raises ``DamagedBlockError``."""
        self._locks.await_move()
        return self._table.header(number)

    def size(self, number: int) -> int:
        """Return the decoded size in bytes, pending changes included.  Raises ``DamagedBlockError``."""
        return self._size(number, self.header(number))

    def _size(self, number: int, header: BlockHeader) -> int:
        plain = header.compression == NO_COMPRESSION
        size = self._editor.used(number) if plain else self._compressed.size(number)
        if size > _LARGEST:
            raise DamagedBlockError(f"its size of {size} bytes is not possible", block=number)
        return size

    def check_readable(self, number: int) -> None:
        """Raise ``DamagedBlockError`` if nothing of the block can be read."""
        self.size(number)

    def stated_size(self, number: int) -> int | None:
        """Return the decoded size in bytes; None if it is unknown.

        If the block cannot be decoded here, this is the size that its header states.
        """
        try:
            return self.header(number).data_size if self.obstacle(number) else self.size(number)
        except (DamagedBlockError, OSError):
            return None

    def obstacle(self, number: int) -> str:
        """Return why the block can only show its stored bytes; empty if it can be decoded."""
        return self.codecs.obstacle(number)

    @property
    def codecs(self) -> BlockCodecs:
        """The codecs of the blocks.  Do not keep the object: each access waits for moves of blocks."""
        self._locks.await_move()
        return self._codecs

    def read(self, number: int, offset: int, length: int) -> bytes | Extent:
        """Return decoded bytes of a block, fewer at its end.  Raises ``DamagedBlockError``, ``OSError``."""
        if self._verify and not self._compressed.is_dirty(number):
            self._check_sum(number)
        return self.read_decoded(number, offset, length)

    def window(self, number: int) -> Window | None:
        """Return a window to the whole content of a block; None if each read must take the slow path.

        Compressed and streamed blocks have no window, and none that must be verified, is cut off or is being changed.
        """
        header = self._table.header(number)
        if self._verify or header.compressed or header.streamed or self._locks.unsteady(number):
            return None
        start, size = self._table.offset(number) + header.full_size, self._size(number, header)
        if not size or start + size > self._table.layout.size:
            return None
        place = self._transaction.backend.extent(start, 0)
        if not isinstance(place, Extent):  # the file is in memory
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
        """Return decoded bytes without verifying the checksum.  Raises ``DamagedBlockError``, ``OSError``."""
        while True:
            self._locks.await_steady(number, also=not self._compressed.is_dirty(number))
            header = self._table.header(number)
            length = max(0, min(length, self._size(number, header) - offset))
            decoded = self._compressed.block(number) if header.compressed else None
            if decoded is None:
                return self._extent(number, header, offset, length)
            with contextlib.suppress(RetiredError):  # it was stored in another way meanwhile: read again
                return decoded.read(offset, length) if length or not decoded.size else b""

    def read_stored(self, number: int, offset: int, length: int) -> bytes:
        """Return stored bytes of a block, fewer at its end.  Raises ``DamagedBlockError``, ``OSError``."""
        return read_bytes(self.read_stored_extent(number, offset, length))

    def read_stored_extent(self, number: int, offset: int, length: int) -> bytes | Extent:
        """Return stored bytes as ``read_stored``, or their place in the file."""
        self._locks.await_steady(number)
        span = self._table.content(number).clip(offset, length)
        return self._transaction.backend.extent(span.start, len(span)) if span else b""

    def fetch_ahead(self, number: int, parts: Sequence[tuple[int, int]]) -> None:
        """Ask the server of a remote file for ``parts`` of a block at the same time, because reads of them follow.

        A part is an offset and a length, in stored bytes.  Does nothing for local files.
        """
        ask = getattr(self._transaction.whole, "fetch_ahead", None)
        if ask is not None:
            embedded = self._transaction.embedded
            start = self._table.content(number).start + (0 if embedded is None else embedded.start)
            ask([(start + offset, start + offset + length) for offset, length in parts])

    def stored_stretch(self, number: int) -> Stretch:
        """Return the place of all stored bytes of a block.  Raises ``DamagedBlockError``, also for a cut block."""
        self._locks.await_steady(number)
        span, header = self._table.content(number), self._table.header(number)
        if not header.streamed and len(span) < header.used_size:
            raise self._cut_off(number)
        return Stretch(self._transaction.backend, span.start, len(span))

    def find_fault(self, number: int) -> str:
        """Return a sentence if the checksum of the block is wrong, otherwise an empty string.

        Raises ``DamagedBlockError``, ``AbandonedError``, ``OSError``.
        """
        header = self.header(number)
        self.stored_stretch(number)  # raises if the block is cut off
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
        """Verify the checksum at the first read of a block.  Raise ``DamagedBlockError`` if it is wrong."""
        if number not in self._checked:
            with self._locks.of(number).entered():
                self._checked[number] = self._checked.get(number) or self.find_fault(number)
        if self._checked.get(number):
            raise DamagedBlockError(self._checked[number], block=number)

    def _cut_off(self, number: int) -> DamagedBlockError:
        return DamagedBlockError(_CUT_OFF, block=number, offset=self._table.layout.size, remedy=Remedy.STORED_BYTES)

    def trust(self, number: int) -> None:
        """Note that the block was written, so its old checksum is not verified any more."""
        self._checked[number] = ""

    def forget_sum(self, number: int) -> None:
        """Forget the result of the verification, because ``number`` is a new block now."""
        self._checked.pop(number, None)

    def check_sound(self, number: int) -> None:
        """Raise ``DamagedBlockError`` if the checksum of an unchanged block is wrong.

        Call this before the block gets a new checksum, which would hide the damage.
        """
        if not self._compressed.is_dirty(number) and number not in self._editor.written:
            fault = self.find_fault(number)
            if fault:
                raise DamagedBlockError(fault, block=number)
