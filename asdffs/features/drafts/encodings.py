"""The encodings of a chain in the draft of 2015: ``tile``, ``quantize`` and ``zlib``.

``tile`` (section Built-in array-to-array encodings): an array of items is written tile by tile, the tiles in C order,
and the items of each tile in C order.  Tiles at the high edges are padded to whole tiles.  The padding means nothing
and is written as zeros.  Arrays are encoded and decoded band by band.  A band is one or more whole rows of tiles
along the first axis on which a tile has more than one item.  Small arrays share a band, of about one MiB.  So memory
use is a few times that of a band.

``quantize`` (section Built-in array-to-binary encodings) rounded floats to integers of a few bits.  To encode decoded
values again would lose more precision, so they are only decoded.  The bytes are a stream of chunks, with all numbers
big-endian::

    offset in the chunk, length in bytes, field
     0  1  encoded_bits, 1 to 64     9  8  scale, a double
     1  8  offset, a double         17  8  nvalues
    25  (encoded_bits * nvalues) bits of signed integers, the first in the highest bits, padded to a byte

A value is ``integer * scale + offset`` in double precision, converted to the precision of the array.

numpy is imported when it is needed, not with this module.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from asdffs.codecs.base import LARGEST_PART, PIECE, Source
from asdffs.codecs.zlib import PLUGIN as ZLIB

LOSSY: Final = (
    "the encoding quantize rounds values, so the block is read-only; change its compression to make it writable"
)
_CHUNK: Final = struct.Struct(">BddQ")
#: Values to decode at a time.  A multiple of 8, so that a part always ends with a whole byte.
_AT_ONCE: Final = 1 << 16
#: Most chunks without values, which mean nothing.  The limit makes ``encoded_size`` finite.
_MOST_EMPTY: Final = 1000
#: Most bytes that a value can take in the stream: a chunk of its own, with 64 bits.
_MOST: Final = _CHUNK.size + 8
#: numpy 1 allows 32 axes; tiling needs two for each axis of the array, and one more for the arrays of a band.
_MOST_AXES: Final = 15


class ChainStep(Protocol):
    """One encoding with its arguments."""

    @property
    def ratio(self) -> int:
        """The most bytes that one encoded byte can decode to."""

    @property
    def memory(self) -> int:
        """About how many bytes of memory it needs."""

    def encoded_size(self, size: int) -> int:
        """Return the most bytes that ``size`` bytes can take encoded.  Raises ``ValueError`` for a wrong size."""

    def decode(self, encoded: Source, size: int, order: str) -> Iterator[bytes]:
        """Yield the content of ``encoded`` in pieces, at most ``size`` bytes.

        ``order``: the byteorder to decode to, ``big`` or ``little``.  Raises ``ValueError`` if the bytes are damaged.
        """

    def encode(self, content: Source) -> Iterator[bytes]:
        """Yield the encoded bytes in pieces.  Raises ``ValueError`` if the content cannot be encoded."""


class _Zlib:
    """See ``ChainStep``."""

    ratio = ZLIB.ratio
    memory = 2 * PIECE

    def encoded_size(self, size: int) -> int:
        return size + size // 256 + (1 << 16)

    def decode(self, encoded: Source, size: int, order: str) -> Iterator[bytes]:
        return ZLIB.decode(encoded, size)

    def encode(self, content: Source) -> Iterator[bytes]:
        return ZLIB.encode(content)


@dataclass(frozen=True, slots=True)
class Quantize:
    """The decoder of an array of floats.  See ``ChainStep``.

    ``bits``: of a float, 32 or 64; ``original``: the shape of the array, without the padding of tiles.
    """

    bits: int
    original: tuple[int, ...]

    ratio = 64
    memory = 2 * PIECE

    @property
    def size(self) -> int:
        """Size of the array in bytes."""
        return self.bits // 8 * math.prod(self.original)

    def encoded_size(self, size: int) -> int:
        """See ``ChainStep``.  Raises ``ValueError`` for fewer bytes than the array has; tiles may have more."""
        if size < self.size:
            raise ValueError(f"its original_shape has {self.size} bytes, and the content {size}")
        return size // (self.bits // 8) * _MOST + _MOST_EMPTY * _CHUNK.size

    def encode(self, content: Source) -> Iterator[bytes]:
        """Raise ``ValueError``."""
        raise ValueError(LOSSY)

    def decode(self, encoded: Source, size: int, order: str) -> Iterator[bytes]:
        """See ``ChainStep``.  Raises ``ValueError`` unless ``encoded`` has exactly the values of the array."""
        item, place, empty = self.bits // 8, 0, 0
        wanted, dtype = size // item, ("<" if order == "little" else ">") + f"f{item}"
        while head := encoded.read_at(place, _CHUNK.size):
            if len(head) < _CHUNK.size:
                raise ValueError("the quantized values end inside the header of a chunk")
            bits, offset, scale, count = _CHUNK.unpack(head)
            place += _CHUNK.size
            if not 1 <= bits <= 64:
                raise ValueError(f"a chunk has values of {bits} bits; only 1 to 64 are possible")
            if count > wanted:
                raise ValueError("there are more quantized values than the array has")
            wanted, empty = wanted - count, empty + (not count)
            if empty > _MOST_EMPTY:
                raise ValueError("there are too many chunks without values")
            for part in _parts(count):
                length = -(-part * bits // 8)
                raw = encoded.read_at(place, length)
                if len(raw) < length:
                    raise ValueError("the quantized values end too early")
                place += length
                yield _values(raw, part, bits, scale, offset, dtype)
        if wanted:
            raise ValueError(f"{wanted} quantized values are missing")


def _parts(count: int) -> Iterator[int]:
    """Yield the numbers of values to decode at a time, ``count`` in all."""
    while count:
        part = min(count, _AT_ONCE)
        yield part
        count -= part


def _values(raw: bytes, count: int, bits: int, scale: float, offset: float, dtype: str) -> bytes:
    """Return the first ``count`` values in ``raw``, of ``bits`` bits each, as bytes of an array of ``dtype``."""
    import numpy as np

    with np.errstate(all="ignore"):  # any scale and offset are possible, so values may overflow or be NaN
        found = _integers(raw, count, bits).astype(np.float64) * scale + offset
        return bytes(found.astype(dtype).tobytes())


def _integers(raw: bytes, count: int, bits: int) -> Any:
    """Return the first ``count`` two's complement integers in ``raw``, of ``bits`` bits each, as int64.

    Each is put into the highest of 64 bits and shifted down, which extends its sign.
    """
    import numpy as np

    if bits in (8, 16, 32, 64):
        return np.frombuffer(raw, f">i{bits // 8}", count).astype(np.int64)
    places = np.unpackbits(np.frombuffer(raw, np.uint8), count=count * bits).reshape(count, bits)
    wide = np.zeros((count, 64), np.uint8)
    wide[:, :bits] = places
    return np.packbits(wide, axis=1).view(">i8").reshape(count).astype(np.int64) >> (64 - bits)


def _quantize_of(arguments: Mapping[str, Any]) -> Quantize:
    """Return the decoder that the arguments of a chain describe.  Raises ``ValueError`` if they are invalid."""
    bits = arguments.get("dtype")
    if isinstance(bits, bool) or bits not in (32, 64):
        raise ValueError("quantize needs dtype: 32 or 64")
    original = _shape_of(arguments.get("original_shape"))
    if original is None:
        raise ValueError("quantize needs original_shape")
    return Quantize(int(bits), original)


@dataclass(frozen=True, slots=True)
class _Band:
    """The unit of work: ``outer`` subarrays, each with ``rows`` items along the axis ``Tile._first``.

    A subarray has the axes from ``_first`` on.
    """

    outer: int
    rows: int


@dataclass(frozen=True, slots=True)
class Tile:
    """The tiling of one array.  See ``ChainStep``.

    ``shape``: the shape of a tile in items; ``original``: the shape of the array; ``item``: bytes of an item.  Raises
    ``ValueError`` if these do not fit together, or if a row of tiles is larger than ``LARGEST_PART``.
    """

    shape: tuple[int, ...]
    original: tuple[int, ...]
    item: int

    ratio = 1

    def __post_init__(self) -> None:
        if len(self.shape) != len(self.original):
            raise ValueError(f"tiles with {len(self.shape)} axes cannot form an array with {len(self.original)} axes")
        if len(self.shape) > _MOST_AXES:
            raise ValueError(f"its tiles have {len(self.shape)} axes; at most {_MOST_AXES} are supported")
        if self.item < 1 or min(self.shape, default=1) < 1 or min(self.original, default=0) < 0:
            raise ValueError("the shape and the item_size of its tiles must be positive")
        if self._band_size() > LARGEST_PART and self.size:
            raise ValueError(f"a row of tiles has {self._band_size()} bytes; at most {LARGEST_PART} are supported")

    @property
    def size(self) -> int:
        """Size of the array in bytes."""
        return self.item * math.prod(self.original)

    def encoded_size(self, size: int) -> int:
        """Return the size of all tiles in bytes, with padding.  Raises ``ValueError`` for another ``size``."""
        if size != self.size:
            raise ValueError(f"its tiles hold exactly {self.size} bytes, not {size}")
        return self._outer * math.prod(self._padded(_Band(1, self._rows)))

    @property
    def memory(self) -> int:
        """About how many bytes of memory encoding or decoding needs."""
        return 3 * max(PIECE, self._band_size())

    def decode(self, encoded: Source, size: int, order: str) -> Iterator[bytes]:
        """Yield the bytes of the array in order.  Raises ``ValueError`` unless ``encoded`` has exactly its bytes."""
        place = 0
        for band in self._bands():
            length = math.prod(self._padded(band))
            raw = encoded.read_at(place, length)
            if len(raw) < length:
                raise ValueError("the tiles end too early")
            place += length
            yield self._untiled(raw, band)
        if encoded.read_at(place, 1):  # reading on also makes the step before check that its stream is complete
            raise ValueError("more bytes follow its tiles")

    def encode(self, content: Source) -> Iterator[bytes]:
        """Yield the tiles of an array.  Raises ``ValueError`` unless ``content`` has exactly its size."""
        self.encoded_size(content.size)
        place = 0
        for band in self._bands():
            length = math.prod(self._lengths(band))
            yield self._tiled(content.read_at(place, length), band)
            place += length

    # -- bands ------------------------------------------------------------

    @property
    def _first(self) -> int:
        """The first axis along which a tile has more than one item; the last axis if there is none.

        Along the axes before it a tile has one item.
        """
        cut = (axis for axis, step in enumerate(self.shape) if step > 1)
        return next(cut, max(0, len(self.shape) - 1))

    @property
    def _steps(self) -> tuple[int, ...]:
        """The length of a tile along each axis from ``_first`` on: in items, but in bytes along the last axis.

        Counting the last axis in bytes keeps the bytes of an item together.
        """
        steps = self.shape[self._first :] or (1,)
        return (*steps[:-1], steps[-1] * self.item)

    def _lengths(self, band: _Band) -> tuple[int, ...]:
        """Return the shape of a band without padding: in items, but in bytes along the last axis."""
        rest = self.original[self._first + 1 :]
        lengths = (band.outer, band.rows, *rest)
        return (*lengths[:-1], lengths[-1] * self.item)

    def _padded(self, band: _Band) -> tuple[int, ...]:
        """Return the shape of a band as ``_lengths``, with the padding of its tiles."""
        steps = (1, *self._steps)
        return tuple(-(-length // step) * step for length, step in zip(self._lengths(band), steps, strict=True))

    @property
    def _outer(self) -> int:
        """Number of subarrays of the axes from ``_first`` on."""
        return math.prod(self.original[: self._first])

    @property
    def _rows(self) -> int:
        """Number of items along the axis ``_first``."""
        return self.original[self._first] if self.original else 1

    def _band_size(self) -> int:
        """Return the size of the smallest possible band, a row of tiles, in bytes with padding."""
        return math.prod(self._padded(_Band(1, min(self._rows, self.shape[self._first] if self.shape else 1))))

    def _bands(self) -> Iterator[_Band]:
        """Yield the bands in order, each of about one MiB.

        A band has several subarrays of the axes from ``_first`` on, or whole rows of tiles of one.
        """
        if not self.size:
            return
        whole = math.prod(self._padded(_Band(1, self._rows)))
        if whole <= PIECE:
            at_once = PIECE // whole
            yield from (_Band(min(at_once, self._outer - n), self._rows) for n in range(0, self._outer, at_once))
            return
        at_once = max(1, PIECE // self._band_size()) * self.shape[self._first]
        for _ in range(self._outer):
            yield from (_Band(1, min(at_once, self._rows - n)) for n in range(0, self._rows, at_once))

    def _untiled(self, raw: bytes, band: _Band) -> bytes:
        import numpy as np

        padded, steps = self._padded(band), self._steps
        counts = tuple(length // step for length, step in zip(padded[1:], steps, strict=True))
        tiles = np.frombuffer(raw, np.uint8).reshape((band.outer, *counts, *steps))
        whole = tiles.transpose((0, *(1 + axis for axis in _interleaved(len(steps))))).reshape(padded)
        return whole[tuple(map(slice, self._lengths(band)))].tobytes()

    def _tiled(self, raw: bytes, band: _Band) -> bytes:
        import numpy as np

        padded, steps, lengths = self._padded(band), self._steps, self._lengths(band)
        whole = np.zeros(padded, np.uint8)
        whole[tuple(map(slice, lengths))] = np.frombuffer(raw, np.uint8).reshape(lengths)
        counts = tuple(length // step for length, step in zip(padded[1:], steps, strict=True))
        apart = whole.reshape((band.outer, *itertools.chain(*zip(counts, steps, strict=True))))
        axes = range(len(steps))
        return apart.transpose((0, *(1 + 2 * axis for axis in axes), *(2 + 2 * axis for axis in axes))).tobytes()


def _interleaved(axes: int) -> tuple[int, ...]:
    """Return the transposition that puts each axis within the tiles behind the same axis of the grid of tiles.

    ``axes`` is the number of axes: axes 0 to ``axes - 1`` are those of the grid, the others those within the tiles.
    """
    return tuple(itertools.chain(*((axis, axes + axis) for axis in range(axes))))


def tile_of(arguments: Mapping[str, Any]) -> Tile:
    """Return the tiling that the arguments of a chain describe.  Raises ``ValueError`` if they are invalid."""
    shape, original = _shape_of(arguments.get("shape")), _shape_of(arguments.get("original_shape"))
    item: Any = arguments.get("item_size")
    if shape is None or original is None or not _is_length(item):
        raise ValueError("tile needs shape, original_shape and item_size")
    return Tile(shape, original, item)


def _shape_of(value: Any) -> tuple[int, ...] | None:
    return tuple(value) if isinstance(value, list) and all(map(_is_length, value)) else None


def _is_length(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


#: Of each encoding its stage, and a function that makes a step of its arguments.  Stages are in ascending order:
#: 0 array to array, 1 array to bytes (at most once), 2 bytes to bytes.
STEPS: Final[dict[str, tuple[int, Callable[[Mapping[str, Any]], ChainStep]]]] = {
    "tile": (0, tile_of),
    "quantize": (1, _quantize_of),
    "zlib": (2, lambda arguments: _Zlib()),
}
