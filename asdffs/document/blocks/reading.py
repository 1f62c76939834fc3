"""Reads of blocks: headers, sizes, content as decoded or stored bytes; and windows, for many small reads and writes.

While a block is overwritten, its readers wait.  Readers of other blocks do not (``locks``).  The caller holds the
main lock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from asdffs.codecs.base import Codec, Readable
from asdffs.document.blocks.codecs import BlockCodecs, digest_of, resuming
from asdffs.document.blocks.compressed import CompressedBlocks
from asdffs.document.blocks.editor import BlockEditor
from asdffs.document.blocks.locks import BlockLocks, RetiredError
from asdffs.document.blocks.spool import SpoolRoom
from asdffs.document.blocks.table import BlockTable
from asdffs.document.blocks.transaction import Transaction
from asdffs.document.changes import CONTENTS, Changes, content, stored
from asdffs.document.report import Progress
from asdffs.errors import AbandonedError, DamagedBlockError, Remedy
from asdffs.format.block_header import BlockHeader
from asdffs.format.constants import NO_COMPRESSION
from asdffs.format.layout import Padding
from asdffs.scheduling import RankedLock, Scheduler
from asdffs.storage.backend import Extent, RemoteFile, read_bytes

if TYPE_CHECKING:  # few keep old bytes, or copy a whole block
    from asdffs.document.blocks.keeping import Keeper
    from asdffs.storage.copying import Stretch

_CUT_OFF: Final = "the file ends inside this block"
#: File sizes have 63 bits.
_LARGEST = (1 << 63) - 1


class Window:
    """The content of block ``number``: ``size`` bytes from ``start`` on of the open file ``fd``.

    Reads and writes through a window do not ask again where the block is.  It is valid as long as the epoch of the
    table stays the same and the lock ``moving`` is free.
    """

    __slots__ = ("_begun", "_epoch", "_lock", "_number", "_reader", "_subjects", "fd", "moving", "size", "start")

    def __init__(self, reader: BlockReader, number: int, place: Extent, size: int) -> None:
        self._reader = reader
        self._epoch = reader.table.epoch
        self._subjects = (content(number), stored(number), CONTENTS)
        self._lock = reader.locks.of(number)
        self._number = number
        self._begun = reader.editor.has_begun(number)
        self.fd = place.fd
        self.start = place.offset
        self.size = size
        self.moving = reader.transaction.moving

    def write(self, offset: int, payload: bytes | memoryview) -> int:
        """Write ``payload`` at ``offset`` of the content; return the stamp of the change.

        Return 0 and write nothing if the slow path must be taken: the block was not written since the file was last
        finished (its header may have a checksum), the window is outdated, the block would grow, the block or the
        file is being changed, or old bytes must be kept first.  Raises as ``Transaction.write_content``.
        """
        reader = self._reader
        if not self._begun or reader.table.epoch != self._epoch or offset + len(payload) > self.size:
            return 0
        if self._lock.taken or reader.change.taken:
            return 0
        if reader.keeper is not None and not reader.keeper.has(self._number, offset, len(payload)):
            return 0
        try:
            reader.transaction.write_content(self.start + offset, payload)
        finally:  # a failed write may have written a part
            reader.changes.note(*self._subjects)
        return reader.changes.last


class ChecksumPolicy(NamedTuple):
    """The handling of checksums.

    ``keep``: a changed block that had a checksum gets a new one.  ``verify``: check the checksum of a block before
    its first read.
    """

    keep: bool = True
    verify: bool = False


class BlockReader:
    """The reader of the blocks of ``table``, and the parts that ``BlockStore`` and ``BlockCommitter`` share with it.

    ``room``: the spool for decoded blocks.  ``change``: the lock that a change of the file holds.  ``order(number)``
    returns the byteorder that the tree states for the content of a block.  ``sums_content()``: whether the MD5 of a
    compressed block is that of its content in this file, as old libraries have it.

    ``keeper``: keeps old bytes before changes; None if nothing is kept.

    ``shrunk``: number -> size in bytes before, of the blocks that were made smaller.
    """

    def __init__(
        self,
        transaction: Transaction,
        table: BlockTable,
        codecs: Mapping[bytes, Codec],
        room: SpoolRoom,
        *,
        policy: Padding,
        change: RankedLock,
        scheduler: Scheduler,
        progress: Progress,
        checksums: ChecksumPolicy,
        changes: Changes,
        order: Callable[[int], str],
        sums_content: Callable[[], bool],
        keeper: Keeper | None = None,
    ) -> None:
        self.keeper = keeper
        self.transaction = transaction
        self.sums_content = sums_content
        self.table = table
        self.room = room
        self.change = change
        self.changes = changes
        self.scheduler = scheduler
        self.progress = progress
        self.locks = BlockLocks(scheduler, transaction.moving)
        self.codecs = BlockCodecs(codecs, table, self.read_stored, order)
        self.editor = BlockEditor(
            transaction, table, policy, scheduler=scheduler, progress=progress, checksums=checksums.keep
        )
        self.compressed = CompressedBlocks(
            transaction,
            table,
            self.codecs,
            room,
            scheduler=scheduler,
            progress=progress,
            stored_reader=self.stored_reader,
            fetch_ahead=self.fetch_ahead,
        )
        self._verify = checksums.verify
        self._checked: dict[int, str] = {}
        self.shrunk: dict[int, int] = {}

    def size(self, number: int) -> int:
        """Return the decoded size in bytes, pending changes included.  Raises ``DamagedBlockError``."""
        return self._size(number, self.table.header(number))

    def _size(self, number: int, header: BlockHeader) -> int:
        plain = header.compression == NO_COMPRESSION
        size = self.editor.used(number) if plain else self.compressed.size(number)
        if size > _LARGEST:
            raise DamagedBlockError(f"its size of {size} bytes is not possible", block=number)
        return size

    def stated_size(self, number: int) -> int | None:
        """Return the decoded size in bytes; None if it is unknown.

        If the block cannot be decoded here, this is the size that its header states.
        """
        try:
            return self.table.header(number).data_size if self.codecs.obstacle(number) else self.size(number)
        except (DamagedBlockError, OSError):
            return None

    def read(self, number: int, offset: int, length: int) -> bytes | Extent:
        """Return decoded bytes of a block, fewer at its end.  Raises ``DamagedBlockError``, ``OSError``."""
        if self._verify and not self.compressed.is_dirty(number):
            self._check_sum(number)
        return self.read_decoded(number, offset, length)

    def window(self, number: int) -> Window | None:
        """Return a window to the whole content of a block; None if each read must take the slow path.

        Compressed and streamed blocks have no window, and none that must be verified, is cut off or is being changed.
        """
        header = self.table.header(number)
        if self._verify or header.compressed or header.streamed or self.locks.must_wait(number):
            return None
        start, size = self.table.offset(number) + header.full_size, self._size(number, header)
        if not size or start + size > self.table.layout.size:
            return None
        place = self.transaction.backend.extent(start, 0)
        if not isinstance(place, Extent):  # the file is in memory
            return None
        return Window(self, number, place, size)

    def read_decoded(self, number: int, offset: int, length: int) -> bytes | Extent:
        """Return decoded bytes without verifying the checksum.  Raises ``DamagedBlockError``, ``OSError``."""
        while True:
            self.locks.await_steady(number, stored=not self.compressed.is_dirty(number))
            header = self.table.header(number)
            length = max(0, min(length, self._size(number, header) - offset))
            decoded = self.compressed.block(number) if header.compressed else None
            if decoded is None:
                return self._extent(number, header, offset, length)
            with contextlib.suppress(RetiredError):  # it was stored in another way meanwhile: read again
                return decoded.read(offset, length) if length or not decoded.size else b""

    def content(self, number: int) -> Readable:
        """Return the current content of a block, without verifying its checksum."""
        return Readable(
            self.size(number), lambda offset, length: read_bytes(self.read_decoded(number, offset, length))
        )

    def read_stored(self, number: int, offset: int, length: int) -> bytes:
        """Return stored bytes of a block, fewer at its end.  Raises ``DamagedBlockError``, ``OSError``."""
        return self.stored_reader(number)(offset, length)

    def stored_reader(self, number: int) -> Callable[[int, int], bytes]:
        """Return what reads stored bytes of a block as long as nobody else can change the file.

        That is as long as the main lock is held; a remote file, which no one changes, releases it while it waits.
        Raises as ``read_stored``.
        """
        self.locks.await_steady(number)
        span, backend = self.table.content(number), self.transaction.backend

        def read(offset: int, length: int) -> bytes:
            part = span[offset : offset + length]
            return backend.read_at(part.start, len(part)) if part else b""

        return read

    def read_stored_extent(self, number: int, offset: int, length: int) -> bytes | Extent:
        """Return stored bytes as ``read_stored``, or their place in the file."""
        self.locks.await_steady(number)
        span = self.table.content(number)[offset : offset + length]
        return self.transaction.backend.extent(span.start, len(span)) if span else b""

    def fetch_ahead(self, number: int, parts: Sequence[tuple[int, int]]) -> None:
        """Ask the server of a remote file for ``parts`` of a block at the same time, because reads of them follow.

        A part is an offset and a length, in stored bytes.  Does nothing for local files.
        """
        whole = self.transaction.whole
        if isinstance(whole, RemoteFile):
            embedded = self.transaction.embedded
            start = self.table.content(number).start + (0 if embedded is None else embedded.start)
            whole.fetch_ahead([(start + offset, start + offset + length) for offset, length in parts])

    def stored_stretch(self, number: int) -> Stretch:
        """Return the place of all stored bytes of a block.  Raises ``DamagedBlockError``, also for a cut block."""
        from asdffs.storage.copying import Stretch

        self.locks.await_steady(number)
        span, header = self.table.content(number), self.table.header(number)
        if not header.streamed and len(span) < header.used_size:
            raise self._cut_off(number)
        return Stretch(self.transaction.backend, span.start, len(span))

    def find_fault(self, number: int) -> str:
        """Return a sentence if the checksum of the block is wrong, otherwise an empty string.

        The standard defines the MD5 of the stored bytes.  Some existing files have the MD5 of the decoded bytes, so
        both are accepted.  Streamed blocks and blocks without a checksum are not checked.

        Raises ``DamagedBlockError``, ``OSError``, and ``AbandonedError`` if the program that asked has ended.
        """
        header = self.table.header(number)
        self.stored_stretch(number)  # raises if the block is cut off
        if header.streamed or not header.verifiable:
            return ""
        with self.progress.over("verification", header.used_size, number) as step:
            found = self._sum(lambda offset, length: self.read_stored(number, offset, length), header.used_size, step)
            right = found == header.checksum
            if not right and header.compressed:
                found = self._sum(self.content(number).read, header.data_size, step)
                right = found == header.checksum
        if right:
            return ""
        return f"its checksum is {header.checksum.hex()}, but its bytes have the checksum {found.hex()}"

    def _sum(self, read: Callable[[int, int], bytes], size: int, step: Callable[[int], None]) -> bytes:
        """Return the MD5 of ``size`` bytes that ``read(offset, length)`` returns with the main lock held."""
        with self.scheduler.waiting():
            found = digest_of(resuming(read, self.scheduler), size, lambda: not self.scheduler.wanted, step)
        if found is None:
            raise AbandonedError("the program that asked for the block has ended")
        return found

    def _extent(self, number: int, header: BlockHeader, offset: int, length: int) -> bytes | Extent:
        if not length:
            return b""
        start = self.table.offset(number) + header.full_size + offset
        if start + length > self.table.layout.size:
            raise self._cut_off(number)
        return self.transaction.backend.extent(start, length)

    def _check_sum(self, number: int) -> None:
        """Verify the checksum at the first read of a block.  Raise ``DamagedBlockError`` if it is wrong."""
        if number not in self._checked:
            with self.locks.of(number):
                self._checked[number] = self._checked.get(number) or self.find_fault(number)
        if self._checked.get(number):
            raise DamagedBlockError(self._checked[number], block=number)

    def _cut_off(self, number: int) -> DamagedBlockError:
        return DamagedBlockError(_CUT_OFF, block=number, offset=self.table.layout.size, remedy=Remedy.STORED_BYTES)

    def skip_verification(self, number: int) -> None:
        """Note that the block was written, so its old checksum is not verified any more."""
        self._checked[number] = ""

    def forget_sum(self, number: int) -> None:
        """Forget the result of the verification, because ``number`` is a new block now."""
        self._checked.pop(number, None)

    def check_sound(self, number: int) -> None:
        """Raise ``DamagedBlockError`` if the checksum of an unchanged block is wrong.

        Call this before the block gets a new checksum, which would hide the damage.
        """
        if not self.compressed.is_dirty(number) and number not in self.editor.written:
            fault = self.find_fault(number)
            if fault:
                raise DamagedBlockError(fault, block=number)
