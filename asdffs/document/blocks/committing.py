"""Commits of whole blocks: dirty content, another compression, or other content.

Rules:

1. A change or a commit of a block holds the lock of the block.  Only its last step, which changes the file, holds the
   lock ``change``.  So a long recompression does not block changes of other blocks.
2. While a block is overwritten, readers of this block wait.  Readers of other blocks do not.
3. Content is encoded into a payload, which then overwrites the old bytes of the block.  If the codec can encode one
   piece without the others, only the pieces that were written are encoded and overwritten, in one change of the file.
4. Dirty content in the spool is committed at the last close, at fsync and at finish (``flush``, ``commit_all``).

The caller holds the main lock, which is released while bytes are encoded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from asdffs.codecs.base import Codec, Encoding, Source, pieces
from asdffs.codecs.seeking import Rewritable, Slot
from asdffs.document.blocks.allocation import Encoded, NewSlot
from asdffs.document.blocks.checksums import new_digest
from asdffs.document.blocks.codecs import check_encoded, is_of_package, mistakes_told
from asdffs.document.blocks.reading import BlockParts, BlockReader
from asdffs.document.blocks.spool import SpoolRoom
from asdffs.document.changes import stored
from asdffs.document.report import Progress
from asdffs.errors import AbandonedError, AsdffsError, NotPermittedError, NotSupportedError, ReadOnlyError
from asdffs.format.block_header import BlockHeader
from asdffs.format.constants import NO_COMPRESSION
from asdffs.format.text import difference
from asdffs.scheduling import CHUNK, Scheduler
from asdffs.storage.backend import read_bytes
from asdffs.storage.sidecars import Payload


class ContentSource(NamedTuple):
    """The source of an encoder that runs without the main lock: the content of a block.  See ``Source``.

    ``read(offset, length)`` is called with the main lock held.  ``step(bytes)`` is called after each read.
    """

    size: int
    read: Callable[[int, int], bytes]
    scheduler: Scheduler
    step: Callable[[int], None]

    def read_at(self, offset: int, length: int) -> bytes:
        """See ``Source``.  Raises as ``read``."""
        with self.scheduler.resumed():
            found = self.read(offset, min(length, max(0, self.size - offset)))
        self.step(len(found))
        return found


def encode(
    number: int,
    codec: Codec | None,
    size: int,
    read: Callable[[int, int], bytes],
    payload: Payload,
    *,
    scheduler: Scheduler,
    progress: Progress,
    needed: bool = False,
) -> Encoded:
    """Encode content of ``size`` bytes for block ``number`` with ``codec`` into ``payload``.

    ``codec`` None stores the content without compression.  ``read(offset, length)`` returns content.  ``needed``: go
    on even if the mount is ending.

    Raises ``NotSupportedError`` if the format cannot hold the content; ``AbandonedError`` if the mount is ending; or
    as ``read``; or ``OSError``.
    """
    digest = new_digest()
    name = "compression" if codec is not None else "decompression"
    with progress.over(name, size, number) as step, scheduler.waiting():
        content = ContentSource(size, read, scheduler, step)
        try:
            for piece in _encoded(codec, content):
                if scheduler.stopping and not needed:
                    raise AbandonedError("the mount is ending, so the block was not changed", block=number)
                payload.append(piece)
                digest.update(piece)
            if codec is not None and is_of_package(codec):
                check_encoded(codec, _Stored(payload), content._replace(step=lambda _: None))
        except ValueError as err:
            raise NotSupportedError(str(err), block=number) from err
    return Encoded(payload, codec.id if codec is not None else NO_COMPRESSION, size, digest.digest())


def _encoded(codec: Codec | None, content: Source) -> Iterator[bytes]:
    """Return an iterator of the stored bytes.

    Empty content is stored as no bytes, which every reader accepts.  Only an ``Encoding`` must still be written.
    """
    if codec is None:
        return pieces(content)
    if not content.size and not isinstance(codec, Encoding):
        return iter(())
    return _guarded(codec, content) if is_of_package(codec) else codec.encode(content)


def _guarded(codec: Codec, content: Source) -> Iterator[bytes]:
    with mistakes_told(codec):
        yield from codec.encode(content)


class _Stored(NamedTuple):
    """The encoded bytes of a payload, to be decoded.  See ``codecs.base.Source``."""

    payload: Payload

    @property
    def size(self) -> int:
        return self.payload.size

    def read_at(self, offset: int, length: int) -> bytes:
        return self.payload.backend.read_at(offset, max(0, min(length, self.payload.size - offset)))


#: The most bytes, of content and of stored bytes, that are encoded in this way: the journal keeps them in memory.
_MOST: Final = 16 << 20
#: Slots get longer by a multiple of this, so that file systems can move the rest of the file without a copy.
_GRAIN: Final = 4096


def assemble(slots: list[NewSlot], old: BlockHeader, stored: Source, payload: Payload) -> Encoded:
    """Copy the stored bytes of a block with the header ``old``, and the new ones of ``slots``, into ``payload``.

    Raises as ``Source.read_at``, ``OSError``.
    """
    digest = new_digest()
    for piece in _assembled(slots, stored):
        payload.append(piece)
        digest.update(piece)
    return Encoded(payload, old.compression, old.data_size, digest.digest())


def _assembled(slots: list[NewSlot], stored: Source) -> Iterator[bytes]:
    place = 0
    for slot in [*slots, NewSlot(stored.size, 0, b"")]:
        for at in range(place, slot.place, CHUNK):
            yield stored.read_at(at, min(CHUNK, slot.place - at))
        yield slot.stored
        place = slot.place + slot.length


def most_in_slots(size: int) -> int:
    """Return the most bytes of slots that are worth to be encoded one by one, for a block of ``size`` bytes."""
    return min(_MOST, size // 2)


def encode_slots(
    seeker: Rewritable, slots: list[Slot], read: Callable[[int, int], bytes], old: Source, scheduler: Scheduler
) -> list[NewSlot] | None:
    """Encode the content of ``slots`` again.

    ``read(offset, length)`` returns content, and is called with the main lock held.  ``old``: the stored bytes.

    Return the slots in order, those of the same length without equal bytes at both ends.  None if new bytes do not
    fit.  Raises as ``read``.
    """
    found: list[NewSlot] = []
    with scheduler.waiting():
        for slot in slots:
            with scheduler.resumed():
                content = read(slot.start, slot.stop - slot.start)
            stored = seeker.encode_slot(content, slot.length, _GRAIN)
            if stored is None:
                return None
            found.append(_trimmed(slot, stored, old.read_at(slot.place, slot.length)))
    return found


def _trimmed(slot: Slot, stored: bytes, before: bytes) -> NewSlot:
    """Return the new bytes of a slot; if its length stays, without equal bytes at its beginning and its end."""
    if len(stored) == len(before):
        start, changed = difference(before, stored) or (0, b"")
        return NewSlot(slot.place + start, len(changed), changed)
    return NewSlot(slot.place, slot.length, stored)


class Readable(NamedTuple):
    """New content of a block: ``size`` bytes that ``read(offset, length)`` returns."""

    size: int
    read: Callable[[int, int], bytes]


class BlockCommitter:
    """Encodes and commits the blocks that ``reader`` reads.

    ``room``: the spool, where encoded bytes are kept until they are committed.
    """

    def __init__(self, parts: BlockParts, reader: BlockReader, room: SpoolRoom) -> None:
        self._transaction = parts.transaction
        self._table = parts.table
        self._editor = parts.editor
        self._codecs = parts.codecs
        self._compressed = parts.compressed
        self._locks = parts.locks
        self._change = parts.change
        self._changes = parts.changes
        self._scheduler = parts.scheduler
        self._progress = parts.progress
        self._reader = reader
        self._room = room

    def flush(self, number: int, *, durable: bool) -> None:
        """Write pending changes of block ``number`` into the file; with ``durable``, sync it.

        Raises as ``set_compression``.
        """
        self._transaction.mode.check_conflict()  # on a conflict, earlier writes are beside the file, not in it
        with self._locks.of(number).entered():
            if number in self._compressed.dirty:
                if not self._commit_pieces(number):
                    self._commit(number, self._codecs.of(number))
                return
            with self._change.entered():
                self._editor.flush(number, durable=durable)

    def set_compression(self, number: int, name: str) -> None:
        """Store the block in the compression ``name``, or uncompressed (``none``), durably.

        Raises ``NameRefusedError``, ``NotSupportedError``, ``NotPermittedError``, ``ReadOnlyError``,
        ``DamagedBlockError``, ``NoRoomError``, ``OSError`` or as ``Transaction``.  Then the block is unchanged.
        """
        with self.changing(number, content=False):
            header = self._table.header(number)
            codec = self._codecs.named(name, header.form)
            if header.streamed:
                raise NotPermittedError("a streamed block cannot be compressed", block=number)
            if self._codecs.of(number) != codec or number in self._compressed.dirty:
                self._reader.check_sound(number)
                self._commit(number, codec)

    def replace(self, number: int, content: Readable) -> None:
        """Replace the content of the block atomically and durably, in the same compression.

        Raises as ``set_compression``; then the block has its old content.
        """
        with self.changing(number):
            header = self._table.header(number)
            if header.streamed:
                raise NotPermittedError("a streamed block is not replaced as a whole; append to it", block=number)
            self._commit(number, self._codecs.of(number), content)

    def encoded(self, number: int, codec: Codec | None, payload: Payload) -> Encoded:
        """Encode the block with ``codec`` into ``payload``; the file stays as it is.

        ``codec`` None: without compression.  Raises ``DamagedBlockError``, ``NotSupportedError``, ``AbandonedError``,
        ``OSError``.
        """
        self._reader.check_sound(number)
        return self._encode(number, codec, self._own(number), payload, needed=False)

    def commit_all(self) -> None:
        """Commit all dirty blocks in the spool.

        If one fails, the others are committed all the same, and the first error is raised.  Raises as ``flush``.
        """
        failure: AsdffsError | OSError | None = None
        for number in self._compressed.dirty:
            try:
                self.flush(number, durable=True)
            except (AsdffsError, OSError) as err:
                failure = failure or err
        if failure is not None:
            raise failure

    def _own(self, number: int) -> Readable:
        """Return the current content of the block."""
        return Readable(
            self._reader.size(number),
            lambda offset, length: read_bytes(self._reader.read_decoded(number, offset, length)),
        )

    def _encode(
        self, number: int, codec: Codec | None, content: Readable, payload: Payload, *, needed: bool
    ) -> Encoded:
        return encode(
            number,
            codec,
            content.size,
            content.read,
            payload,
            scheduler=self._scheduler,
            progress=self._progress,
            needed=needed,
        )

    def _commit(self, number: int, codec: Codec | None, new: Readable | None = None) -> None:
        """Encode the content of the block, or ``new`` content, and overwrite the block.  Under its lock."""
        needed = new is not None or self._compressed.is_dirty(number)
        self._overwrite(
            number,
            lambda payload: self._encode(number, codec, new or self._own(number), payload, needed=needed),
            same=new is None and codec is not None,
        )

    def _overwrite(self, number: int, make: Callable[[Payload], Encoded], *, same: bool) -> None:
        """Overwrite the block with what ``make`` encodes into a payload; ``same``: see ``_note_committed``."""
        self._transaction.pins.check(number)
        self._transaction.mode.check_healthy()
        self._transaction.mode.check_conflict()
        payload = self._transaction.create_payload(self._room.directory)
        try:
            encoded = make(payload)
            with self._overwriting(number), self._change.entered():
                kept = self._editor.put_encoded(number, encoded)
                self._note_committed(number, same=same)
                self._editor.return_room(number, kept)
        finally:
            keep = bool(self._transaction.mode.failure)
            with self._scheduler.waiting():  # freeing gigabytes takes a while
                payload.discard(keep=keep)

    def _commit_pieces(self, number: int) -> bool:
        """Encode and overwrite only the pieces that were written.  Return False if the whole block is to be encoded.

        Under its lock.
        """
        with self._change.entered():  # else a change of another block would look like another program's
            self._transaction.check_unchanged()  # else another program's bytes would be decoded
        decoded, own = self._compressed.block(number), self._own(number)
        found = decoded.slots(most_in_slots(own.size)) if decoded is not None else None
        if found is None:
            return False
        slots = encode_slots(*found, own.read, self._compressed.stored(number), self._scheduler)
        if slots is None:
            return False
        if sum(slot.grown > 0 for slot in slots) > 1:
            self._overwrite(number, lambda payload: self._assemble(number, slots, payload), same=True)
            return True
        self._transaction.pins.check(number)
        with self._overwriting(number), self._change.entered():
            self._editor.put_slots(number, slots)
            self._note_committed(number, same=True)
        return True

    def _assemble(self, number: int, slots: list[NewSlot], payload: Payload) -> Encoded:
        with self._scheduler.waiting():
            return assemble(slots, self._table.header(number), self._compressed.stored(number), payload)

    @contextlib.contextmanager
    def _overwriting(self, number: int) -> Iterator[None]:
        """Make readers of the block wait inside the ``with`` block, unless the whole block is in the spool.

        No thread decodes the block inside.
        """
        decoded = self._compressed.block(number) if self._table.header(number).compressed else None
        with contextlib.ExitStack() as stack:
            if decoded is not None:  # taken first: a thread that decodes waits for overwrites, to read its next piece
                stack.enter_context(decoded.exclusive.entered())
            stack.enter_context(self._locks.overwriting(number))
            self._table.touch()
            yield

    def _note_committed(self, number: int, *, same: bool) -> None:
        """Note that the block was committed.

        With ``same``, the spool of a dirty block has the committed content and is kept.  Otherwise it is obsolete.
        """
        if same and self._compressed.is_dirty(number):
            self._compressed.saved(number)
        else:
            self._compressed.forget(number)
        self._changes.note(stored(number))

    @contextlib.contextmanager
    def changing(self, number: int, *, content: bool = True) -> Iterator[None]:
        """Hold the lock of the block for a change inside the ``with`` block.

        The change is of the content or, without ``content``, only of the way in which it is stored.  Raises before
        the change as ``check_writable`` or ``check_storable``.  Afterwards the old checksum is not verified any more.
        """
        with self._locks.of(number).entered():
            if content:
                self.check_writable(number)
            else:
                self.check_storable(number)
            try:
                yield
            finally:  # a failed write may have written a part
                self._table.touch()
                if content:
                    self._changes.note_content(number)
            self._reader.trust(number)

    def check_storable(self, number: int) -> None:
        """Raise as ``check_writable``, but allow a block that is read-only only because of its current encoding."""
        self._locks.await_move()
        self._editor.check_writable(number)
        obstacle = self._reader.obstacle(number)
        if obstacle:
            raise ReadOnlyError(obstacle, block=number)

    def check_writable(self, number: int) -> None:
        """Raise ``ReadOnlyError`` or ``DamagedBlockError`` if the block cannot be written."""
        self.check_storable(number)
        why = self._codecs.read_only(number)
        if why:
            raise ReadOnlyError(why, block=number)
