"""Selections of an array: what integers, slices and ``...`` select, and lists of positions for some axes.

The first have a region: an offset, a shape and strides, by the same arithmetic as numpy's for its views.  The second
are those of ``isel`` of xarray: each list selects along its own axis.

| the positions                                      | how they are read                                          |
|----------------------------------------------------|------------------------------------------------------------|
| lie near each other                                | the box around them, in one read                           |
| are scattered, and the file is on this machine     | gathered from an mmap                                      |
| are scattered, and the file is on a server         | the stretches of the first such axis, one after the other  |
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    import numpy as np

#: Bytes to write at a time.
_WRITTEN_AT_ONCE: Final = 64 << 20
#: A box with so many times the elements that are wanted is still read as one.
_WASTE: Final = 4
#: The most stretches that are read one after the other.
_MOST_STRETCHES: Final = 64


class Selectable(Protocol):
    """An array of a file (``Array``), or one of numpy."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""

    @property
    def dtype(self) -> Any:
        """The numpy dtype."""

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""

    def __getitem__(self, index: Any) -> Any:
        """Return a copy of the selected elements."""


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
    chosen = _chosen(whole.shape, index)
    if chosen is None:
        return None
    offset, shape, strides = whole.offset, list[int](), list[int]()
    steps = iter(whole.strides)
    for key in chosen:
        if key is None:
            shape, strides = [*shape, 1], [*strides, 0]
            continue
        step = next(steps)
        offset += step * (key if isinstance(key, int) else key.start if key else 0)
        if isinstance(key, range):
            shape, strides = [*shape, len(key)], [*strides, step * key.step]
    scalar = not shape and index is not Ellipsis and Ellipsis not in _tuple(index)
    return Selection(offset, tuple(shape), tuple(strides), scalar)


def chosen_ranges(shape: tuple[int, ...], index: Any) -> tuple[tuple[range, ...], tuple[Any, ...]]:
    """Return the positions along each axis that ``index`` selects, in ascending order, and the index in them.

    Lists of positions get the box around them.  An index that has anything but these, integers, slices, ``...`` and
    None gets the whole array.  Raises ``IndexError``.
    """
    import numpy as np

    keys = tuple(np.asarray(key) if isinstance(key, (list, np.ndarray)) else key for key in _tuple(index))
    lists = [key for key in keys if isinstance(key, np.ndarray)]
    chosen = _chosen(shape, tuple(slice(None) if isinstance(key, np.ndarray) else key for key in keys))
    if chosen is None or any(not key.size or key.dtype.kind not in "iu" for key in lists):
        return tuple(map(range, shape)), index
    ranges, rest = list[range](), list[Any]()
    for key, one in zip(_expanded(keys, len(shape)), chosen, strict=True):
        if isinstance(key, np.ndarray):
            places = _positions_of(key, shape[len(ranges)])
            ranges.append(range(int(places.min()), int(places.max()) + 1))
            rest.append(places - places.min())
        elif isinstance(one, range):
            ranges.append(one if one.step > 0 else one[::-1])
            rest.append(slice(None, None, 1 if one.step > 0 else -1))
        elif one is None:
            rest.append(one)
        else:
            ranges.append(range(one, one + 1))
            rest.append(0)
    return tuple(ranges), (*rest, *([...] if any(key is Ellipsis for key in keys) else []))


def _chosen(shape: tuple[int, ...], index: Any) -> list[range | int | None] | None:
    """Return the positions that ``index`` selects: a range or a number for each axis, and None for each new axis.

    None if the index has anything but integers, slices, ``...`` and None.  Raises ``IndexError``.
    """
    keys = _tuple(index)
    if not all(key is None or key is Ellipsis or isinstance(key, slice) or _is_number(key) for key in keys):
        return None
    chosen: list[range | int | None] = []
    axis = 0
    for key in _expanded(keys, len(shape)):
        if key is None:
            chosen.append(None)
            continue
        length = shape[axis]
        chosen.append(range(*key.indices(length)) if isinstance(key, slice) else _position(key, length, axis))
        axis += 1
    return chosen


def select_gathered(source: Selectable, at: Callable[[tuple[range, ...]], Any], index: Any) -> Any:
    """Return the elements of ``source``, an array in pieces, that ``index`` selects.

    ``at(ranges)`` returns a new array of the elements at these positions of each axis.  Raises ``IndexError``, or as
    ``at``.
    """
    outer = as_outer(source.shape, index)
    if outer is not None:
        return read_outer(source, outer, near=False)
    ranges, rest = chosen_ranges(source.shape, index)
    found = at(ranges)[rest]
    whole = getattr(found, "base", None)
    return found if whole is None or whole.nbytes < 2 * found.nbytes else found.copy()  # a part keeps all of them


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


