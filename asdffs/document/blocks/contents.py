"""All changes of the content of blocks, uncompressed or compressed.

``reading`` has the reads, and ``committing`` encodes and commits blocks.  The caller holds the main lock.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple

from asdffs.codecs.base import Codec
from asdffs.document.blocks.codecs import BlockCodecs
from asdffs.document.blocks.compressed import CompressedBlocks
from asdffs.document.blocks.editor import BlockEditor
from asdffs.document.blocks.locks import BlockLocks
from asdffs.document.blocks.reading import BlockParts, BlockReader, Window
from asdffs.document.blocks.spool import SpoolRoom
from asdffs.document.blocks.table import BlockTable
from asdffs.document.blocks.transaction import Transaction
from asdffs.document.changes import BLOCKS, Changes
from asdffs.document.report import Progress
from asdffs.format.block_header import HeaderForm
from asdffs.format.layout import Padding
from asdffs.scheduling import RankedLock, Scheduler

if TYPE_CHECKING:  # who only reads encodes nothing
    from asdffs.document.blocks.allocation import Encoded
    from asdffs.document.blocks.committing import BlockCommitter, Readable
    from asdffs.document.blocks.decoding import DecodedBlock
    from asdffs.storage.sidecars import Payload

logger = logging.getLogger(__name__)


class ChecksumPolicy(NamedTuple):
    """The handling of checksums.

    ``keep``: a changed block that had a checksum gets a new one.  ``verify``: check the checksum of a block before
    its first read.
    """

    keep: bool = True
    verify: bool = False


class Contents(BlockReader):
    """The contents of the blocks of ``table``, for reading and changing.

    ``change``: the lock that a change of the file holds.  Methods "under ``change``" are called with it held.
    ``order(number)`` returns the byteorder that the tree states for the content of a block.

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
    ) -> None:
        known = BlockCodecs(codecs, table.header, self.read_stored, order)
        parts = BlockParts(
            transaction,
            table,
            BlockEditor(transaction, table, policy, scheduler=scheduler, progress=progress, checksums=checksums.keep),
            known,
            CompressedBlocks(
                known,
                room,
                scheduler,
                progress=progress,
                header=table.header,
                read_stored=self.read_stored,
                fetch_ahead=self.fetch_ahead,
                known=lambda: transaction.known,
            ),
            BlockLocks(scheduler, lambda: transaction.moving),
            change,
            changes,
            scheduler,
            progress,
        )
        super().__init__(parts, verify=checksums.verify)
        self.shrunk: dict[int, int] = {}
        self._changes = changes
        self._room = room
        self._parts = parts

    @functools.cached_property
    def _committer(self) -> BlockCommitter:
        from asdffs.document.blocks.committing import BlockCommitter

        return BlockCommitter(self._parts, self, self._room)

    # -- pending changes --------------------------------------------------

    @property
    def pending(self) -> bool:
        """Whether ``commit_all`` or ``finish`` has something to do."""
        return self._editor.pending or bool(self._compressed.dirty)

    def give_name(self, number: int, path: str) -> bool:
        """Save the uncommitted content of a compressed block as the file ``path``.

        Return False if the block has none.  Raises ``OSError``.
        """
        block = self._compressed.block(number) if self._compressed.is_dirty(number) else None
        if block is not None:
            _tell_lost(number, block.give_name(path))
        return block is not None

    def detach(self, number: int) -> None:
        """Stop reading the stored bytes of an uncommitted block, and log how many bytes of content are lost.

        See ``DecodedBlock.detach``.  Raises ``OSError``.
        """
        block = self._compressed.block(number) if self._compressed.is_dirty(number) else None
        if block is not None:
            _tell_lost(number, block.detach())

    @property
    def uncommitted(self) -> tuple[int, ...]:
        """Numbers of the compressed blocks with content that is not yet in the ASDF file."""
        return self._compressed.dirty

    @property
    def written(self) -> tuple[int, ...]:
        """Numbers of the blocks that were written since the file was last finished, in ascending order."""
        return tuple(sorted({*self._editor.written, *self._compressed.dirty}))

    @property
    def busy(self) -> bool:
        """Whether a block is being decoded, changed or committed, so a reload of the file must wait."""
        return self._compressed.busy or self._locks.taken

    def count_pieces(self, number: int) -> int | None:
        """Return how many pieces of a compressed block can be decoded one by one; None if that is not known.

        Of remote files it is not asked for: each piece may be a request.  Raises ``OSError``.
        """
        if not self._table.header(number).compressed or self._transaction.known.device == 0:
            return None
        return self._compressed.count_pieces(number)

    # -- changes ----------------------------------------------------------

    def write(self, number: int, offset: int, payload: bytes | memoryview) -> None:
        """Write ``payload`` at ``offset`` of the content; a gap before it reads as zeros.

        Raises ``NotPermittedError`` if the encoding of the block limits its size, or as ``BlockEditor.write`` and
        ``DecodedBlock.write``.
        """
        with self._committer.changing(number):
            decoded = self._decoded(number)
            if decoded is not None:
                self._codecs.check_size(number, offset + len(payload))
                decoded.write(offset, payload)
                return
            with self._change.entered():
                self._editor.write(number, offset, payload)

    def overwrite(self, window: Window, offset: int, payload: bytes | memoryview) -> int:
        """Write content inside a window.  See ``Window.write``."""
        return window.write(offset, payload, self._transaction, self._changes)

    def truncate(self, number: int, size: int) -> None:
        """Set the size of the content in bytes; added bytes read as zeros.

        Raises ``InUseError`` if a mapped block would shrink, or as ``write``.
        """
        with self._committer.changing(number):
            if size < (before := self.size(number)):
                self._transaction.pins.check(number)
                self.shrunk.setdefault(number, before)
            decoded = self._decoded(number)
            if decoded is not None:
                self._codecs.check_size(number, size)
                if size != decoded.size:
                    decoded.truncate(size)
                return
            with self._change.entered():
                self._editor.truncate(number, size)

    def check_writable(self, number: int) -> None:
        """Raise ``ReadOnlyError`` or ``DamagedBlockError`` if the block cannot be written."""
        self._committer.check_writable(number)

    def flush(self, number: int, *, durable: bool) -> None:
        """Write pending changes of block ``number`` into the file; with ``durable``, sync it.

        Raises as ``set_compression``.
        """
        self._committer.flush(number, durable=durable)

    def commit_all(self) -> None:
        """Commit all dirty blocks.  See ``BlockCommitter.commit_all``."""
        self._committer.commit_all()

    def set_compression(self, number: int, name: str) -> None:
        """Change the compression of the block, durably.  See ``BlockCommitter.set_compression``."""
        self._committer.set_compression(number, name)

    def replace(self, number: int, content: Readable) -> None:
        """Replace the content of the block atomically and durably.  Raises as ``set_compression``."""
        before = self.stated_size(number)
        self._committer.replace(number, content)
        if before is not None and content.size < before:
            self.shrunk.setdefault(number, before)

    def encoded(self, number: int, codec: Codec | None, payload: Payload) -> Encoded:
        """Encode the block with ``codec`` into ``payload``.  See ``BlockCommitter.encoded``."""
        return self._committer.encoded(number, codec, payload)

    def codec(self, name: str, form: HeaderForm | None = None) -> Codec | None:
        """Return the codec with the name ``name`` for a block with a header of ``form``; None for ``none``.

        Without ``form``, the form of new blocks is meant.  Raises ``NameRefusedError``, ``NotSupportedError``.
        """
        return self._codecs.named(name, form or self._table.layout.rules.new)

    def reorder(self) -> None:
        """After a change of the tree: drop the decoded blocks for which it states another byteorder now."""
        for number in self._codecs.reordered():
            self._compressed.forget(number)
            self._changes.note_content(number)

    def create_payload(self) -> Payload:
        """Create a payload without a name in the spool, for ``encoded``.  Raises ``OSError``."""
        from asdffs.storage.sidecars import create_unnamed

        return create_unnamed(self._room.directory)

    def reserve(self, number: int, size: int) -> None:
        """Allocate ``size`` bytes in the file for the block.  Raises as ``BlockEditor.reserve``."""
        with self._locks.of(number).entered(), self._change.entered():
            self._editor.reserve(number, size)

    def revert(self, number: int) -> None:
        """Discard the uncommitted content of a compressed block."""
        with self._locks.of(number).entered():
            self._compressed.forget(number)
            self._changes.note_content(number)

    def append(self, padding_byte: bytes, sizes: Sequence[tuple[int, int]] = ((0, 0),)) -> range:
        """Append blocks of zeros, and return their numbers.  Under ``change``.

        ``sizes`` has the used and the allocated bytes of each block.  Raises as ``BlockEditor.append``.
        """
        first = self._editor.append(padding_byte, sizes)
        numbers = range(first, first + len(sizes))
        for number in numbers:
            self._changes.note_content(number)
        self._changes.note(BLOCKS)
        return numbers

    def clear(self, numbers: Sequence[int]) -> None:
        """Empty blocks to which the tree no longer refers.  Under ``change``.

        Raises ``InUseError`` or as ``Transaction``.
        """
        for number in numbers:
            self._transaction.pins.check(number)
        self._editor.clear(numbers)
        for number in numbers:
            self._compressed.forget(number)
            self.forget_sum(number)
            self._changes.note_content(number)

    def locked(self, number: int) -> AbstractContextManager[None]:
        """Hold the lock of the block, so that it is not written or committed inside the ``with`` block."""
        return self._locks.of(number).entered()

    def remove_last(self) -> None:
        """Remove the last block.  Under ``change``.  Raises ``InUseError`` or as ``BlockEditor.remove_last``."""
        number = len(self._table) - 1
        self._transaction.pins.check(number)
        self._editor.remove_last()
        self._compressed.forget(number)
        self.forget_sum(number)

    def flush_appended(self) -> None:
        """Make appended blocks durable.  Under ``change``.  Raises as ``Transaction``."""
        self._editor.flush_appended()

    def finish(self) -> None:
        """Finish the blocks that were written in place: sizes and checksums.  Under ``change``.

        Stops early if another thread wants the lock ``change``.  Raises as ``BlockEditor.finish``.
        """
        self._editor.finish(interrupted=lambda: self._change.wanted)
        self._table.pinned = self.pending

    def close(self) -> None:
        """Close all spool files."""
        self._compressed.close()

    # -- internals --------------------------------------------------------

    def _decoded(self, number: int) -> DecodedBlock | None:
        """Return the decoded block that is about to be written; None if it is not compressed.

        ``changing`` has already checked that the block may be written.
        """
        if not self._table.header(number).compressed:
            return None
        self._transaction.mode.check_healthy()
        self._transaction.mode.check_conflict()
        self._table.pinned = True
        return self._compressed.block(number)


def _tell_lost(number: int, lost: int) -> None:
    """Log how many bytes of a block that was written in part are not in its copy."""
    if lost:
        logger.warning("block %d: %d bytes that were not read or written here are zeros in its copy", number, lost)
