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
from typing import Final

from asdffs.codecs.base import Codec, Encoding, Readable, Source, pieces
from asdffs.codecs.seeking import Rewritable, Slot
from asdffs.document.blocks.allocation import Encoded, NewSlot
from asdffs.document.blocks.codecs import (
    check_encoded,
    digest_of,
    is_of_package,
    mistakes_told,
    new_digest,
    resuming,
)
from asdffs.document.blocks.reading import BlockReader
from asdffs.document.changes import stored
from asdffs.errors import AbandonedError, AsdffsError, NotPermittedError, NotSupportedError
from asdffs.format.constants import NO_COMPRESSION
from asdffs.format.text import difference
from asdffs.scheduling import CHUNK
from asdffs.storage.sidecars import Payload

#: The most bytes, of content and of stored bytes, that are encoded piece by piece: the journal keeps them in memory.
_MOST: Final = 16 << 20
#: Slots get longer by a multiple of this, so that file systems can move the rest of the file without a copy.
_GRAIN: Final = 4096


class BlockCommitter:
    """Encodes and commits the blocks that ``reader`` reads."""

    def __init__(self, reader: BlockReader) -> None:
        self._reader = reader
        self._transaction = reader.transaction
        self._table = reader.table
        self._editor = reader.editor
        self._codecs = reader.codecs
        self._compressed = reader.compressed
        self._locks = reader.locks
        self._change = reader.change
        self._scheduler = reader.scheduler

    def flush(self, number: int, *, durable: bool) -> None:
        """Write pending changes of block ``number`` into the file; with ``durable``, sync it.

        A compressed block with changes is encoded, and is always durable afterwards.  Raises as ``set_compression``.
        """
        self._transaction.mode.check_conflict()  # on a conflict, earlier writes are beside the file, not in it
        with self._locks.of(number):
            if self._compressed.is_dirty(number):
                if not self._commit_pieces(number):
                    self._commit(number, self._codecs.of(number))
                return
            with self._change:
                self._editor.flush(number, durable=durable)

    def set_compression(self, number: int, name: str) -> None:
        """Store the block in the compression ``name``, or uncompressed (``none``), durably.  Under its lock.

        Raises ``NameRefusedError``, ``NotSupportedError``, ``NotPermittedError``, ``ReadOnlyError``,
        ``DamagedBlockError``, ``NoRoomError``, ``OSError`` or as ``Transaction``.  Then the block is unchanged.
        """
        header = self._table.header(number)
        codec = self._codecs.named(name, header.form)
        if header.streamed:
            raise NotPermittedError("a streamed block cannot be compressed", block=number)
        if self._codecs.of(number) != codec or self._compressed.is_dirty(number):
            self._reader.check_sound(number)
            self._commit(number, codec)

    def replace(self, number: int, content: Readable) -> None:
        """Replace the content of the block atomically and durably, in the same compression.  Under its lock.

        Raises as ``set_compression``; then the block has its old content.
        """
        if self._table.header(number).streamed:
            raise NotPermittedError("a streamed block is not replaced as a whole; append to it", block=number)
        self._commit(number, self._codecs.of(number), content)

    def encoded(self, number: int, codec: Codec | None, payload: Payload) -> Encoded:
        """Encode the block with ``codec`` into ``payload``; the file stays as it is.

        ``codec`` None: without compression.  Raises ``DamagedBlockError``, ``NotSupportedError``, ``AbandonedError``,
        ``OSError``.
        """
        self._reader.check_sound(number)
        return self._encode(number, codec, self._reader.content(number), payload, needed=False)

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

    def _commit(self, number: int, codec: Codec | None, new: Readable | None = None) -> None:
        """Encode the content of the block, or ``new`` content, and overwrite the block.  Under its lock."""
        needed = new is not None or self._compressed.is_dirty(number)
        content = new or self._reader.content(number)
        self._overwrite(
            number,
            lambda payload: self._encode(number, codec, content, payload, needed=needed),
            same=new is None and codec is not None,
        )

    def _encode(
        self, number: int, codec: Codec | None, content: Readable, payload: Payload, *, needed: bool
    ) -> Encoded:
        """Encode ``content`` for block ``number`` into ``payload``, with ``codec`` or, if it is None, as it is.

        ``content`` is read with the main lock held.  ``needed``: go on even if the mount is ending.

        Raises ``NotSupportedError`` if the format cannot hold the content; ``AbandonedError`` if the mount is ending;
        or as ``content``; or ``OSError``.
        """
        digest, scheduler = new_digest(), self._scheduler
        source = content._replace(read=resuming(content.read, scheduler))
        name = "compression" if codec is not None else "decompression"
        with self._reader.progress.over(name, content.size, number) as step, scheduler.waiting():
            try:
                for piece in _encoded(codec, source.counted(step)):
                    if scheduler.stopping and not needed:
                        raise AbandonedError("the mount is ending, so the block was not changed", block=number)
                    payload.append(piece)
                    digest.update(piece)
                if codec is not None and is_of_package(codec):
                    check_encoded(codec, Readable(payload.size, payload.backend.read_at), source)
            except ValueError as err:
                raise NotSupportedError(str(err), block=number) from err
        found = digest.digest()
        if codec is not None and self._editor.has_checksum(number) and self._reader.sums_content():
            found = self._digest_of(number, source, needed=needed)
        return Encoded(payload, codec.id if codec is not None else NO_COMPRESSION, content.size, found)

    def _digest_of(self, number: int, source: Readable, *, needed: bool) -> bytes:
        """Return the MD5 of the content of a block.  ``needed`` and errors: see ``_encode``."""
        scheduler = self._scheduler
        with self._reader.progress.over("checksum", source.size, number) as step, scheduler.waiting():
            found = digest_of(source.read, source.size, lambda: scheduler.stopping and not needed, step)
        if found is None:
            raise AbandonedError("the mount is ending, so the block was not changed", block=number)
        return found

    def _overwrite(self, number: int, make: Callable[[Payload], Encoded], *, same: bool) -> None:
        """Overwrite the block with what ``make`` encodes into a payload; ``same``: see ``_note_committed``."""
        self._transaction.pins.check(number)
        self._transaction.mode.check_healthy()
        self._transaction.mode.check_conflict()
        payload = self._transaction.create_payload(self._reader.room.directory)
        try:
            encoded = make(payload)
            with self._overwriting(number), self._change:
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
        if self._editor.has_checksum(number) and self._reader.sums_content():
            return False  # its checksum is that of all of the content
        with self._change:  # else a change of another block would look like another program's
            self._transaction.check_unchanged()  # else another program's bytes would be decoded
        decoded, content = self._compressed.block(number), self._reader.content(number)
        found = decoded.slots(min(_MOST, content.size // 2)) if decoded is not None else None
        slots = self._encode_slots(*found, content, self._compressed.stored(number)) if found is not None else None
        if slots is None:
            return False
        if sum(slot.grown > 0 for slot in slots) > 1:
            self._overwrite(number, lambda payload: self._assemble(number, slots, payload), same=True)
            return True
        self._transaction.pins.check(number)
        with self._overwriting(number), self._change:
            self._editor.put_slots(number, slots)
            self._note_committed(number, same=True)
        return True

    def _encode_slots(
        self, seeker: Rewritable, slots: list[Slot], content: Readable, old: Source
    ) -> list[NewSlot] | None:
        """Encode the ``content`` of ``slots`` again; ``old``: the stored bytes.

        Return the slots in order, those of the same length without equal bytes at both ends.  None if new bytes do
        not fit.  Raises as the content.
        """
        found: list[NewSlot] = []
        with self._scheduler.waiting():
            for slot in slots:
                with self._scheduler.resumed():
                    piece = content.read(slot.start, slot.stop - slot.start)
                new = seeker.encode_slot(piece, slot.length, _GRAIN)
                if new is None:
                    return None
                found.append(_trimmed(slot, new, old.read_at(slot.place, slot.length)))
        return found

    def _assemble(self, number: int, slots: list[NewSlot], payload: Payload) -> Encoded:
        """Copy the stored bytes of a block, and the new ones of ``slots``, into ``payload``.  Raises ``OSError``."""
        digest, header = new_digest(), self._table.header(number)
        with self._scheduler.waiting():
            for piece in _assembled(slots, self._compressed.stored(number)):
                payload.append(piece)
                digest.update(piece)
        return Encoded(payload, header.compression, header.data_size, digest.digest())

    @contextlib.contextmanager
    def _overwriting(self, number: int) -> Iterator[None]:
        """Make readers of the block wait inside the ``with`` block, unless the whole block is in the spool.

        No thread decodes the block inside.
        """
        decoded = self._compressed.block(number) if self._table.header(number).compressed else None
        # taken first: a thread that decodes waits for overwrites, to read its next piece
        with decoded.exclusive if decoded is not None else contextlib.nullcontext(), self._locks.of_overwrite(number):
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
        self._reader.changes.note(stored(number))


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


def _assembled(slots: list[NewSlot], old: Source) -> Iterator[bytes]:
    """Yield the stored bytes of a block with the new bytes of ``slots``."""
    place = 0
    for slot in [*slots, NewSlot(old.size, 0, b"")]:
        for at in range(place, slot.place, CHUNK):
            yield old.read_at(at, min(CHUNK, slot.place - at))
        yield slot.stored
        place = slot.place + slot.length


def _trimmed(slot: Slot, stored: bytes, before: bytes) -> NewSlot:
    """Return the new bytes of a slot; if its length stays, without equal bytes at its beginning and its end."""
    if len(stored) == len(before):
        start, changed = difference(before, stored) or (0, b"")
        return NewSlot(slot.place + start, len(changed), changed)
    return NewSlot(slot.place, slot.length, stored)
