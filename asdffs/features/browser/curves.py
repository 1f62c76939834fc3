"""Curves: an array of one axis, or one line of an array, as pairs of numbers that a browser can draw.

Of more elements than ``MOST`` the least and the greatest of each part are kept, so that no peak is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from asdffs.document.arrays.array import Array
from asdffs.errors import UsageError
from asdffs.features.browser.looking import broadcast_at
from asdffs.features.browser.pictures import complete, first_plane, lengths, real
from asdffs.features.browser.session import Session

#: The most points of a curve.
MOST: Final = 8192
#: Elements that are read for a curve; of more, every so-many-th.
LARGEST: Final = 8 << 20


def curve(session: Session, name: str, index: Sequence[int], along: str = "") -> np.ndarray[Any, Any]:
    """Return the curve of an array of one axis, or of one line of it: float64 of the shape (2, points).

    The first row is x: the positions of the elements, or the elements of ``along``, an array of the same length.  The
    second row is y, with NaN for masked elements.  Raises ``UsageError`` if it is no curve, ``MissingValueError``.
    """
    with session.entered():
        array = session.array(name)
        line = _line(array, index)
        (count,) = lengths(line, array.shape)
        step = max(1, -(-count // LARGEST))
        part = tuple(slice(key.start, key.stop, step) if isinstance(key, slice) else key for key in line)
        values = real(np.asarray(array[part])).astype("f8")
        if array.mask is not None:
            values[broadcast_at(array.mask, part, array.shape).astype(bool)] = np.nan
        places = np.arange(0, count, step).astype("f8")
        if along:
            other = session.array(along)
            if other.shape != (count,) or other.dtype.kind not in "biuf":
                raise UsageError(f"{along}: is not the axis of {name}")
            places = np.asarray(other[::step]).astype("f8")
    kept = peaks(values, MOST)
    return np.stack([places[kept], values[kept]])


def _line(array: Array, index: Sequence[int]) -> tuple[Any, ...]:
    try:
        line = first_plane(complete((*index, ...), array.shape), array.shape, 1)
    except IndexError as err:
        raise UsageError(str(err)) from err
    if len(lengths(line, array.shape)) != 1 or array.dtype.kind not in "biufc":
        raise UsageError("it is no curve: it has no axis of numbers")
    return line


def peaks(values: np.ndarray[Any, Any], most: int) -> np.ndarray[Any, Any]:
    """Return the positions of at most ``most`` elements: the least and the greatest of equal parts, in order."""
    if len(values) <= most:
        return np.arange(len(values))
    per = -(-len(values) // (most // 2))
    found = []
    for start in range(0, len(values), per):
        part = values[start : start + per]
        low = np.where(np.isnan(part), np.inf, part)
        high = np.where(np.isnan(part), -np.inf, part)
        found += sorted({start + int(low.argmin()), start + int(high.argmax())})
    return np.array(found)
