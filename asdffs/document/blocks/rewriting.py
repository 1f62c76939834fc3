"""Encoding of only those pieces of a compressed block that were written.

The main lock is released meanwhile, so other requests are served.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from asdffs.codecs.base import Source
from asdffs.codecs.seeking import Rewritable, Slot
from asdffs.document.blocks.checksums import new_digest
from asdffs.document.blocks.encoding import Encoded
from asdffs.format.block_header import BlockHeader
from asdffs.format.difference import difference
from asdffs.scheduling import CHUNK, Scheduler
from asdffs.storage.payload import Payload

#: The most bytes, of content and of stored bytes, that are encoded in this way: the journal keeps them in memory.
_MOST: Final = 16 << 20
#: Slots get longer by a multiple of this, so that file systems can move the rest of the file without a copy.
_GRAIN: Final = 4096


class NewSlot(NamedTuple):
    """New bytes for the stored bytes ``[place, place + length)`` of a block; they may be longer."""

    place: int
    length: int
    stored: bytes

    @property
    def grown(self) -> int:
        """How many bytes it gets longer."""
        return len(self.stored) - self.length


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
