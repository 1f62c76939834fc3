"""The ``bls2`` compression: Blosc2, as one chunk or as a frame.

The asdf-compression package writes one chunk of c-blosc 2 for each block.  asdf-cxx writes a contiguous frame: chunks
of up to 2 GiB, where each one is, and what a reader has to know.  A frame says ``b2frame`` after its first two bytes.
A block is written again in the layout that it has.

The frame is read here, because the library reads beyond the end of a damaged one.  It holds the stored bytes of a
chunk in memory, and decodes only the blocks of it that are asked for.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from asdffs.codecs.base import LARGEST_PART, PIECE, Codec, Source, in_memory, pieces
from asdffs.codecs.seeking import Seeker

#: Where a frame says that it is one.
_MAGIC_AT, _MAGIC = 2, b"b2frame\0"
#: The bytes of its header, of all content, of its chunks as they are stored, and of the content of a chunk.
_FRAME = struct.Struct(">11xi15xqxq11xi")
#: Where a chunk is behind the header of a frame.  A negative one says in its first byte what the chunk is made of.
_OFFSET, _SPECIAL = struct.Struct("<q"), 56
#: Chunks of zeros, and those without values.
_ZEROS = (1, 4)
_MOST_CHUNKS = 1 << 18
#: The bytes of a chunk before its content.
HEAD = 32
_FLAGS, _ITEM, _FILTERS = 2, 3, slice(16, 22)
#: Bytes of the content of a chunk, of the content of a block of it, and of the chunk.
_LENGTHS_AT, _LENGTHS = 4, struct.Struct("<3I")
#: The inner compressions in the highest bits of the flags, as numbers of the library; lz4 is also lz4hc.
_INNER = {0: 0, 1: 1, 3: 4, 4: (_ZSTD := 5)}
#: Filters of the library that lose nothing, by their numbers: shuffle and bitshuffle.
_LOSSLESS = (1, 2)
_LARGEST = (1 << 31) - 1 - HEAD  # BLOSC2_MAX_BUFFERSIZE
#: The bytes of content of a chunk of a frame that is written.
_CHUNK = 1 << 22
#: The largest block of a chunk that is decoded, in bytes of content.  The library makes blocks of up to a few MiB.
_LARGEST_BLOCK = 1 << 26


@dataclass(frozen=True, slots=True)
class Settings:
    """The compression of a chunk, by its header: the bytes of an item, the inner compression, and the filter.

    ``compression`` and ``shuffle`` are numbers of the library; a header has other ones.  A filter that loses digits
    is not used again.
    """

    item: int = 8
    compression: int = _ZSTD
    shuffle: int = 1

    @classmethod
    def of(cls, head: bytes) -> Settings:
        """Return the settings of a chunk with the header ``head``."""
        if len(head) < HEAD:
            return cls()
        used = [number for number in head[_FILTERS] if number in _LOSSLESS]
        return cls(max(1, head[_ITEM]), _INNER.get(head[_FLAGS] >> 5, _ZSTD), used[-1] if used else 0)

    def arguments(self, *sizes: int) -> dict[str, Any]:
        """Return the arguments with which the library compresses so many bytes.

        All ``sizes`` must be multiples of an item, or it is taken to have one byte.
        """
        import blosc2

        item = 1 if any(size % self.item for size in sizes) else self.item
        filters = [blosc2.Filter(self.shuffle)]
        return {"typesize": item, "codec": blosc2.Codec(self.compression), "filters": filters}


DEFAULTS = Settings()


@dataclass(frozen=True)
class Bls2(Codec):
    """The codec of blocks of one chunk, compressed with ``settings``.  See ``Codec``."""

    settings: Settings = DEFAULTS
    id = b"bls2"
    library = "blosc2"
    extra = "blosc2"
    ratio = 1 << 26  # a chunk of equal bytes is a header

    def layout_of(self, stored: Source) -> Codec:
        """See ``codecs.base.Varied``."""
        head = stored.read_at(0, HEAD)
        if not head[_MAGIC_AT:].startswith(_MAGIC):
            return Bls2(Settings.of(head))
        first = int.from_bytes(head[11:15], "big")  # its first chunk follows its header
        return Bls2Frame(Settings.of(stored.read_at(first, HEAD)))

    def memory(self, stored: Source) -> int:
        """Return the stored bytes, and a block."""
        return stored.size + PIECE

    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """See ``Codec``."""
        yield from _Slices(stored, size).decode_from(0)

    def seeker(self, stored: Source, size: int) -> Seeker:
        """Return a seeker with the blocks of the chunks."""
        return _Slices(stored, size)

    def encode(self, content: Source) -> Iterator[bytes]:
        """See ``Codec``.  Raises ``ValueError`` for more than 2 GiB, the limit of a chunk.

        Needs memory for the whole content, because the library encodes only whole chunks.
        """
        if content.size > _LARGEST:
            raise ValueError(f"a chunk of a bls2 block holds at most {_LARGEST} bytes; choose another compression")
        if not content.size:
            return
        with in_memory(content) as whole:
            yield compressed(whole, self.settings)


class Bls2Frame(Bls2):
    """The codec of a block that is a frame."""

    def encode(self, content: Source) -> Iterator[bytes]:
        """See ``Codec``.  Needs memory for all stored bytes."""
        import blosc2

        cparams = self.settings.arguments(_CHUNK, content.size)
        frame = blosc2.SChunk(chunksize=_CHUNK, contiguous=True, cparams=cparams)
        for piece in pieces(content, length=_CHUNK):
            frame.append_data(piece)
        yield frame.to_cframe()


def compressed(content: bytes | mmap.mmap, settings: Settings) -> bytes:
    """Return a chunk of Blosc2."""
    import blosc2

    return bytes(blosc2.compress2(content, **settings.arguments(len(content))))


@dataclass(frozen=True, slots=True)
class _Table:
    """The places of chunks in the stored bytes, None for one of zeros, which is not stored.

    Each has ``size`` bytes of content, but the last may have less.
    """

    size: int
    places: list[int | None]


class _Slices:
    """The content of a chunk or frame, piece by piece: a ``Seeker``."""

    def __init__(self, stored: Source, size: int) -> None:
        self._stored = stored
        self._size = size

    def start_before(self, offset: int) -> int:
        """See ``Seeker``."""
        return min(offset, self._size) // PIECE * PIECE

    def decode_from(self, start: int) -> Iterator[bytes]:
        """See ``Seeker``."""
        table = _table_of(self._stored, self._size)
        for number in range(start // table.size, len(table.places)):
            first = number * table.size
            yield from self._pieces(table.places[number], max(0, start - first), min(table.size, self._size - first))

    def _pieces(self, place: int | None, start: int, length: int) -> Iterator[bytes]:
        """Yield the content of a chunk of ``length`` bytes from ``start`` on."""
        cut = _zeros if place is None else _cut(_opened(self._stored, place, length))
        for first in range(start, length, PIECE):
            yield cut(first, min(first + PIECE, length))


def _table_of(stored: Source, size: int) -> _Table:
    """Return where the chunks of a block are.  Raises ``ValueError`` if a frame is damaged."""
    head = stored.read_at(0, _FRAME.size)
    if not head[_MAGIC_AT:].startswith(_MAGIC):
        return _Table(max(1, size), [0])
    if len(head) < _FRAME.size:
        raise ValueError("the stored bytes end inside the header of a frame of Blosc2")
    first, content, length, chunk = _FRAME.unpack(head)
    count = -(-size // max(1, chunk))
    if content != size or chunk < 1 or count > _MOST_CHUNKS:
        raise ValueError("the header of a frame of Blosc2 contradicts itself or the block header")
    if not count:
        return _Table(1, [])
    index = _opened(stored, first + length, _OFFSET.size * count)
    offsets = [offset for (offset,) in _OFFSET.iter_unpack(_cut(index)(0, _OFFSET.size * count))]
    return _Table(chunk, [_place(first, offset) for offset in offsets])


def _place(first: int, offset: int) -> int | None:
    if offset < 0 and offset >> _SPECIAL & 0x7F not in _ZEROS:
        raise ValueError("a frame of Blosc2 with chunks of one value is not supported")
    return None if offset < 0 else first + offset


def _opened(stored: Source, place: int, size: int) -> Any:
    """Return the library's object for the chunk at ``place``, which has ``size`` bytes of content.

    Raises ``ValueError`` if it is damaged.
    """
    import blosc2

    head = stored.read_at(place, HEAD) if place >= 0 else b""
    if len(head) < HEAD:
        raise ValueError("a chunk of Blosc2 begins outside of the stored bytes, or they end inside its header")
    content, block, length = _LENGTHS.unpack_from(head, _LENGTHS_AT)
    if content != size or length > stored.size - place:
        raise ValueError("the header of a chunk of Blosc2 contradicts itself or the block header")
    if block > _LARGEST_BLOCK:
        raise ValueError(f"a chunk of Blosc2 with blocks of more than {_LARGEST_BLOCK} bytes is not supported")
    with translated_errors():
        opened = blosc2.SChunk(chunksize=max(1, size), cparams={"typesize": max(1, head[_ITEM])})
        opened.append_chunk(stored.read_at(place, length))
    return opened


def _zeros(start: int, stop: int) -> bytes:
    return bytes(stop - start)


def _cut(opened: Any) -> Callable[[int, int], bytes]:
    """Return a function that returns a part of a chunk, from one byte to another.

    The library counts in items.  A chunk that ends within an item is decoded as a whole, once.
    """
    item, size = opened.typesize, opened.nbytes

    def part(start: int, stop: int) -> bytes:
        with translated_errors():
            return bytes(opened.get_slice(start // item, -(-stop // item))[start % item :][: stop - start])

    if not size % item:
        return part
    if size > LARGEST_PART:
        raise ValueError(f"a chunk of more than {LARGEST_PART} bytes that ends within an item is not supported")
    with translated_errors():
        whole = bytes(opened.decompress_chunk(0))
    return lambda start, stop: whole[start:stop]


@contextmanager
def translated_errors() -> Iterator[None]:
    """Raise ``ValueError`` for what the library raises."""
    try:
        yield
    except (RuntimeError, TypeError, IndexError) as err:
        raise ValueError(f"the blosc2 library cannot decode it: {err}") from err


PLUGIN = Bls2()
