"""Where the frames of a zstd block begin (RFC 8878, section 3.1).

A frame says in its header how much content it has, if the writer knew that.  Where it ends is in its blocks: three
bytes before each say how long it is.  A table of the frames at the end, in the "seekable format" of the zstd project,
is read first; it is only believed where it agrees with the sizes of the block.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import accumulate
from typing import Final

from asdffs.codecs.base import Source

_MAGIC: Final = 0xFD2FB528
#: The magic of the first kind of skippable frames; its header has this and the number of bytes that follow it.
SKIPPABLE_MAGIC: Final = 0x184D2A50
SKIPPABLE: Final = struct.Struct("<II")
_SKIPPABLE_MASK: Final = 0xFFFFFFF0
#: The table of the seekable format is in a skippable frame with this magic, and ends with the other one.
_TABLE: Final = 0x184D2A5E
_TABLE_END: Final = 0x8F92EAB1
_FOOT: Final = struct.Struct("<IBI")
_MOST_FRAMES: Final = 1 << 20
_BLOCK_HEADER: Final = 3
_HEADER: Final = 18
_RAW, _RUN, _COMPRESSED = range(3)


def measure_frame(stored: Source, place: int, content: Callable[[bytes], int | None]) -> tuple[int, int] | None:
    """Return the bytes of content of the frame at ``place``, and where the next one begins; None at the end.

    ``content(header)`` returns the size that a header states, or None.  Raises ``ValueError`` if the frame is damaged
    or states no size.
    """
    head = stored.read_at(place, _HEADER)
    if not head:
        return None
    if len(head) >= SKIPPABLE.size and SKIPPABLE.unpack_from(head)[0] & _SKIPPABLE_MASK == SKIPPABLE_MAGIC:
        return 0, place + SKIPPABLE.size + SKIPPABLE.unpack_from(head)[1]
    size = content(head)
    if size is None:
        raise ValueError("a frame does not say how much it decodes to")
    return size, _end_of_frame(stored, place, head)


def _end_of_frame(stored: Source, place: int, head: bytes) -> int:
    """Return where the frame at ``place`` with the header ``head`` ends, by the lengths of its blocks."""
    descriptor = head[4]
    single, checksum = descriptor >> 5 & 1, descriptor >> 2 & 1
    content_size = (single, 2, 4, 8)[descriptor >> 6]
    place += 5 + (not single) + (0, 1, 2, 4)[descriptor & 3] + content_size
    last = 0
    while not last:
        field = int.from_bytes(stored.read_at(place, _BLOCK_HEADER).ljust(_BLOCK_HEADER, b"\xff"), "little")
        last, kind, length = field & 1, field >> 1 & 3, field >> 3
        if kind > _COMPRESSED or place >= stored.size:
            raise ValueError("a frame has an invalid block")
        place += _BLOCK_HEADER + (1 if kind == _RUN else length)
    return place + 4 * checksum


def read_table(stored: Source, size: int) -> list[tuple[int, int]] | None:
    """Return where each frame begins, in the content and in the stored bytes, by the table at the end.

    None if there is no table, or if it contradicts ``size``, the bytes of content, or the stored bytes.
    """
    foot = stored.read_at(max(0, stored.size - _FOOT.size), _FOOT.size)
    if len(foot) < _FOOT.size:
        return None
    count, descriptor, magic = _FOOT.unpack(foot)
    entry = struct.Struct("<II4x" if descriptor & 0x80 else "<II")
    length = entry.size * count + _FOOT.size
    start = stored.size - length - SKIPPABLE.size
    if magic != _TABLE_END or not 0 < count <= _MOST_FRAMES or start < 0:
        return None
    if stored.read_at(start, SKIPPABLE.size) != SKIPPABLE.pack(_TABLE, length):
        return None
    entries = list(entry.iter_unpack(stored.read_at(start + SKIPPABLE.size, entry.size * count)))
    if sum(one for one, _ in entries) != start or sum(one for _, one in entries) != size:
        return None
    places = accumulate((one for one, _ in entries), initial=0)
    return list(zip(accumulate((one for _, one in entries), initial=0), places, strict=True))
