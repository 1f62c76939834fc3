"""The encoding ``tile`` of the draft of 2015 (section Built-in array-to-array encodings).

An array of items is written tile by tile: the tiles in C order, the items of each in C order, those of the high edges
padded to whole tiles; what is in the padding means nothing and is written as zeros.  Work goes on band by band, a
band being what lies between two cuts of the first axis that is cut, or many of these if they are small, so memory is
that of a band.  Imports numpy when called.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from asdffs.codecs.base import LARGEST_PART, PIECE, Source

#: numpy's limit; a tile needs two axes for each of the array's, and one for the bytes of an item.
_MOST_AXES: Final = 15


@dataclass(frozen=True, slots=True)
class _Band:
    """``outer`` arrays of the axes from the first that is cut, each of ``rows`` items along that axis."""

    outer: int
    rows: int


@dataclass(frozen=True, slots=True)
class Tile:
    """``shape``: of a tile, in items; ``original``: of the array; ``item``: bytes of an item.

    Raises ``ValueError`` when these cannot be.
    """

    shape: tuple[int, ...]
    original: tuple[int, ...]
    item: int

    def __post_init__(self) -> None:
        if len(self.shape) != len(self.original):
            raise ValueError(f"tiles of {len(self.shape)} axes cannot make an array of {len(self.original)}")
        if len(self.shape) > _MOST_AXES:
            raise ValueError(f"tiles have {len(self.shape)} axes; {_MOST_AXES} are the most")
        if self.item < 1 or min(self.shape, default=1) < 1 or min(self.original, default=0) < 0:
            raise ValueError("tiles of no size cannot make an array")
        if self._band_size() > LARGEST_PART and self.size:
            raise ValueError(f"a row of tiles has {self._band_size()} bytes; {LARGEST_PART} are the most")

    @property
    def size(self) -> int:
        """Bytes of the array."""
        return self.item * math.prod(self.original)

    @property
    def padded_size(self) -> int:
        """Bytes of all tiles."""
        return self._outer * math.prod(self._padded(_Band(1, self._rows)))

    @property
    def memory(self) -> int:
        """Bytes that are kept in work, about."""
        return 3 * max(PIECE, self._band_size())

    def decode(self, tiles: Source) -> Iterator[bytes]:
        """The array of what ``tiles`` has, in order.  Raises ``ValueError`` when that ends too early."""
        place = 0
        for band in self._bands():
            length = math.prod(self._padded(band))
            raw = tiles.read_at(place, length)
            if len(raw) < length:
                raise ValueError("the tiles end too early")
            place += length
            yield self._untiled(raw, band)
        if tiles.read_at(place, 1):  # which also asks whoever decodes it whether it is whole
            raise ValueError("there are more bytes than its tiles have")

    def encode(self, content: Source) -> Iterator[bytes]:
        """The tiles of an array.  Raises ``ValueError`` unless ``content`` has just its size."""
        if content.size != self.size:
            raise ValueError(f"its tiles hold just {self.size} bytes, not {content.size}")
        place = 0
        for band in self._bands():
            length = math.prod(self._lengths(band))
            yield self._tiled(content.read_at(place, length), band)
            place += length

    # -- bands ------------------------------------------------------------

    @property
    def _first(self) -> int:
        """The first axis along which a tile has more than one item; those before are cut into single items."""
        cut = (axis for axis, step in enumerate(self.shape) if step > 1)
        return next(cut, max(0, len(self.shape) - 1))

    @property
    def _steps(self) -> tuple[int, ...]:
        """Of the axes from ``_first`` on: how many items a tile has.  The last is counted in bytes.

        So the bytes of an item lie together whatever is moved.
        """
        steps = self.shape[self._first :] or (1,)
        return (*steps[:-1], steps[-1] * self.item)

    def _lengths(self, band: _Band) -> tuple[int, ...]:
        """The part of the array that a band has; the last axis in bytes."""
        rest = self.original[self._first + 1 :]
        lengths = (band.outer, band.rows, *rest)
        return (*lengths[:-1], lengths[-1] * self.item)

    def _padded(self, band: _Band) -> tuple[int, ...]:
        """The same with the padding of its tiles."""
        steps = (1, *self._steps)
        return tuple(-(-length // step) * step for length, step in zip(self._lengths(band), steps, strict=True))

    @property
    def _outer(self) -> int:
        """How many arrays of the axes from ``_first`` on there are."""
        return math.prod(self.original[: self._first])

    @property
    def _rows(self) -> int:
        """Items along the axis ``_first``."""
        return self.original[self._first] if self.original else 1

    def _band_size(self) -> int:
        """Bytes of the smallest band that can be: a row of tiles."""
        return math.prod(self._padded(_Band(1, min(self._rows, self.shape[self._first] if self.shape else 1))))

    def _bands(self) -> Iterator[_Band]:
        """The bands in order: several arrays of the axes from ``_first`` on, or a part of one, of about a MiB."""
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
    """The order that puts each axis within tiles behind that of the tiles."""
    return tuple(itertools.chain(*((axis, axes + axis) for axis in range(axes))))


def tile_of(arguments: Callable[[str], Any]) -> Tile:
    """The tile that a chain describes; ``arguments(name)`` is what it has there.  Raises ``ValueError``."""
    shape, original = _shape_of(arguments("shape")), _shape_of(arguments("original_shape"))
    item = arguments("item_size")
    if shape is None or original is None or not _is_length(item):
        raise ValueError("tile needs shape, original_shape and item_size")
    return Tile(shape, original, item)


def _shape_of(value: Any) -> tuple[int, ...] | None:
    return tuple(value) if isinstance(value, list) and all(map(_is_length, value)) else None


def _is_length(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62
