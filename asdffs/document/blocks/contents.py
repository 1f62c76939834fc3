"""The contents of all blocks of a file, stored as they are or compressed: every change of one.

``reading`` reads them, ``storing`` stores them anew.  The caller holds the main lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from asdffs.codecs.base import Codec
from asdffs.document.blocks.codecs import BlockCodecs
from asdffs.document.blocks.committing import BlockCommitter, Readable
from asdffs.document.blocks.compressed import CompressedBlocks
from asdffs.document.blocks.decoding import DecodedBlock
from asdffs.document.blocks.editor import BlockEditor
from asdffs.document.blocks.encoding import Encoded
from asdffs.document.blocks.locks import BlockLocks
from asdffs.document.blocks.reading import BlockParts, BlockReader
from asdffs.document.blocks.spool_room import SpoolRoom
from asdffs.document.blocks.table import BlockTable
from asdffs.document.blocks.transaction import Transaction
from asdffs.document.blocks.windows import Window
from asdffs.document.changes import BLOCKS, Changes
from asdffs.document.progress import Progress
from asdffs.format.block_form import HeaderForm
from asdffs.format.padding import Padding
from asdffs.scheduling import RankedLock, Scheduler
from asdffs.storage.payload import Payload, create_unnamed


class ChecksumPolicy(NamedTuple):
    """What is done about checksums.  ``keep``: changed blocks get a new one; ``verify``: before the first read."""

    keep: bool = True
    verify: bool = False


class Contents(BlockReader):
    """The blocks of ``table``: read, written, stored anew.  ``change``: held by who changes the file.

    ``order(number)``: the byteorder that the tree gives the content of a block.
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
                known, room, scheduler, progress=progress, header=table.header, read_stored=self.read_stored
            ),
            BlockLocks(scheduler, lambda: transaction.moving),
            change,
            changes,
            scheduler,
            progress,
        )
        super().__init__(parts, verify=checksums.verify)
        self._changes = changes
        self._room = room
        self._committer = BlockCommitter(parts, self, room)

    # -- what there is ----------------------------------------------------

    @property
    def pending(self) -> bool:
        """Whether ``commit_all`` and ``finish`` have something to do."""
        return self._editor.pending or bool(self._compressed.dirty)

    def give_name(self, number: int, path: str) -> bool:
        """Have what was written to a compressed block in a file at ``path``; False when the spool has none of it.

        Raises ``OSError``.
        """
        block = self._compressed.block(number) if self._compressed.is_dirty(number) else None
        if block is not None:
            block.give_name(path)
        return block is not None

    @property
    def uncommitted(self) -> tuple[int, ...]:
        """Blocks of which the file has not what was written."""
        return self._compressed.dirty

    @property
    def written(self) -> tuple[int, ...]:
        """Blocks that were written since the file was last finished."""
        return tuple(sorted({*self._editor.written, *self._compressed.dirty}))

    @property
    def busy(self) -> bool:
        """Whether something is under way that a change of the file by others must wait for."""
        return self._compressed.busy or self._locks.taken

    # -- changes ----------------------------------------------------------

    def write(self, number: int, offset: int, payload: bytes | memoryview) -> None:
        """Write content.  Raises as ``BlockEditor.write``, ``DecodedBlock.write``."""
        with self._committer.changing(number):
            decoded = self._decoded(number)
            if decoded is not None:
                self._codecs.check_size(number, offset + len(payload))
                decoded.write(offset, payload)
                return
            with self._change.entered():
                self._editor.write(number, offset, payload)

    def overwrite(self, window: Window, offset: int, payload: bytes | memoryview) -> int:
        """Write content inside a window, as ``Window.write``."""
        return window.write(offset, payload, self._transaction, self._changes)

    def truncate(self, number: int, size: int) -> None:
        """Set the size of the content.  Raises as ``write``."""
        with self._committer.changing(number):
            if size < self.size(number):
                self._transaction.pins.check(number)
            decoded = self._decoded(number)
            if decoded is not None:
                self._codecs.check_size(number, size)
                if size != decoded.size:
                    decoded.truncate(size)
                return
            with self._change.entered():
                self._editor.truncate(number, size)

    def check_writable(self, number: int) -> None:
        """Raise ``ReadOnlyError`` or ``DamagedBlockError`` when the block cannot be written."""
        self._committer.check_writable(number)

    def flush(self, number: int, *, durable: bool) -> None:
        """Have the file hold what was written; with ``durable`` sync.  Raises as ``set_compression``."""
        self._committer.flush(number, durable=durable)

    def commit_all(self) -> None:
        """Store what is dirty in the spool; one that fails keeps no other from it.  Raises as ``flush``."""
        self._committer.commit_all()

    def set_compression(self, number: int, name: str) -> None:
        """Compress the block in another way, or not at all, durably.  Raises as ``BlockCommitter``."""
        self._committer.set_compression(number, name)

    def replace(self, number: int, content: Readable) -> None:
        """Have ``content`` in the block, durably: all of it, or what was there.  Raises as ``set_compression``."""
        self._committer.replace(number, content)

    def encoded(self, number: int, codec: Codec | None, payload: Payload) -> Encoded:
        """The block in another compression, in ``payload``.  Raises as ``BlockCommitter.encoded``."""
        return self._committer.encoded(number, codec, payload)

    def codec(self, name: str, form: HeaderForm | None = None) -> Codec | None:
        """What users call ``name``, in a block whose header has ``form`` (as new ones have it); None for ``none``.

        Raises ``NameRefusedError``, ``NotSupportedError``.
        """
        return self._codecs.named(name, form or self._table.layout.rules.new)

    def reorder(self) -> None:
        """The tree was changed: what it gives another byteorder now is decoded anew."""
        for number in self._codecs.reordered():
            self._compressed.forget(number)
            self._changes.note_content(number)

    @property
    def spool(self) -> str:
        """The directory of the spool.  Raises ``OSError`` where the system has no such place."""
        return self._room.directory

    def create_payload(self) -> Payload:
        """A payload for ``encoded``, without a name, in the spool.  Raises ``OSError``."""
        return create_unnamed(self._room.directory)

    def reserve(self, number: int, size: int) -> None:
        """Allocate ``size`` bytes for the block.  Raises as ``BlockEditor.reserve``."""
        with self._locks.of(number).entered(), self._change.entered():
            self._editor.reserve(number, size)

    def revert(self, number: int) -> None:
        """Forget what was written to a compressed block and is not stored."""
        with self._locks.of(number).entered():
            self._compressed.forget(number)
            self._changes.note_content(number)

    def append(self, padding_byte: bytes, sizes: Sequence[tuple[int, int]] = ((0, 0),)) -> range:
        """Add blocks of zeros, of sizes and allocations; their numbers.  Under ``change``.

        Raises as ``BlockEditor.append``.
        """
        first = self._editor.append(padding_byte, sizes)
        numbers = range(first, first + len(sizes))
        for number in numbers:
            self._changes.note_content(number)
        self._changes.note(BLOCKS)
        return numbers

    def clear(self, numbers: Sequence[int]) -> None:
        """Empty blocks that nobody refers to.  Under ``change``.  Raises ``InUseError``, as ``Transaction``."""
        for number in numbers:
            self._transaction.pins.check(number)
        self._editor.clear(numbers)
        for number in numbers:
            self._compressed.forget(number)
            self.forget_sum(number)
            self._changes.note_content(number)

    def locked(self, number: int) -> AbstractContextManager[None]:
        """Nobody stores the block or writes to it inside."""
        return self._locks.of(number).entered()

    def remove_last(self) -> None:
        """Remove the last block.  Under ``change``.  Raises as ``BlockEditor.remove_last``."""
        number = len(self._table) - 1
        self._transaction.pins.check(number)
        self._editor.remove_last()
        self._compressed.forget(number)
        self.forget_sum(number)

    def flush_appended(self) -> None:
        """Make blocks that were appended durable.  Under ``change``.  Raises as ``Transaction``."""
        self._editor.flush_appended()

    def finish(self) -> None:
        """Settle what was written in place, with checksums.  Under ``change``.  Raises as ``BlockEditor.finish``."""
        self._editor.finish(interrupted=lambda: self._change.wanted)
        self._table.pinned = self.pending

    def close(self) -> None:
        """Give the spool files back."""
        self._compressed.close()

    # -- how --------------------------------------------------------------

    def _decoded(self, number: int) -> DecodedBlock | None:
        """The block if it is compressed, about to be written; ``changing`` has looked whether it may be."""
        if not self._table.header(number).compressed:
            return None
        self._transaction.mode.check_healthy()
        self._transaction.mode.check_conflict()
        self._table.pinned = True
        return self._compressed.block(number)
