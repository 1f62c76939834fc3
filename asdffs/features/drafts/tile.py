"""The encoding ``tile`` of the draft of 2015 (section Built-in array-to-array encodings).

An array of items is written tile by tile: the tiles in C order, and the items of each tile in C order.  Tiles at the
high edges are padded to whole tiles.  The padding means nothing and is written as zeros.

Arrays are encoded and decoded band by band.  A band is one or more whole rows of tiles along the first axis on which
a tile has more than one item.  Small arrays share a band, of about one MiB.  So memory use is a few times that of a
band.

numpy is imported when it is needed, not with this module.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from asdffs.codecs.base import LARGEST_PART, PIECE, Source

#: numpy 1 allows 32 axes; tiling needs two for each axis of the array, and one more for the arrays of a band.
_MOST_AXES: Final = 15


@dataclass(frozen=True, slots=True)
class _Band:
    """The unit of work: ``outer`` subarrays, each with ``rows`` items along the axis ``Tile._first``.

    A subarray has the axes from ``_first`` on.
    """

    outer: int
    rows: int


@dataclass(frozen=True, slots=True)
class Tile:
    """The tiling of one array.

    ``shape``: the shape of a tile in items; ``original``: the shape of the array; ``item``: bytes of an item.  Raises
    ``ValueError`` if these do not fit together, or if a row of tiles is larger than ``LARGEST_PART``.
    """

    shape: tuple[int, ...]
    original: tuple[int, ...]
    item: int

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

    @property
    def padded_size(self) -> int:
        """Size of all tiles in bytes, with padding."""
        return self._outer * math.prod(self._padded(_Band(1, self._rows)))

    @property
    def memory(self) -> int:
        """About how many bytes of memory encoding or decoding needs."""
        return 3 * max(PIECE, self._band_size())

    def decode(self, tiles: Source) -> Iterator[bytes]:
        """Yield the bytes of the array in order.  Raises ``ValueError`` unless ``tiles`` has exactly its bytes."""
        place = 0
        for band in self._bands():
            length = math.prod(self._padded(band))
            raw = tiles.read_at(place, length)
            if len(raw) < length:
                raise ValueError("the tiles end too early")
            place += length
            yield self._untiled(raw, band)
        if tiles.read_at(place, 1):  # reading on also makes the step before check that its stream is complete
            raise ValueError("more bytes follow its tiles")

    def encode(self, content: Source) -> Iterator[bytes]:
        """Yield the tiles of an array.  Raises ``ValueError`` unless ``content`` has exactly its size."""
        if content.size != self.size:
            raise ValueError(f"its tiles hold exactly {self.size} bytes, not {content.size}")
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


def tile_of(arguments: Callable[[str], Any]) -> Tile:
    """Return the tiling that the arguments of a chain describe.

    ``arguments(name)`` returns an argument as parsed from YAML, or None.  Raises ``ValueError`` if they are invalid.
    """
    shape, original = _shape_of(arguments("shape")), _shape_of(arguments("original_shape"))
    item = arguments("item_size")
    if shape is None or original is None or not _is_length(item):
        raise ValueError("tile needs shape, original_shape and item_size")
    return Tile(shape, original, item)


def _shape_of(value: Any) -> tuple[int, ...] | None:
    return tuple(value) if isinstance(value, list) and all(map(_is_length, value)) else None


def _is_length(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62
