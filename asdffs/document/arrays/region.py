"""Computes the region of an array that integers, slices and ``...`` select, as offset, shape and strides.

Pure arithmetic, the same as numpy's for its views.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

#: Bytes to write at a time.
_WRITTEN_AT_ONCE: Final = 64 << 20


class Selection(NamedTuple):
    """Selected elements of a block.

    ``offset`` is that of the first element, in bytes of the content; ``strides`` are in bytes.  ``scalar``: one
    element was selected by a number for each axis.
    """

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    scalar: bool = False

    def as_it_lies(self) -> tuple[Selection, tuple[int, ...]]:
        """Return the same elements with the axes in their order in the block, and that order as axis numbers.

        The axis with the longest stride comes first.  With a negative stride, the selection stays as it is.
        """
        axes = tuple(
            sorted(range(len(self.shape)), key=lambda axis: -abs(self.strides[axis]) * (self.shape[axis] != 1))
        )
        if all(step > 0 or length == 1 for step, length in zip(self.strides, self.shape, strict=True)):
            shape, strides = (tuple(facts[axis] for axis in axes) for facts in (self.shape, self.strides))
            return Selection(self.offset, shape, strides, self.scalar), axes
        return self, tuple(range(len(self.shape)))


def select(whole: Selection, index: Any) -> Selection | None:
    """Return the elements of ``whole`` that ``index`` selects; None if they are not a region, as for lists and masks.

    Raises ``IndexError``.
    """
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


def chosen_ranges(shape: tuple[int, ...], index: Any) -> tuple[tuple[range, ...], tuple[Any, ...]]:
    """Return the positions along each axis that ``index`` selects, in ascending order, and the index in them.

    An index that is not made of integers, slices, ``...`` and None gets the whole array.  Raises ``IndexError``.
    """
    keys = _tuple(index)
    if not all(key is None or key is Ellipsis or isinstance(key, slice) or _is_number(key) for key in keys):
        return tuple(map(range, shape)), index
    ranges, rest = list[range](), list[Any]()
    for key in _expanded(keys, len(shape)):
        if key is None:
            rest.append(key)
            continue
        length = shape[len(ranges)]
        if isinstance(key, slice):
            chosen = range(*key.indices(length))
            ranges.append(chosen if chosen.step > 0 else chosen[::-1])
            rest.append(slice(None, None, 1 if chosen.step > 0 else -1))
        else:
            low = _position(key, length, len(ranges))
            ranges.append(range(low, low + 1))
            rest.append(0)
    return tuple(ranges), (*rest, *([...] if Ellipsis in keys else []))


def packed_runs(region: Selection, item: int) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the contiguous pieces of a region: the offset of each, and its index in an array of the region's shape.

    Offsets are in bytes.  ``item``: bytes of an element.
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
    """Return whether elements of ``item`` bytes follow each other without gaps, rows first."""
    for length, step in zip(reversed(shape), reversed(strides), strict=True):
        if length != 1 and step != item:
            return False
        item *= length
    return True


def _expanded(keys: tuple[Any, ...], axes: int) -> tuple[Any, ...]:
    """Return the keys with slices for all axes that they do not name.  Raises ``IndexError``."""
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
    """Return whether ``key`` is an integer of Python or numpy.  A bool is not one: numpy treats it as a mask."""
    is_other = type(key).__name__ in ("bool", "bool_", "ndarray")
    return not is_other and hasattr(key, "__index__") and getattr(key, "shape", ()) == ()


def _tuple(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)
