"""The ``blsc`` compression of the asdf-compression package: one buffer of c-blosc 1.

A buffer is a header of 16 bytes (versions, flags, size of an item; then length of the content, of a
block, of the buffer: 3 x 4 bytes, little-endian), the offset of each block (4 bytes each), and the
blocks, in any order.  The library decodes whole buffers only, so buffers of a few blocks each
are made of the big one: memory stays flat, and the library decodes their blocks in parallel.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from asdffs.codecs.base import Source, is_installed, pieces

_HEADER = struct.Struct("<4B3I")
_OFFSET = struct.Struct("<I")
_STORED_AS_IS = 0x2
_DO_NOT_SPLIT = 0x10
_LARGEST = (1 << 31) - 17  # BLOSC_MAX_BUFFERSIZE
_AT_ONCE = 1 << 22
#: The library makes blocks of 16 KiB to a few MiB; what is far from that is refused.
_MOST_BLOCKS = 1 << 18
_LARGEST_BLOCK = 1 << 26


@dataclass(frozen=True, slots=True)
class _Buffer:
    """The header: ``length`` bytes of content in blocks of ``block``, in ``stored`` bytes."""

    version: int
    library: int
    flags: int
    item: int
    length: int
    block: int
    stored: int

    @property
    def count(self) -> int:
        return -(-self.length // self.block)

    def with_blocks(self, blocks: list[bytes], length: int) -> bytes:
        """A buffer of ``blocks`` that follow each other, of ``length`` bytes of content."""
        flags, block = self.flags, min(self.block, length)
        if length < self.block:  # alone, the last one of the big buffer: it is never split
            flags |= _DO_NOT_SPLIT
        place = _HEADER.size + _OFFSET.size * len(blocks)
        offsets = b""
        for one in blocks:
            offsets += _OFFSET.pack(place)
            place += len(one)
        head = _HEADER.pack(self.version, self.library, flags, self.item, length, block, place)
        return head + offsets + b"".join(blocks)


class Blsc:
    """See ``Codec``."""

    id = b"blsc"
    extra = "blosc"
    ratio = 1 << 16

    def available(self) -> bool:
        """Whether ``blosc`` is installed."""
        return is_installed("blosc")

    def memory(self, stored: Source) -> int:
        """A few blocks."""
        return 2 * _AT_ONCE

    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """Raises ``ValueError``."""
        head = stored.read_at(0, _HEADER.size)
        if len(head) < _HEADER.size:
            raise ValueError("it is shorter than a header of blosc")
        buffer = _Buffer(*_HEADER.unpack(head))
        if buffer.stored > stored.size or buffer.length != size or not buffer.block:
            raise ValueError("the header of blosc cannot be right")
        if buffer.block > _LARGEST_BLOCK or buffer.count > _MOST_BLOCKS:
            raise ValueError(f"blocks of {buffer.block} bytes in blosc are not supported")
        if buffer.flags & _STORED_AS_IS:
            yield from _raw(stored, buffer)
        else:
            yield from _decoded(stored, buffer)

    def encode(self, content: Source) -> Iterator[bytes]:
        """Raises ``ValueError`` for more than 2 GiB.  The library needs all of the content in memory."""
        import blosc

        if content.size > _LARGEST:
            raise ValueError(f"blsc holds at most {_LARGEST} bytes")
        if not content.size:
            return
        blosc.set_releasegil(True)
        with mmap.mmap(-1, content.size) as whole:
            for piece in pieces(content):
                whole.write(piece)
            yield blosc.compress(whole)


def _raw(stored: Source, buffer: _Buffer) -> Iterator[bytes]:
    if buffer.stored != _HEADER.size + buffer.length:
        raise ValueError("the header of blosc cannot be right")
    left = buffer.length
    for piece in pieces(stored, _HEADER.size):
        yield piece[:left]
        left -= min(left, len(piece))


def _decoded(stored: Source, buffer: _Buffer) -> Iterator[bytes]:
    """A few blocks at a time; the last one, when it is shorter, alone."""
    import blosc

    blosc.set_releasegil(True)
    spans = _spans(stored, buffer)
    whole = buffer.length // buffer.block
    step = max(1, _AT_ONCE // buffer.block)
    for first in (*range(0, whole, step), *([whole] if whole < buffer.count else [])):
        last = min(first + step, whole) if first < whole else buffer.count
        length = min(last * buffer.block, buffer.length) - first * buffer.block
        blocks = [stored.read_at(start, stop - start) for start, stop in spans[first:last]]
        try:
            yield blosc.decompress(buffer.with_blocks(blocks, length))
        except blosc.blosc_extension.error as err:
            raise ValueError(f"blosc cannot decode it: {err}") from err


def _spans(stored: Source, buffer: _Buffer) -> list[tuple[int, int]]:
    """Where each block begins and ends: before the one that follows it in the buffer."""
    end = _HEADER.size + _OFFSET.size * buffer.count
    if end > buffer.stored:
        raise ValueError("the header of blosc cannot be right")
    starts = [start for (start,) in _OFFSET.iter_unpack(stored.read_at(_HEADER.size, end - _HEADER.size))]
    ends: dict[int, int] = {}
    follower = buffer.stored
    for start in sorted(set(starts), reverse=True):
        ends[start], follower = follower, start
    if starts and not end <= min(starts) <= max(starts) < buffer.stored:
        raise ValueError("a block of blosc lies outside its buffer")
    return [(start, ends[start]) for start in starts]


PLUGIN = Blsc()
