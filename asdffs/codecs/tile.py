"""The encoding ``tile`` of the draft of 2015 (section Built-in array-to-array encodings).

An array of items is written tile by tile: the tiles in C order, the items of each in C order, those of the high
edges padded to whole tiles; what is in the padding means nothing and is written as zeros.  Work goes on band by band,
a band being what lies between two cuts of the first axis that is cut, so memory is that of a band.  User: ``chain``.
Imports numpy when called.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from asdffs.codecs.base import LARGEST_PART, Source

#: numpy's limit; a tile needs two axes for each of the array's, and one for the bytes of an item.
_MOST_AXES: Final = 15


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
        return self.item * math.prod(n * step for n, step in zip(self._counts, self.shape, strict=True))

    @property
    def memory(self) -> int:
        """Bytes that are kept in work, about."""
        return 3 * self._band_size()

    def decode(self, tiles: Source) -> Iterator[bytes]:
        """The array of what ``tiles`` has, in order.  Raises ``ValueError`` when that ends too early."""
        place, length = 0, self._band_size()
        for rows in self._bands():
            raw = tiles.read_at(place, length)
            if len(raw) < length:
                raise ValueError("the tiles end too early")
            place += length
            yield self._untiled(raw, rows)
        if tiles.read_at(place, 1):  # which also asks whoever decodes it whether it is whole
            raise ValueError("there are more bytes than its tiles have")

    def encode(self, content: Source) -> Iterator[bytes]:
        """The tiles of an array.  Raises ``ValueError`` unless ``content`` has just its size."""
        if content.size != self.size:
            raise ValueError(f"its tiles hold just {self.size} bytes, not {content.size}")
        place = 0
        for rows in self._bands():
            length = self.item * rows * math.prod(self.original[self._first + 1 :])
            yield self._tiled(content.read_at(place, length), rows)
            place += length

    # -- bands ------------------------------------------------------------

    @property
    def _counts(self) -> tuple[int, ...]:
        """How many tiles lie along each axis."""
        return tuple(-(-length // step) for length, step in zip(self.original, self.shape, strict=True))

    @property
    def _first(self) -> int:
        """The first axis along which a tile has more than one item; bands lie along it."""
        cut = (axis for axis, step in enumerate(self.shape) if step > 1)
        return next(cut, max(0, len(self.shape) - 1))

    def _band_size(self) -> int:
        """Bytes of the tiles of a band."""
        if not self.shape:
            return self.item
        rest = zip(self._counts[self._first + 1 :], self.shape[self._first + 1 :], strict=True)
        return self.item * self.shape[self._first] * math.prod(n * step for n, step in rest)

    def _bands(self) -> Iterator[int]:
        """How many rows of the array each band has, in order."""
        if not self.size:
            return
        if not self.shape:
            yield 1
            return
        length, step = self.original[self._first], self.shape[self._first]
        for _ in range(math.prod(self.original[: self._first])):
            for start in range(0, length, step):
                yield min(step, length - start)

    def _untiled(self, raw: bytes, rows: int) -> bytes:
        import numpy as np

        padded, counts, tile = self._padded(rows)
        tiles = np.frombuffer(raw, np.uint8).reshape(counts + tile)
        whole = tiles.transpose(_interleaved(len(tile))).reshape(padded)
        return whole[self._inside(rows)].tobytes()

    def _tiled(self, raw: bytes, rows: int) -> bytes:
        import numpy as np

        padded, counts, tile = self._padded(rows)
        whole = np.zeros(padded, np.uint8)
        inside = self._inside(rows)
        whole[inside] = np.frombuffer(raw, np.uint8).reshape(whole[inside].shape)
        apart = whole.reshape(tuple(itertools.chain(*zip(counts, tile, strict=True))))
        axes = len(tile)
        return apart.transpose((*range(0, 2 * axes, 2), *range(1, 2 * axes, 2))).tobytes()

    def _padded(self, rows: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """A band in bytes: its shape with padding, the numbers of tiles, and the shape of one.

        The bytes of an item lie together whatever is moved: the last axis is counted in bytes.
        """
        if not self.shape:
            return (self.item,), (1,), (self.item,)
        counts = (1, *self._counts[self._first + 1 :])
        tile = self.shape[self._first :]
        tile = (*tile[:-1], tile[-1] * self.item)
        return tuple(n * step for n, step in zip(counts, tile, strict=True)), counts, tile

    def _inside(self, rows: int) -> tuple[slice, ...]:
        """The part of a padded band that is the array's."""
        if not self.shape:
            return (slice(self.item),)
        lengths = (rows, *self.original[self._first + 1 :])
        return tuple(map(slice, (*lengths[:-1], lengths[-1] * self.item)))


def _interleaved(axes: int) -> tuple[int, ...]:
    """The order that puts each axis within tiles behind that of the tiles."""
    return tuple(itertools.chain(*((axis, axes + axis) for axis in range(axes))))


def tile_of(arguments: Callable[[str], Any]) -> Tile:
    """The tile that a chain describes; ``arguments(name)`` is what it has there.  Raises ``ValueError``."""
    shape, original = _lengths(arguments("shape")), _lengths(arguments("original_shape"))
    item = arguments("item_size")
    if shape is None or original is None or not _is_length(item):
        raise ValueError("tile needs shape, original_shape and item_size")
    return Tile(shape, original, item)


def _lengths(value: Any) -> tuple[int, ...] | None:
    return tuple(value) if isinstance(value, list) and all(map(_is_length, value)) else None


def _is_length(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62
