"""Regions of an array: what integers, slices and ``...`` select of it, as offset, shape and strides.

Pure arithmetic, as numpy does it for its views.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

#: How much is written at a time, in bytes.
_WRITTEN_AT_ONCE: Final = 64 << 20


class Selection(NamedTuple):
    """Elements of a block: ``offset`` of the first, in bytes of its content, and ``strides`` in bytes.

    ``scalar``: it is one element that was selected by a number for each axis.
    """

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    scalar: bool = False

    def as_it_lies(self) -> tuple[Selection, tuple[int, ...]]:
        """The same with its axes in the order in which they lie in the block, the longest step first; that order."""
        axes = tuple(
            sorted(range(len(self.shape)), key=lambda axis: -abs(self.strides[axis]) * (self.shape[axis] != 1))
        )
        if all(step > 0 or length == 1 for step, length in zip(self.strides, self.shape, strict=True)):
            shape, strides = (tuple(facts[axis] for axis in axes) for facts in (self.shape, self.strides))
            return Selection(self.offset, shape, strides, self.scalar), axes
        return self, tuple(range(len(self.shape)))


def select(whole: Selection, index: Any) -> Selection | None:
    """What ``index`` selects of ``whole``; None where it is no region: lists, masks.  Raises ``IndexError``."""
    keys = index if isinstance(index, tuple) else (index,)
    if not all(key is None or key is Ellipsis or isinstance(key, slice) or _is_number(key) for key in keys):
        return None
    offset = whole.offset
    shape: list[int] = []
    strides: list[int] = []
    axis = 0
    keys = _expanded(keys, len(whole.shape))
    for key in keys:
        if key is None:
            shape, strides = [*shape, 1], [*strides, 0]
            continue
        length, step = whole.shape[axis], whole.strides[axis]
        if isinstance(key, slice):
            chosen = range(*key.indices(length))
            offset += step * chosen.start if chosen else 0
            shape, strides = [*shape, len(chosen)], [*strides, step * chosen.step]
        else:
            offset += step * _position(key, length, axis)
        axis += 1
    scalar = not shape and index is not Ellipsis and Ellipsis not in _tuple(index)
    return Selection(offset, tuple(shape), tuple(strides), scalar)


def packed_runs(region: Selection, item: int) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Pieces of a region that lie together: the offset of each, and its index in an array of the region's shape.

    ``item``: bytes of an element.
    """
    if 0 in region.shape or not item:
        return
    yield from _runs(region.offset, region.shape, region.strides, item, ())


def _runs(
    offset: int, shape: tuple[int, ...], strides: tuple[int, ...], item: int, index: tuple[int, ...]
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    row = item * math.prod(shape[1:])
    if is_packed(shape, strides, item) and (not shape or row <= _WRITTEN_AT_ONCE):
        count = _WRITTEN_AT_ONCE // row
        for first in range(0, shape[0] if shape else 1, count):
            yield offset + first * row, (*index, slice(first, first + count) if shape else ...)
        return
    for place in range(shape[0]):
        yield from _runs(offset + place * strides[0], shape[1:], strides[1:], item, (*index, place))


def is_packed(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> bool:
    """Whether elements of ``item`` bytes follow each other without a gap, rows first."""
    for length, step in zip(reversed(shape), reversed(strides), strict=True):
        if length != 1 and step != item:
            return False
        item *= length
    return True


def _expanded(keys: tuple[Any, ...], axes: int) -> tuple[Any, ...]:
    """Slices for all axes that are not named."""
    named = sum(key is not None and key is not Ellipsis for key in keys)
    places = [place for place, key in enumerate(keys) if key is Ellipsis]
    if len(places) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if named > axes:
        raise IndexError(f"too many indices: the array has {axes} axes, and {named} were indexed")
    place = places[0] if places else len(keys)
    return (*keys[:place], *[slice(None)] * (axes - named), *keys[place + 1 :])


def _position(key: Any, length: int, axis: int) -> int:
    number = operator.index(key)
    if not -length <= number < length:
        raise IndexError(f"index {number} is out of bounds for axis {axis} with size {length}")
    return number % length


def _is_number(key: Any) -> bool:
    """Python's or numpy's; but their truth values are masks."""
    is_other = type(key).__name__ in ("bool", "bool_", "ndarray")
    return not is_other and hasattr(key, "__index__") and getattr(key, "shape", ()) == ()


def _tuple(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)
