"""Chooses few elements of a large array: every so-many-th along each axis.  Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: For each axis an integer, or a slice with a start, a stop and a step.
Index = tuple[int | slice, ...]


def complete(index: Sequence[Any], shape: Sequence[int]) -> Index:
    """Return ``index`` for all axes of ``shape``: ``...`` and missing axes become whole slices.

    Integers are positive in the result, and slices have numbers.  Raises ``IndexError``.
    """
    keys = list(index)
    named = len(keys) - keys.count(Ellipsis)
    if named > len(shape) or keys.count(Ellipsis) > 1:
        raise IndexError(f"the array has {len(shape)} axes, and {named} are named")
    place = keys.index(Ellipsis) if Ellipsis in keys else len(keys)
    keys[place : place + 1] = [slice(None)] * (len(shape) - named)
    return tuple(_completed(key, length, axis) for axis, (key, length) in enumerate(zip(keys, shape, strict=True)))


def _completed(key: Any, length: int, axis: int) -> int | slice:
    if isinstance(key, slice):
        start, stop, step = key.indices(length)
        if not range(start, stop, step):
            return slice(0, 0, 1)
        return slice(start, None if stop < 0 else stop, step)
    if not -length <= key < length:
        raise IndexError(f"index {key} is out of bounds for axis {axis}, which has {length}")
    return int(key) % length


def lengths(index: Index, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of what a complete index selects."""
    found = zip(index, shape, strict=True)
    return tuple(len(range(*key.indices(length))) for key, length in found if isinstance(key, slice))


def first_plane(index: Index, shape: Sequence[int], axes: int = 2) -> Index:
    """Return an index with at most ``axes`` slices, the last ones: of the others, the first position.

    An index that selects nothing is returned as it is.
    """
    if 0 in lengths(index, shape):
        return index
    many = [axis for axis, key in enumerate(index) if isinstance(key, slice)]
    first = dict.fromkeys(many[: max(0, len(many) - axes)])
    return tuple(_first(key, shape[axis]) if axis in first else key for axis, key in enumerate(index))


def _first(key: int | slice, length: int) -> int:
    return range(*key.indices(length))[0] if isinstance(key, slice) else key


def coarser(index: Index, step: int) -> Index:
    """Return an index that selects every ``step``-th position of each slice."""
    return tuple(_stepped(key, step) if isinstance(key, slice) else key for key in index)


def _stepped(key: slice, step: int) -> slice:
    return slice(key.start, key.stop, (key.step or 1) * step)
