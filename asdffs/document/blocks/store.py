"""The store of the blocks of a file: changes of their content, uncompressed or compressed.

``reading`` has the reads, and the short way of writes that follow another one (``Window``); ``editor`` changes blocks
in place, and ``committing`` encodes and commits them.  A change asks here once whether the block may be written;
below, only ``Transaction`` asks whether the file may.  The caller holds the main lock.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from asdffs.codecs.base import Codec, Readable
from asdffs.document.blocks.reading import BlockReader
from asdffs.document.changes import BLOCKS
from asdffs.errors import ReadOnlyError
from asdffs.format.block_header import BlockHeader, HeaderForm
from asdffs.storage.backend import read_bytes

if TYPE_CHECKING:  # who only reads encodes nothing
    from asdffs.document.blocks.committing import BlockCommitter
    from asdffs.document.blocks.decoding import DecodedBlock
    from asdffs.storage.file_backend import FileFolder

logger = logging.getLogger(__name__)


class BlockStore(BlockReader):
    """The blocks of a file, for reading and changing.  Methods "under ``change``" are called with that lock held."""

    @functools.cached_property
    def committer(self) -> BlockCommitter:
        """What encodes and commits blocks."""
        from asdffs.document.blocks.committing import BlockCommitter

        return BlockCommitter(self)

    @property
    def pending(self) -> bool:
        """Whether ``commit_all`` or ``finish`` has something to do."""
        return bool(self.editor.written or self.compressed.dirty)

    def give_name(self, number: int, path: str) -> bool:
        """Save the uncommitted content of a compressed block as the file ``path``.

        Return False if the block has none.  Raises ``OSError``.
        """
        block = self._uncommitted(number)
        if block is not None:
            _log_lost(number, block.give_name(path))
        return block is not None

    def detach(self, number: int) -> None:
        """Stop reading the stored bytes of an uncommitted block, and log how many bytes of content are lost.

        See ``DecodedBlock.detach``.  Raises ``OSError``.
        """
        block = self._uncommitted(number)
        if block is not None:
            _log_lost(number, block.detach())

    def _uncommitted(self, number: int) -> DecodedBlock | None:
        return self.compressed.block(number) if self.compressed.is_dirty(number) else None

    @property
    def written(self) -> tuple[int, ...]:
        """Numbers of the blocks that were written since the file was last finished, in ascending order."""
        return tuple(sorted({*self.editor.written, *self.compressed.dirty}))

    @property
    def busy(self) -> bool:
        """Whether a block is being decoded, changed or committed, so a reload of the file must wait."""
        return self.compressed.busy or self.locks.taken

    def count_pieces(self, number: int) -> int | None:
        """Return how many pieces of a compressed block can be decoded one by one; None if that is not known.

        Of remote files it is not asked for: each piece may be a request.  Raises ``OSError``.
        """
        if not self.table.header(number).compressed or self.transaction.known.device == 0:
            return None
        return self.compressed.count_pieces(number)

    @contextlib.contextmanager
    def changing(self, number: int, *, content: bool = True) -> Iterator[BlockHeader]:
        """Hold the lock of the block for a change inside the ``with`` block, whose value is the header.

        The change is of the content or, without ``content``, only of the way in which it is stored.  Raises before
        the change as ``check_writable``.  Afterwards the old checksum is not verified any more.
        """
        with self.locks.of(number):
            header = self.check_writable(number, content=content)
            try:
                yield header
            finally:  # a failed write may have written a part
                self.table.touch()
                if content:
                    self.changes.note_content(number)
            self.skip_verification(number)

    def check_writable(self, number: int, *, content: bool = True) -> BlockHeader:
        """Return the header of the block.  Raise ``ReadOnlyError`` or ``DamagedBlockError`` if it cannot be written.

        Without ``content``, allow a block that is read-only only because of its current encoding.
        """
        header = self.table.header(number)
        self.editor.check_writable(number, header)
        if header.compressed:
            why = self.codecs.obstacle(number) or (self.codecs.read_only(number) if content else "")
            if why:
                raise ReadOnlyError(why, block=number)
        return header

    def write(self, number: int, offset: int, payload: bytes | memoryview) -> None:
        """Write ``payload`` at ``offset`` of the content; a gap before it reads as zeros.

        Raises ``NotPermittedError`` if the encoding of the block limits its size, or as ``BlockEditor.write`` and
        ``DecodedBlock.write``.
        """
        with self.changing(number) as header:
            self._keep(number, offset, len(payload))
            decoded = self._decoded(number) if header.compressed else None
            if decoded is not None:
                self.codecs.check_size(number, offset + len(payload))
                decoded.write(offset, payload)
                return
            with self.change:
                self.editor.write(number, offset, payload)

    def truncate(self, number: int, size: int) -> None:
        """Set the size of the content in bytes; added bytes read as zeros.

        Raises ``InUseError`` if a mapped block would shrink, or as ``write``.
        """
        with self.changing(number) as header:
            if size < (before := self.size(number)):
                self.transaction.pins.check(number)
                self.shrunk.setdefault(number, before)
            self._keep(number, min(size, before), abs(size - before))
            decoded = self._decoded(number) if header.compressed else None
            if decoded is not None:
                self.codecs.check_size(number, size)
                if size != decoded.size:
                    decoded.truncate(size)
                return
            with self.change:
                self.editor.truncate(number, size)

    def replace(self, number: int, content: Readable) -> None:
        """Replace the content of the block atomically and durably.  See ``BlockCommitter.replace``."""
        before = self.stated_size(number)
        with self.changing(number):
            self._keep(number, 0, before or 0)
            self.committer.replace(number, content)
        if before is not None and content.size < before:
            self.shrunk.setdefault(number, before)

    def set_compression(self, number: int, name: str) -> None:
        """Change the compression of the block, durably.  See ``BlockCommitter.set_compression``."""
        with self.changing(number, content=False):
            self.committer.set_compression(number, name)

    def codec(self, name: str, form: HeaderForm | None = None) -> Codec | None:
        """Return the codec with the name ``name`` for a block with a header of ``form``; None for ``none``.

        Without ``form``, the form of new blocks is meant.  Raises ``NameRefusedError``, ``NotSupportedError``.
        """
        return self.codecs.named(name, form or self.table.layout.rules.new)

    def reorder(self) -> None:
        """After a change of the tree: drop the decoded blocks for which it states another byteorder now."""
        for number in self.codecs.reordered():
            self.compressed.forget(number)
            self.changes.note_content(number)

    def reserve(self, number: int, size: int) -> None:
        """Allocate ``size`` bytes in the file for the block.  Raises as ``BlockEditor.reserve``."""
        with self.locks.of(number), self.change:
            self.editor.reserve(number, size)

    def revert(self, number: int) -> None:
        """Discard the uncommitted content of a compressed block."""
        with self.locks.of(number):
            self.compressed.forget(number)
            self.changes.note_content(number)

    def append(self, padding_byte: bytes, sizes: Sequence[tuple[int, int]]) -> range:
        """Append blocks of zeros, and return their numbers.  Under ``change``.

        ``sizes`` has the used and the allocated bytes of each block.  Raises as ``BlockEditor.append``.
        """
        first = self.editor.append(padding_byte, sizes)
        numbers = range(first, first + len(sizes))
        for number in numbers:
            self.changes.note_content(number)
        self.changes.note(BLOCKS)
        return numbers

    def clear(self, numbers: Sequence[int]) -> None:
        """Empty blocks to which the tree no longer refers.  Under ``change``.

        Raises ``InUseError`` or as ``Transaction``.
        """
        for number in numbers:
            self.transaction.pins.check(number)
            self._leave(number)
        self.editor.clear(numbers)
        for number in numbers:
            self.compressed.forget(number)
            self.forget_sum(number)
            self.changes.note_content(number)

    def remove_last(self) -> None:
        """Remove the last block.  Under ``change``.  Raises ``InUseError`` or as ``BlockEditor.remove_last``."""
        number = len(self.table) - 1
        self.transaction.pins.check(number)
        self._leave(number)
        self.editor.remove_last()
        self.compressed.forget(number)
        self.forget_sum(number)

    def finish(self) -> None:
        """Finish the blocks that were written in place: sizes and checksums.  Under ``change``.

        Stops early if another thread wants the lock ``change``.  Raises as ``BlockEditor.finish``.
        """
        self.editor.finish(interrupted=lambda: self.change.wanted)
        self.table.pinned = self.pending

    def _keep(self, number: int, offset: int, length: int) -> None:
        """Keep bytes that are about to be changed, if old bytes are kept.  Raises ``OSError``, ``AsdffsError``."""
        if self.keeper is not None:
            self.keeper.keep(number, offset, length, self.size, self._old)

    def _leave(self, number: int) -> None:
        if self.keeper is not None:
            from asdffs.storage.old_bytes import Why

            self.keeper.leave(number, Why.REMOVED)

    def end_session(self, is_foreign: Callable[[], bool]) -> None:
        """Note what the changed bytes are now, if old bytes are kept.

        ``is_foreign()``: whether another program changed the file, so the session cannot be taken back.
        """
        if self.keeper is not None:
            self.keeper.end(self.size, self._old, is_foreign)

    def end_killed_session(self, folder: FileFolder, name: str) -> None:
        """End the record of a session that was killed."""
        from asdffs.document.blocks.keeping import end_killed

        end_killed(folder, name, self.size, self._old, self.scheduler)

    def _old(self, number: int, offset: int, length: int) -> bytes:
        return read_bytes(self.read_decoded(number, offset, length))

    def _decoded(self, number: int) -> DecodedBlock | None:
        """Return the decoded block that is about to be written; None if it shows its stored bytes."""
        self.transaction.mode.check_healthy()
        self.transaction.mode.check_conflict()
        self.table.pinned = True
        return self.compressed.block(number)


def _log_lost(number: int, lost: int) -> None:
    """Log how many bytes of a block that was written in part are not in its copy."""
    if lost:
        logger.warning("block %d: %d bytes that were not read or written here are zeros in its copy", number, lost)
