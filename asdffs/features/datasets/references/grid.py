"""Cuts a stored array into chunks that are contiguous in the file.  Pure.

Readers of Zarr refuse a short last chunk, so the lengths of a chunk divide those of the array.  Within a chunk the
elements have C order, because not all readers of references know another one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Final, NamedTuple

from asdffs.errors import NotPermittedError

#: A chunk has at most so many bytes, if the lengths of the array can be divided.
LARGEST: Final = 16 << 20
#: The most chunks of an axis that is cut to stay below ``LARGEST``, and of an array.
_MOST_CUTS: Final = 4096
_MOST: Final = 100_000


class Grid(NamedTuple):
    """Chunks with the lengths ``chunk`` of an array with the lengths ``shape``.  ``strides`` are in bytes."""

    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    strides: tuple[int, ...]

    def chunks(self) -> Iterator[tuple[tuple[int, ...], int]]:
        """Yield the index of each chunk, and its offset from element 0 in bytes."""
        if 0 in self.shape:
            return
        counts = [length // part for length, part in zip(self.shape, self.chunk, strict=True)]
        steps = [part * stride for part, stride in zip(self.chunk, self.strides, strict=True)]
        for index in itertools.product(*map(range, counts)):
            yield index, sum(number * step for number, step in zip(index, steps, strict=True))


def grid_of(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> Grid:
    """Return the chunks of an array.  ``strides`` and ``item``, the size of an element, are in bytes.

    Raises ``NotPermittedError`` if the elements do not lie together, or if there were too many chunks.
    """
    if 0 in shape:
        return Grid(shape, tuple(max(1, length) for length in shape), strides)
    together = max(_candidates(shape, strides, item), key=math.prod)
    if math.prod(together) == 1 < math.prod(shape):
        raise NotPermittedError("its elements do not lie together")
    chunk = _cut(together, item)
    count = math.prod(length // part for length, part in zip(shape, chunk, strict=True))
    if count > _MOST:
        raise NotPermittedError(f"it lies in {count} places; references have room for {_MOST}")
    return Grid(shape, chunk, strides)


def _candidates(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> Iterator[tuple[int, ...]]:
    """Yield the lengths of what is contiguous in C order: the last axes, and each axis whose elements follow."""
    size, first = item, len(shape)
    while first and (shape[first - 1] == 1 or strides[first - 1] == size):
        first -= 1
        size *= shape[first]
    yield (*[1] * first, *shape[first:])
    for axis, (length, stride) in enumerate(zip(shape, strides, strict=True)):
        if stride == item:
            yield tuple(length if other == axis else 1 for other in range(len(shape)))


def _cut(lengths: tuple[int, ...], item: int) -> tuple[int, ...]:
    """Return the lengths of a part with at most ``LARGEST`` bytes, cut along the first axes that are not 1."""
    part = list(lengths)
    for axis, length in enumerate(lengths):
        row = item * math.prod(lengths[axis + 1 :])
        if row * length <= LARGEST:
            break
        part[axis] = _divisor(length, max(1, LARGEST // row))
        if part[axis] > 1:
            break
    return tuple(part)


def _divisor(length: int, wanted: int) -> int:
    """Return the largest divisor of ``length`` up to ``wanted``, or the next one if that makes too many parts."""
    low = [number for number in range(1, math.isqrt(length) + 1) if not length % number]
    divisors = [*low, *(length // number for number in reversed(low))]
    fitting = [number for number in divisors if number <= wanted and length // number <= _MOST_CUTS]
    return fitting[-1] if fitting else next(number for number in divisors if length // number <= _MOST_CUTS)
