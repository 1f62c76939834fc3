"""Reads a selection that has a list of positions for some axes, each for its own axis, as ``isel`` of xarray has it.

| the positions                                      | how they are read                                          |
|----------------------------------------------------|------------------------------------------------------------|
| lie near each other                                | the box around them, in one read                           |
| are scattered, and the file is on this machine     | gathered from an mmap                                      |
| are scattered, and the file is on a server         | the stretches of the first such axis, one after the other  |
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    import numpy as np

#: A box with so many times the elements that are wanted is still read as one.
_WASTE: Final = 4
#: The most stretches that are read one after the other.
_MOST: Final = 64


class Source(Protocol):
    """An array of a file (``Array``)."""

    def __getitem__(self, index: Any) -> Any:
        """Return a copy of the selected elements."""


def read_outer(source: Source, shape: tuple[int, ...], index: tuple[Any, ...], *, near: bool) -> Any:
    """Return the elements of ``source``, an array of ``shape``, that ``index`` selects.

    ``index``: for each axis an integer, a slice, or a one-dimensional ndarray of positions, which may be negative.
    Positions select along their own axis only: two lists of 3 and 4 give 12 elements.  ``near``: the file is on this
    machine.  Raises ``IndexError``, or as ``source``.
    """
    import numpy as np

    lists = [axis for axis, key in enumerate(index) if isinstance(key, np.ndarray)]
    if not lists:
        return source[index]
    keys = tuple(_positions(key, shape[axis]) if axis in lists else key for axis, key in enumerate(index))
    if any(not keys[axis].size for axis in lists):  # an empty box has no first element
        keys = tuple(slice(0, 0) if axis in lists and not keys[axis].size else key for axis, key in enumerate(keys))
        return read_outer(source, shape, keys, near=near)
    spans = math.prod(int(np.ptp(keys[axis])) + 1 for axis in lists)
    if spans <= _WASTE * math.prod(keys[axis].size for axis in lists):
        return _read_box(source, keys)
    return _gathered(source, shape, keys) if near else _in_stretches(source, keys, lists[0])


def _positions(key: np.ndarray[Any, Any], length: int) -> np.ndarray[Any, Any]:
    import numpy as np

    if key.size and not -length <= key.min() <= key.max() < length:
        raise IndexError(f"an index is out of bounds for an axis of {length}")
    return np.where(key < 0, key + length, key)


def _read_box(source: Source, keys: tuple[Any, ...]) -> Any:
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


def _gathered(source: Source, shape: tuple[int, ...], keys: tuple[Any, ...]) -> Any:
    """Have numpy gather the elements: it reads only these from an mmap."""
    import numpy as np

    places = [np.arange(shape[axis])[key] for axis, key in enumerate(keys)]
    dropped = tuple(axis for axis, place in enumerate(places) if not place.ndim)
    found = source[np.ix_(*map(np.atleast_1d, places))]
    return found.squeeze(dropped)


def _in_stretches(source: Source, keys: tuple[Any, ...], axis: int) -> Any:
    """Read the stretches between the larger gaps of the positions of ``axis``, and join them."""
    import numpy as np

    wanted, back = np.unique(keys[axis], return_inverse=True)
    steps = np.diff(wanted)
    widest = np.argsort(steps)[::-1][: _MOST - 1]
    parts = np.split(wanted, np.sort(widest[steps[widest] > 1]) + 1)
    found = [_read_box(source, (*keys[:axis], part, *keys[axis + 1 :])) for part in parts]
    place = sum(not isinstance(key, (int, np.integer)) for key in keys[:axis])
    return np.concatenate(found, axis=place).take(back, axis=place)
