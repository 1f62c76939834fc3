"""The ``blsc`` compression: one buffer of c-blosc 1, or several.

The asdf-compression package writes one buffer for each block.  The simulations of AbacusSummit have several, each
after its length (4 bytes, big-endian).  That length is also in the header of the buffer, which tells the two layouts
apart.  A block is written again in the layout that it has.

A buffer consists of

* a header of 16 bytes: two versions, flags and the size of an item (1 byte each); then the lengths of the content, of
  a block and of the buffer (4 bytes each, little-endian),
* the offset of each block in the buffer (4 bytes each, little-endian),
* the blocks, in any order.

The library decodes only whole buffers.  So this module cuts the big buffer into small ones of a few blocks each:
memory use does not grow with the size of the buffer, and they are decoded in parallel.
"""

from __future__ import annotations

import functools
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from asdffs.allocator import is_own
from asdffs.codecs.base import IN_WORK, Codec, Source, in_memory, in_parallel, part_of, pieces
from asdffs.codecs.seeking import Chained, Seeker

_HEADER = struct.Struct("<4B3I")
_OFFSET = struct.Struct("<I")
#: The length of a buffer of a block of several.
PREFIX = struct.Struct(">I")
#: The inner compressions, by the number in the highest bits of the flags; "lz4" is also that of lz4hc.
_INNER = ("blosclz", "lz4", "snappy", "zlib", "zstd")
_SHUFFLED, _BITS_SHUFFLED = 0x1, 0x4
_STORED_AS_IS = 0x2
_DO_NOT_SPLIT = 0x10
_LARGEST = (1 << 31) - 17  # BLOSC_MAX_BUFFERSIZE
_AT_ONCE = 1 << 22
#: The least content of one of several buffers that are encoded.
_LEAST = 1 << 16
#: The library makes blocks of 16 KiB to a few MiB.  These limits refuse buffers that are far from that.
_MOST_BLOCKS = 1 << 18
_LARGEST_BLOCK = 1 << 26


@dataclass(frozen=True, slots=True)
class _Buffer:
    """The header of a buffer, and the number of its blocks.

    ``length``: bytes of content; ``block``: bytes of content of a block, but the last may be shorter; ``stored``:
    bytes of the whole buffer.  ``version`` and ``library`` are versions of the format and of the inner compression.
    """

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
        """Return a buffer of the given consecutive compressed ``blocks``, which have ``length`` bytes of content."""
        flags, block = self.flags, min(self.block, length)
        if length < self.block:  # the short last block of the big buffer, decoded alone: blosc never splits it
            flags |= _DO_NOT_SPLIT
        place = _HEADER.size + _OFFSET.size * len(blocks)
        offsets = b""
        for one in blocks:
            offsets += _OFFSET.pack(place)
            place += len(one)
        head = _HEADER.pack(self.version, self.library, flags, self.item, length, block, place)
        return head + offsets + b"".join(blocks)


def _library(*, alone: bool) -> Any:
    """Return the library, which lets threads of Python run while it works.

    ``alone``: it works on one buffer at a time, with threads of its own; else on several, with one thread for each.
    That is a setting of the whole process, so in other programs than ours it stays as it is.
    """
    if is_own():  # no other code of this process asks the library for its tests, which import numpy: 0.1 s
        sys.modules.setdefault("blosc.test", SimpleNamespace(run=None))  # type: ignore[arg-type]
    import blosc

    blosc.set_releasegil(True)
    if is_own():
        at_first = blosc.nthreads  # what the library chose when it was imported
        blosc.set_nthreads(at_first if alone else 1)
    return blosc


