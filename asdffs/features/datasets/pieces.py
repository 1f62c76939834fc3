"""Chunks of arrays in compressed blocks: a piece that can be decoded by itself is a chunk of Zarr.

| compression | a piece is            | the codec of numcodecs |
|-------------|-----------------------|------------------------|
| lz4         | a part, after 4 bytes | lz4                    |
| zstd        | a frame               | zstd                   |
| zlib, bzp2  | the whole block       | zlib, bz2              |

All chunks of an array must have the same shape.  A last piece with fewer rows needs our codec (``padding``), unless
it is the only one; ``repack --profile cloud`` makes pieces that divide the rows where it can.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from asdffs.arrays.placement import packed
from asdffs.document.arrays.finding import Location
from asdffs.errors import NotPermittedError

if TYPE_CHECKING:
    from asdffs.codecs.seeking import Slot

#: Name of a compression -> its codec in numcodecs, and the bytes of a piece before what that decodes.
_CODECS: Final[Mapping[str, tuple[Mapping[str, Any], int]]] = {
    "lz4": ({"id": "lz4", "acceleration": 1}, 4),
    "zstd": ({"id": "zstd", "level": 3}, 0),
    "zlib": ({"id": "zlib", "level": 6}, 0),
    "bzp2": ({"id": "bz2", "level": 9}, 0),
}


class Pieces(NamedTuple):
    """Chunks with the lengths ``chunk`` of an array with the lengths ``shape``.

    ``stored``: the slots of the pieces; ``skipped``: bytes before what ``codec``, an entry of numcodecs, decodes.
    ``padded``: the bytes of a whole chunk if the last one has fewer, else 0.
    """

    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    stored: Sequence[Slot]
    codec: Mapping[str, Any]
    skipped: int
    padded: int

    def chunks(self) -> Iterator[tuple[tuple[int, ...], int, int]]:
        """Yield the index of each chunk, and the offset in the file and the length of its bytes."""
        counts = [-(-length // part) for length, part in zip(self.shape, self.chunk, strict=True)]
        for index, slot in zip(itertools.product(*map(range, counts)), self.stored, strict=True):
            yield index, slot.place + self.skipped, slot.length - self.skipped


def pieces_of(stored: Location, item: int) -> Pieces:
    """Return the chunks of an array in a compressed block.  ``item``: the size of an element in bytes.

    Raises ``NotPermittedError`` if its pieces are no chunks of Zarr.
    """
    if stored.compression not in _CODECS:
        raise NotPermittedError(f"its compression is {stored.compression}; {', '.join(_CODECS)} can be referred to")
    codec, skipped = _CODECS[stored.compression]
    if 0 in stored.shape:
        return Pieces(stored.shape, tuple(max(1, length) for length in stored.shape), (), codec, skipped, 0)
    if tuple(stored.strides) != tuple(packed(stored.shape, item)):
        raise NotPermittedError("its elements do not lie together")
    slots = _slots_within(stored, stored.offset + item * math.prod(stored.shape))
    whole, last = (slot.stop - slot.start for slot in (slots[0], slots[-1]))
    if last > whole or any(slot.stop - slot.start != whole for slot in slots[:-1]):
        raise NotPermittedError("its compressed pieces have different sizes; asdffs repack makes equal ones")
    chunk = _chunk(stored.shape, item, whole)
    return Pieces(stored.shape, chunk, slots, codec, skipped, whole if last < whole else 0)


def _slots_within(stored: Location, end: int) -> list[Slot]:
    """Return the slots of the elements, which end at ``end`` of the content, if they have nothing else."""
    slots = [slot for slot in stored.pieces if slot.start < end and slot.stop > stored.offset]
    if not slots or (slots[0].start, slots[-1].stop) != (stored.offset, end):
        raise NotPermittedError("a compressed piece of it has other bytes, too")
    return slots


def _chunk(shape: tuple[int, ...], item: int, whole: int) -> tuple[int, ...]:
    """Return the lengths of a piece of ``whole`` bytes: whole rows, or parts of them that divide them."""
    rest, broken = divmod(whole, item)
    chunk = [1] * len(shape)
    for axis in reversed(range(len(shape))):
        length = shape[axis]
        if rest < length:
            outer = math.prod(shape[:axis])
            chunk[axis], broken, rest = rest, broken or (outer > 1 and length % rest), 1
            break
        chunk[axis], broken, rest = length, broken or rest % length, rest // length
    if broken or rest != 1:
        raise NotPermittedError("its compressed pieces are no whole rows; asdffs repack --profile cloud makes such")
    return tuple(chunk)
