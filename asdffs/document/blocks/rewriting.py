"""Encoding of only those pieces of a compressed block that were written.

The main lock is released meanwhile, so other requests are served.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from asdffs.codecs.base import Source
from asdffs.codecs.seeking.slots import Rewritable, Slot
from asdffs.document.blocks.encoding import Encoded
from asdffs.document.blocks.ranges import Ranges
from asdffs.errors import DamagedBlockError
from asdffs.format.block_header import BlockHeader
from asdffs.format.plan import difference
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
    digest = hashlib.md5(usedforsecurity=False)
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


def encode_changed(
    number: int,
    seeker: Rewritable,
    changed: Ranges,
    size: int,
    read: Callable[[int, int], bytes],
    old: Source,
    scheduler: Scheduler,
) -> list[NewSlot] | None:
    """Encode the slots of block ``number`` that have the ranges ``changed`` of its ``size`` bytes of content.

    ``read(offset, length)`` returns content, and is called with the main lock held.  ``old``: the stored bytes.

    Return the slots in order, those of the same length without equal bytes at both ends.  None if the whole block is
    better encoded: too much was written, or the bytes do not fit.

    Raises ``DamagedBlockError`` or as ``read``.
    """
    most = min(_MOST, size // 2)
    if changed.size > most:
        return None
    with scheduler.waiting():
        slots = _few_slots(number, seeker, changed, most)
        return _encoded(seeker, slots, read, old, scheduler) if slots else None


def _few_slots(number: int, seeker: Rewritable, changed: Ranges, most: int) -> list[Slot]:
    """Return the slots; none if they have more than ``most`` bytes of content or are stored in more."""
    slots: list[Slot] = []
    content = stored = 0
    try:
        for slot in seeker.slots(changed):
            content, stored = content + slot.stop - slot.start, stored + slot.length
            if max(content, stored) > most:
                return []
            slots.append(slot)
    except ValueError as err:
        raise DamagedBlockError(f"its compressed bytes are damaged: {err}", block=number) from err
    return slots


def _encoded(
    seeker: Rewritable, slots: list[Slot], read: Callable[[int, int], bytes], old: Source, scheduler: Scheduler
) -> list[NewSlot] | None:
    found: list[NewSlot] = []
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