class Blsc(Codec):
    """The codec of blocks of one buffer."""

    id = b"blsc"
    library = "blosc"
    extra = "blosc"
    ratio = 1 << 16

    def layout_of(self, stored: Source) -> Codec:
        """See ``codecs.base.Varied``."""
        head = stored.read_at(0, PREFIX.size + _HEADER.size)
        if len(head) < PREFIX.size + _HEADER.size:
            return self
        (length,), first = PREFIX.unpack_from(head), _Buffer(*_HEADER.unpack_from(head, PREFIX.size))
        return BlscPieces(first.item, first.flags, first.length) if length == first.stored else self

    def memory(self, stored: Source) -> int:
        """Return the most memory that ``in_parallel`` uses for small buffers and their content."""
        return IN_WORK

    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """See ``Codec``."""
        yield from _Blocks(stored, size).decode_from(0)

    def seeker(self, stored: Source, size: int) -> Seeker:
        """Return a seeker with the blocks of the buffer."""
        return _Blocks(stored, size)

    def encode(self, content: Source) -> Iterator[bytes]:
        """See ``Codec``.  Raises ``ValueError`` for more than 2 GiB, the limit of the format.

        Needs memory for the whole content, because the library encodes only whole buffers.
        """
        if content.size > _LARGEST:
            raise ValueError(f"a blsc block holds at most {_LARGEST} bytes; choose another compression")
        if not content.size:
            return
        with in_memory(content) as whole:
            yield _library(alone=True).compress(whole)


@dataclass(frozen=True)
class BlscPieces(Blsc):
    """The codec of a block of several buffers.  See ``Codec``.

    ``item``, ``flags``, ``piece``: of the first buffer, the bytes of an item, the flags, and the bytes of content;
    buffers that are encoded get the same.
    """

    item: int
    flags: int
    piece: int

    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """See ``Codec``."""
        return _decoded_pieces(stored, 0)

    def seeker(self, stored: Source, size: int) -> Seeker:
        """Return a seeker that reads the header of each buffer."""
        return Chained(functools.partial(measured, stored), functools.partial(_decoded_pieces, stored))

    def encode(self, content: Source) -> Iterator[bytes]:
        """See ``Codec``."""
        blosc = _library(alone=True)
        bits, whole = self.flags & _BITS_SHUFFLED, self.flags & _SHUFFLED
        shuffle = blosc.BITSHUFFLE if bits else blosc.SHUFFLE if whole else blosc.NOSHUFFLE
        name = _INNER[min(self.flags >> 5, len(_INNER) - 1)]
        for piece in pieces(content, length=min(max(self.piece, _LEAST), _AT_ONCE)):
            buffer = blosc.compress(piece, typesize=max(1, self.item), clevel=1, shuffle=shuffle, cname=name)
            yield PREFIX.pack(len(buffer)) + buffer


def measured(stored: Source, place: int) -> tuple[int, int] | None:
    """Return the bytes of content of the buffer at ``place``, and where the next one begins; None at the end.

    Chunks of Blosc2 are measured alike.  Raises ``ValueError`` if the buffer is damaged.
    """
    head = stored.read_at(place, PREFIX.size + _HEADER.size)
    if not head:
        return None
    if len(head) < PREFIX.size + _HEADER.size:
        raise ValueError("the stored bytes end inside the header of a blosc buffer")
    (length,), buffer = PREFIX.unpack_from(head), _Buffer(*_HEADER.unpack_from(head, PREFIX.size))
    if length != buffer.stored or place + PREFIX.size + length > stored.size:
        raise ValueError("the length of a blosc buffer contradicts its header")
    return buffer.length, place + PREFIX.size + length


def _decoded_pieces(stored: Source, place: int) -> Iterator[bytes]:
    """Yield the content of the buffers from ``place`` of the stored bytes on."""
    while (found := measured(stored, place)) is not None:
        length, behind = found
        start = place + PREFIX.size
        yield from _Blocks(part_of(stored, start, behind - start), length).decode_from(0)
        place = behind