def as_outer(shape: tuple[int, ...], index: Any) -> tuple[Any, ...] | None:
    """Return ``index`` for ``read_outer``, if it means the same there and to numpy: it has one list; else None.

    The list has positions, or a bool for each.  If numbers are not beside it, numpy makes its axis the first.
    """
    import numpy as np

    keys = [np.asarray(key) if isinstance(key, (list, np.ndarray)) else key for key in _tuple(index)]
    if sum(isinstance(key, np.ndarray) for key in keys) != 1:
        return None
    if not all(key is Ellipsis or isinstance(key, (slice, np.ndarray)) or _is_number(key) for key in keys):
        return None
    found = [*_expanded(tuple(keys), len(shape))]
    fixed = [axis for axis, key in enumerate(found) if not isinstance(key, slice)]
    axis = next(axis for axis in fixed if isinstance(found[axis], np.ndarray))
    if found[axis].dtype.kind == "b" and found[axis].shape == (shape[axis],):
        found[axis] = np.flatnonzero(found[axis])
    stays = fixed[-1] - fixed[0] < len(fixed) or not any(isinstance(key, slice) for key in found[:axis])
    return tuple(found) if stays and found[axis].ndim == 1 and found[axis].dtype.kind in "iu" else None


def read_outer(source: Selectable, index: tuple[Any, ...], *, near: bool) -> Any:
    """Return the elements of ``source`` that ``index`` selects.

    ``index``: for each axis an integer, a slice, or a one-dimensional ndarray of positions, which may be negative.
    Positions select along their own axis only: two lists of 3 and 4 give 12 elements.  ``near``: the file is on this
    machine.  Raises ``IndexError``, or as ``source``.
    """
    import numpy as np

    lists = [axis for axis, key in enumerate(index) if isinstance(key, np.ndarray)]
    if not lists:
        return source[index]
    shape = source.shape
    keys = tuple(_positions_of(key, shape[axis]) if axis in lists else key for axis, key in enumerate(index))
    if any(not keys[axis].size for axis in lists):  # an empty box has no first element
        keys = tuple(slice(0, 0) if axis in lists and not keys[axis].size else key for axis, key in enumerate(keys))
        return read_outer(source, keys, near=near)
    spans = math.prod(int(np.ptp(keys[axis])) + 1 for axis in lists)
    if spans <= _WASTE * math.prod(keys[axis].size for axis in lists):
        return _read_box(source, keys)
    return _gathered(source, shape, keys) if near else _in_stretches(source, keys, lists[0])


def _positions_of(key: np.ndarray[Any, Any], length: int) -> np.ndarray[Any, Any]:
    import numpy as np

    if key.size and not -length <= key.min() <= key.max() < length:
        raise IndexError(f"an index is out of bounds for an axis of {length}")
    return np.where(key < 0, key + length, key)


def _read_box(source: Selectable, keys: tuple[Any, ...]) -> Any:
    """Read the box around the positions, and select from it."""
    import numpy as np

    lists = [isinstance(key, np.ndarray) for key in keys]
    box = tuple(
        slice(int(key.min()), int(key.max()) + 1) if many else key for key, many in zip(keys, lists, strict=True)
    )
    found, axis = source[box], 0
    for key, many in zip(keys, lists, strict=True):
        if many:
            found = found.take(key - key.min(), axis=axis)
        axis += many or isinstance(key, slice)
    return found


def _gathered(source: Selectable, shape: tuple[int, ...], keys: tuple[Any, ...]) -> Any:
    """Have numpy gather the elements: it reads only these from an mmap."""
    import numpy as np

    places = [np.arange(shape[axis])[key] for axis, key in enumerate(keys)]
    dropped = tuple(axis for axis, place in enumerate(places) if not place.ndim)
    found = source[np.ix_(*map(np.atleast_1d, places))]
    return found.squeeze(dropped)


def _in_stretches(source: Selectable, keys: tuple[Any, ...], axis: int) -> Any:
    """Read the stretches between the larger gaps of the positions of ``axis``, and join them."""
    import numpy as np

    wanted, back = np.unique(keys[axis], return_inverse=True)
    steps = np.diff(wanted)
    widest = np.argsort(steps)[::-1][: _MOST_STRETCHES - 1]
    parts = np.split(wanted, np.sort(widest[steps[widest] > 1]) + 1)
    found = [_read_box(source, (*keys[:axis], part, *keys[axis + 1 :])) for part in parts]
    place = sum(not isinstance(key, (int, np.integer)) for key in keys[:axis])
    return np.concatenate(found, axis=place).take(back, axis=place)
