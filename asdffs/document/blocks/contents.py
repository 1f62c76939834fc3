"""The contents of all blocks of a document, whether they are stored as they are or compressed.

Rules.  1. Whoever changes a block, or stores it anew, holds its lock; only the last step, which
changes the file, holds the document's ``change``, so a long recompression holds up nobody else.
2. While a block is overwritten its readers wait; readers of others do not.  3. What is dirty in
the spool is stored at the last close, fsync or finish (``settle``, ``store_all``).

One thread at a time has the turn.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, NamedTuple

from asdffs.codecs.base import Codec
from asdffs.document.blocks.checksums import find_fault
from asdffs.document.blocks.codecs import BlockCodecs
from asdffs.document.blocks.compressed import CompressedBlocks
from asdffs.document.blocks.decoding import DecodedBlock, RetiredError
from asdffs.document.blocks.editor import BlockEditor
from asdffs.document.blocks.encoding import Encoded, encode
from asdffs.document.blocks.locks import BlockLocks
from asdffs.document.blocks.spool_room import SpoolRoom
from asdffs.document.blocks.table import BlockTable
from asdffs.document.blocks.transaction import Transaction
from asdffs.document.changes import BLOCKS, Changes, content, stored
from asdffs.document.progress import Progress
from asdffs.errors import AsdffsError, DamagedBlockError, NotPermittedError, ReadOnlyError
from asdffs.format.block_form import HeaderForm
from asdffs.format.block_header import BlockHeader
from asdffs.format.constants import NO_COMPRESSION
from asdffs.format.padding import Padding
from asdffs.relief import Exclusive, Relief
from asdffs.storage.payload import Payload, create_unnamed
from asdffs.storage.sharing import Stretch
from asdffs.storage.store import Extent, read_bytes

_CUT_OFF: Final = "the file ends inside this block; 'asdffs block FILE N --stored' prints what is left of it"
#: Sizes of files have 63 bits.
_LARGEST = (1 << 63) - 1


class Care(NamedTuple):
    """What is done about checksums.  ``keep``: changed blocks get a new one; ``verify``: before the first read."""

    keep: bool = True
    verify: bool = False


class Readable(NamedTuple):
    """What is to be in a block: ``size`` bytes, that ``read(offset, length)`` gives."""

    size: int
    read: Callable[[int, int], bytes]


class Window:
    """``size`` bytes from ``start`` on of the open file ``fd`` are the content of block ``number``.

    It holds as long as the table has the same epoch and nothing is ``moving``.  ``begun``: the block was written
    since the file was finished, so its header has no checksum.
    """

    __slots__ = ("_change", "_epoch", "_lock", "_subjects", "_table", "begun", "fd", "moving", "size", "start")

    def __init__(
        self,
        table: BlockTable,
        number: int,
        place: Extent,
        size: int,
        *,
        moving: Exclusive,
        lock: Exclusive,
        change: Exclusive,
        begun: bool,
    ) -> None:
        """``lock``: of the block; ``change``: held by whoever changes the file, and so by whoever moves blocks."""
        self._table = table
        self._epoch = table.epoch
        self._subjects = (content(number), stored(number))
        self._lock = lock
        self._change = change
        self.fd = place.fd
        self.start = place.offset
        self.size = size
        self.moving = moving
        self.begun = begun

    def write(self, offset: int, payload: bytes | memoryview, transaction: Transaction, changes: Changes) -> int:
        """Write content through ``transaction``; return the stamp of the change.

        0, and nothing is done, where the block must be asked: it was not written yet, it grows, it is being changed.
        Raises as ``Transaction.write_content``.
        """
        if not self.begun or self._table.epoch != self._epoch or offset + len(payload) > self.size:
            return 0
        if self._lock.taken or self._change.taken:
            return 0
        try:
            transaction.write_content(self.start + offset, payload)
        finally:  # a write that failed may have written something
            changes.note(*self._subjects)
        return changes.last


class Contents:
    """The blocks of ``table``.  ``change``: held by who changes the file.

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
        change: Exclusive,
        relief: Relief,
        progress: Progress,
        care: Care,
        changes: Changes,
        order: Callable[[int], str],
    ) -> None:
        self._transaction = transaction
        self._changes = changes
        self._table = table
        self._room = room
        self._change = change
        self._relief = relief
        self._progress = progress
        self._verify = care.verify
        self._checked: dict[int, str] = {}
        self._locks = BlockLocks(relief, lambda: transaction.moving)
        self._editor = BlockEditor(transaction, table, policy, relief=relief, progress=progress, checksums=care.keep)
        self._codecs = BlockCodecs(codecs, table.header, self.read_stored, order)
        self._compressed = CompressedBlocks(
            self._codecs, room, relief, progress=progress, header=table.header, read_stored=self.read_stored
        )

    # -- what there is ----------------------------------------------------

    @property
    def count(self) -> int:
        """Number of blocks."""
        return len(self._table)

    @property
    def pending(self) -> bool:
        """Whether ``store_all`` and ``finish`` have something to do."""
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
    def unstored(self) -> tuple[int, ...]:
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
        return self._read(number, offset, length)

    def window(self, number: int) -> Window | None:
        """Where all of a block can be read, and until when; None where each read must be looked at."""
        header = self._table.header(number)
        if self._verify or header.compressed or header.streamed or self._locks.unsteady(number):
            return None
        start, size = self._table.offset(number) + header.full_size, self._size(number, header)
        if not size or start + size > self._table.layout.size:
            return None
        place = self._transaction.store.extent(start, 0)
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

    def _read(self, number: int, offset: int, length: int) -> bytes | Extent:
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
        return self._transaction.store.extent(span.start, len(span)) if span else b""

    def stored_stretch(self, number: int) -> Stretch:
        """Where the stored bytes of a block are.  Raises ``DamagedBlockError``, also when the file ends there."""
        self._locks.await_steady(number)
        span, header = self._table.content(number), self._table.header(number)
        if not header.streamed and len(span) < header.used_size:
            raise DamagedBlockError(_CUT_OFF, block=number, offset=self._table.layout.size)
        return Stretch(self._transaction.store, span.start, len(span))

    # -- changes ----------------------------------------------------------

    def check_writable(self, number: int) -> None:
        """Raise ``ReadOnlyError`` or ``DamagedBlockError`` when the block cannot be written."""
        self._check_storable(number)
        why = self._codecs.read_only(number)
        if why:
            raise ReadOnlyError(why, block=number)

    def _check_storable(self, number: int) -> None:
        """As ``check_writable``, but for how it is stored now."""
        self._locks.await_move()
        self._editor.check_writable(number)
        obstacle = self.obstacle(number)
        if obstacle:
            raise ReadOnlyError(obstacle, block=number)

    def write(self, number: int, offset: int, payload: bytes | memoryview) -> None:
        """Write content.  Raises as ``BlockEditor.write``, ``DecodedBlock.write``."""
        with self._changing(number):
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
        with self._changing(number):
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

    def settle(self, number: int, *, durable: bool) -> None:
        """Have the file hold what was written; with ``durable`` sync.  Raises as ``set_compression``."""
        self._transaction.mode.check_conflict()  # what was written before it is beside the file, not in it
        with self._locks.of(number).entered():
            if number in self._compressed.dirty:
                self._store(number, self._codecs.of(number))
                return
            with self._change.entered():
                self._editor.settle(number, durable=durable)

    def set_compression(self, number: int, name: str) -> None:
        """Store the block in another compression, or in none, durably.

        Raises ``NotSupportedError``, ``NotPermittedError``, ``ReadOnlyError``, ``DamagedBlockError``,
        ``NoRoomError``, ``OSError`` or as ``Transaction``; the block is as it was then.
        """
        with self._changing(number, content=False):
            header = self._table.header(number)
            codec = self._codecs.named(name, header.form)
            if header.streamed:
                raise NotPermittedError("a streamed block cannot be compressed", block=number)
            if self._codecs.of(number) != codec or number in self._compressed.dirty:
                self._check_sound(number)
                self._store(number, codec)

    def replace(self, number: int, content: Readable) -> None:
        """Have ``content`` in the block: all of it or what was there, durably.

        In the block's own compression.  Raises as ``set_compression``.
        """
        with self._changing(number):
            header = self._table.header(number)
            if header.streamed:
                raise NotPermittedError("a streamed block is not replaced as a whole; append to it", block=number)
            self._store(number, self._codecs.of(number), content)

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

    def encoded(self, number: int, codec: Codec | None, payload: Payload) -> Encoded:
        """The block in another compression, in ``payload``; the file stays as it is.

        Raises ``DamagedBlockError``, ``NotSupportedError``, ``AbandonedError``, ``OSError``.
        """
        self._check_sound(number)
        return self._encode(number, codec, self._own(number), payload, needed=False)

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
            self._checked.pop(number, None)
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
        self._checked.pop(number, None)

    def settle_appended(self) -> None:
        """Make blocks that were appended durable.  Under ``change``.  Raises as ``Transaction``."""
        self._editor.settle_appended()

    def store_all(self) -> None:
        """Store what is dirty in the spool; one that fails keeps no other from it.  Raises as ``settle``."""
        failure: AsdffsError | OSError | None = None
        for number in self._compressed.dirty:
            try:
                self.settle(number, durable=True)
            except (AsdffsError, OSError) as err:
                failure = failure or err
        if failure is not None:
            raise failure

    def finish(self) -> None:
        """Settle what was written in place, with checksums.  Under ``change``.  Raises as ``BlockEditor.finish``."""
        self._editor.finish(interrupted=lambda: self._change.wanted)
        self._table.pinned = self.pending

    def close(self) -> None:
        """Give the spool files back."""
        self._compressed.close()

    # -- how --------------------------------------------------------------

    def _extent(self, number: int, header: BlockHeader, offset: int, length: int) -> bytes | Extent:
        if not length:
            return b""
        start = self._table.offset(number) + header.full_size + offset
        if start + length > self._table.layout.size:
            raise DamagedBlockError(_CUT_OFF, block=number, offset=self._table.layout.size)
        return self._transaction.store.extent(start, length)

    def _decoded(self, number: int) -> DecodedBlock | None:
        """The block if it is compressed, about to be written; ``_changing`` has looked whether it may be."""
        if not self._table.header(number).compressed:
            return None
        self._transaction.mode.check_healthy()
        self._transaction.mode.check_conflict()
        self._table.pinned = True
        return self._compressed.block(number)

    @contextlib.contextmanager
    def _changing(self, number: int, *, content: bool = True) -> Iterator[None]:
        """It is written, or (without ``content``) stored in another way: its old checksum says nothing any more."""
        with self._locks.of(number).entered():
            if content:
                self.check_writable(number)
            else:
                self._check_storable(number)
            try:
                yield
            finally:  # a write that failed may have written something
                self._table.touch()
                if content:
                    self._changes.note_content(number)
            self._checked[number] = ""

    def _own(self, number: int) -> Readable:
        """The content of the block as it is."""
        return Readable(self.size(number), lambda offset, length: read_bytes(self._read(number, offset, length)))

    def _encode(
        self, number: int, codec: Codec | None, content: Readable, payload: Payload, *, needed: bool
    ) -> Encoded:
        return encode(
            number,
            codec,
            content.size,
            content.read,
            payload,
            relief=self._relief,
            progress=self._progress,
            needed=needed,
        )

    def _store(self, number: int, codec: Codec | None, new: Readable | None = None) -> None:
        """Encode the block, or ``new`` content, and overwrite it with that.  Under its lock."""
        self._transaction.pins.check(number)
        self._transaction.mode.check_healthy()
        self._transaction.mode.check_conflict()
        payload = self._transaction.create_payload(self._room.directory)
        try:
            needed = new is not None or self._compressed.is_dirty(number)
            encoded = self._encode(number, codec, new or self._own(number), payload, needed=needed)
            with self._overwriting(number), self._change.entered():
                kept = self._editor.store(number, encoded)
                self._stored(number, same=new is None and encoded.compression != NO_COMPRESSION)
                self._editor.return_room(number, kept)
        finally:
            keep = bool(self._transaction.mode.failure)
            with self._relief.waiting():  # to free gigabytes takes a while
                payload.discard(keep=keep)

    @contextlib.contextmanager
    def _overwriting(self, number: int) -> Iterator[None]:
        """Readers of the block wait, unless all of it is in the spool; nobody is decoding it."""
        decoded = self._compressed.block(number) if self._table.header(number).compressed else None
        with contextlib.ExitStack() as stack:
            if decoded is not None:  # first: who decodes may have to wait for an overwrite, for its next piece
                stack.enter_context(decoded.exclusive.entered())
            stack.enter_context(self._locks.overwriting(number))
            self._table.touch()
            yield

    def _stored(self, number: int, *, same: bool) -> None:
        """The file has the block: what the spool has of it is right, or about bytes that are gone."""
        if same and self._compressed.is_dirty(number):
            self._compressed.saved(number)
        else:
            self._compressed.forget(number)
        self._changes.note(stored(number))

    def _check_sum(self, number: int) -> None:
        """Before the first read: raise ``DamagedBlockError`` when the checksum is wrong."""
        if number not in self._checked:
            with self._locks.of(number).entered():
                self._checked[number] = self._checked.get(number) or self.find_fault(number)
        if self._checked.get(number):
            raise DamagedBlockError(self._checked[number], block=number)

    def _check_sound(self, number: int) -> None:
        """Before all of a block gets a new checksum: the old one must be right, or what is wrong would be hidden."""
        if not self._compressed.is_dirty(number) and number not in self._editor.written:
            fault = self.find_fault(number)
            if fault:
                raise DamagedBlockError(fault, block=number)

    def find_fault(self, number: int) -> str:
        """A sentence when the block's checksum is wrong, or empty.  Raises ``DamagedBlockError``, ``OSError``."""
        header = self.header(number)
        self.stored_stretch(number)  # there is all of it
        with self._progress.over("verification", header.used_size, number) as step:
            return find_fault(
                header,
                lambda offset, length: self.read_stored(number, offset, length),
                lambda offset, length: read_bytes(self._read(number, offset, length)),
                relief=self._relief,
                step=step,
            )