class _Blocks:
    """The blocks of the buffer ``stored`` with ``size`` bytes of content: a ``Seeker``.  Each block is a piece."""

    def __init__(self, stored: Source, size: int) -> None:
        self._stored = stored
        self._size = size
        self._known: tuple[_Buffer, list[tuple[int, int]]] | None = None

    def start_before(self, offset: int) -> int:
        """See ``Seeker``."""
        buffer, _ = self._parts()
        return buffer.length if offset >= buffer.length else offset // buffer.block * buffer.block

    def decode_from(self, start: int) -> Iterator[bytes]:
        """See ``Seeker``."""
        buffer, spans = self._parts()
        if buffer.flags & _STORED_AS_IS:
            yield from _raw(self._stored, buffer, start)
        else:
            yield from _decoded(self._stored, buffer, spans, -(-start // buffer.block))

    def count_pieces(self) -> int:
        """See ``codecs.seeking.Countable``."""
        return self._parts()[0].count

    def _parts(self) -> tuple[_Buffer, list[tuple[int, int]]]:
        """Return the header and the place of each block.  Raises ``ValueError`` if they contradict themselves."""
        if self._known is None:
            buffer = _read_header(self._stored, self._size)
            self._known = buffer, [] if buffer.flags & _STORED_AS_IS else _spans(self._stored, buffer)
        return self._known


def _read_header(stored: Source, size: int) -> _Buffer:
    head = stored.read_at(0, _HEADER.size)
    if len(head) < _HEADER.size:
        raise ValueError("the stored bytes are shorter than a blosc header")
    buffer = _Buffer(*_HEADER.unpack(head))
    if buffer.stored > stored.size or buffer.length != size or not buffer.block:
        raise ValueError("the blosc header contradicts itself or the block header")
    if buffer.block > _LARGEST_BLOCK or buffer.count > _MOST_BLOCKS:
        raise ValueError(f"a blosc buffer with blocks of {buffer.block} bytes is not supported")
    return buffer


def _raw(stored: Source, buffer: _Buffer, start: int) -> Iterator[bytes]:
    if buffer.stored != _HEADER.size + buffer.length:
        raise ValueError("the blosc header contradicts itself or the block header")
    left = buffer.length - start
    for piece in pieces(stored, _HEADER.size + start):
        yield piece[:left]
        left -= min(left, len(piece))


def _decoded(stored: Source, buffer: _Buffer, spans: list[tuple[int, int]], first: int) -> Iterator[bytes]:
    """Return the content from the block ``first`` on: that one alone, then a few at a time."""
    _library(alone=False)
    small_buffers = _small_buffers(stored, buffer, spans, first)
    return in_parallel(_decompressed, small_buffers, lambda small: len(small) + _length(small), 1)


def _small_buffers(stored: Source, buffer: _Buffer, spans: list[tuple[int, int]], first: int) -> Iterator[bytes]:
    """Yield buffers of a few blocks each, from the block ``first`` on."""
    for start, stop in _groups(buffer, first):
        length = min(stop * buffer.block, buffer.length) - start * buffer.block
        yield buffer.with_blocks([stored.read_at(place, end - place) for place, end in spans[start:stop]], length)


def _decompressed(small: bytes) -> bytes:
    import blosc

    try:
        return bytes(blosc.decompress(small))
    except blosc.blosc_extension.error as err:
        raise ValueError(f"the blosc library cannot decode a block: {err}") from err


def _length(small: bytes) -> int:
    """Return the bytes of content of a buffer."""
    return int(_HEADER.unpack_from(small)[4])


def _groups(buffer: _Buffer, first: int) -> Iterator[tuple[int, int]]:
    """Yield the first and last block, exclusive, of what is decoded together; a short last block is decoded alone."""
    whole, step = buffer.length // buffer.block, 1
    while first < whole:
        yield first, (last := min(first + step, whole))
        first, step = last, max(1, _AT_ONCE // buffer.block)
    if first < buffer.count:
        yield first, buffer.count


def _spans(stored: Source, buffer: _Buffer) -> list[tuple[int, int]]:
    """Return start and stop of each block, as offsets in the buffer.

    The header has only the starts.  A block ends where the next one in the buffer begins.  Raises ``ValueError`` if a
    start lies outside the buffer.
    """
    end = _HEADER.size + _OFFSET.size * buffer.count
    if end > buffer.stored:
        raise ValueError("the blosc header contradicts itself or the block header")
    starts = [start for (start,) in _OFFSET.iter_unpack(stored.read_at(_HEADER.size, end - _HEADER.size))]
    ends: dict[int, int] = {}
    follower = buffer.stored
    for start in sorted(set(starts), reverse=True):
        ends[start], follower = follower, start
    if starts and not end <= min(starts) <= max(starts) < buffer.stored:
        raise ValueError("a blosc block lies outside its buffer")
    return [(start, ends[start]) for start in starts]


PLUGIN = Blsc()
