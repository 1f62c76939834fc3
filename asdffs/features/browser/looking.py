"""A look at an array: few of its elements, their statistics, and a picture of them; thumbnails for notebooks.

Of a large array every so-many-th element is read, so a look takes as long for 8 GiB as for 8 MiB; of a compressed
block, the pieces that have them.  Only ``statistics_at`` reads all elements, up to a limit.  A picture has the first
row at the bottom, as pictures of the sky have it.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from asdffs.document.arrays.selection import Selectable
from asdffs.errors import NotPermittedError, UsageError
from asdffs.features.browser.pictures import (
    GREY,
    Index,
    Statistics,
    coarser,
    coloured,
    complete,
    curve,
    first_plane,
    grey_levels,
    lengths,
    limits_of,
    png,
    statistics_of,
)
from asdffs.limits import LOOK

_NUMBERS: Final = "biufc"
#: Bytes of elements that all count in statistics, if they are on this machine.
WHOLE: Final = 256 << 20
#: Pixels of the longer side of a picture.
_SIDE: Final = 160


class Look(NamedTuple):
    """What was seen of an array.

    ``asked``: the index that was asked for, of at most two axes; ``drawn``: what was read of it; ``values``: these
    elements.  ``total``: how many elements were asked for.  ``step``: every so-many-th was read along each axis.
    ``mask``: of the elements, true where masked; None without a mask.
    """

    asked: Index
    drawn: Index
    values: np.ndarray[Any, Any]
    total: int
    step: int
    mask: np.ndarray[Any, Any] | None = None

    @property
    def is_numeric(self) -> bool:
        """Whether there are numbers, which have statistics and a picture."""
        return self.values.dtype.kind in _NUMBERS

    def statistics(self) -> Statistics:
        """Return the statistics of the elements that were read; of complex ones, those of their absolute values."""
        return statistics_of(real(self.values), self.mask)

    def shown(self) -> np.ndarray[Any, Any]:
        """Return the numbers that a picture shows; NaN where they are masked."""
        values = real(self.values)
        return values if self.mask is None else np.where(self.mask, np.nan, values.astype("f8"))


def look_at(array: Selectable, index: Sequence[Any], rows: int, columns: int, mask: Selectable | None = None) -> Look:
    """Read so many elements of ``array`` that they fit a picture of ``rows`` and ``columns``.

    ``index``: integers, slices and ``...``.  Of more than two axes, the first positions of the first axes are taken.
    Of one axis, ten elements for each column are read; of what is not numbers, at most ``LOOK`` bytes, or one
    element.  ``mask``: that of the array.  Raises ``UsageError``, or as ``Array.__getitem__``.
    """
    shape = array.shape
    try:
        whole = first_plane(complete(index, shape), shape)
    except IndexError as err:
        raise UsageError(str(err)) from err
    counts = lengths(whole, shape)
    most = (rows, columns) if len(counts) == 2 else (10 * columns,)
    step = max((-(-count // limit) for count, limit in zip(counts, most, strict=False)), default=1) or 1
    dtype = array.dtype
    while dtype.kind not in _NUMBERS and counts and step < max(counts) and _size(counts, step, dtype) > LOOK:
        step += -(-step // 8)
    drawn = coarser(whole, step)
    hidden = None if mask is None else _masked(mask, drawn, shape)
    return Look(whole, drawn, np.asarray(array[drawn]), math.prod(counts), step, hidden)


def statistics_at(array: Selectable, look: Look, mask: Selectable | None) -> Statistics:
    """Return the statistics of all elements that ``look`` was asked for, however few of them it has.

    Of those that it has, if all are more than ``WHOLE`` bytes.  Raises as ``Array.__getitem__``.
    """
    if look.step == 1 or look.total * array.dtype.itemsize > WHOLE:
        return look.statistics()
    hidden = None if mask is None else _masked(mask, look.asked, array.shape)
    return statistics_of(real(np.asarray(array[look.asked])), hidden)


def _masked(mask: Selectable, index: Index, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    if mask.shape == shape:
        return np.asarray(mask[index], bool)
    found: np.ndarray[Any, Any] = np.broadcast_to(np.asarray(mask[...], bool), shape)[index]
    return found


def _size(counts: Sequence[int], step: int, dtype: np.dtype[Any]) -> int:
    return math.prod(-(-count // step) for count in counts) * dtype.itemsize


def picture(look: Look, rows: int, columns: int, stretch: str, cmap: str) -> np.ndarray[Any, Any]:
    """Return the picture of a look: uint8 of two axes for grey levels, or with a third one of 3 for colours.

    An image has as many pixels as elements were read; a curve, of one axis, has ``rows`` and ``columns``.  Raises
    ``NotPermittedError`` if there is nothing to draw, and as ``limits_of`` and ``coloured``.
    """
    if not look.is_numeric or not look.values.ndim or not look.values.size:
        raise NotPermittedError("there is nothing to draw: it has no axis, no element or no numbers")
    values = look.shown()
    if values.ndim == 1:
        facts = look.statistics()
        return curve(values, (facts.least or 0.0, facts.greatest or 0.0), rows, columns)
    return coloured(grey_levels(values, limits_of(values, stretch), stretch)[::-1], cmap)


def real(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return ``values``, or the absolute values of complex numbers: what a picture shows."""
    return np.abs(values) if values.dtype.kind == "c" else values


def thumbnail(array: Selectable) -> str:
    """Return an ``img`` of the first image in an array; empty if it is none.  Raises as ``Array.__getitem__``."""
    if len(array.shape) < 2 or min(array.shape) < 1 or max(array.shape[-2:]) < 2 or array.dtype.kind not in _NUMBERS:
        return ""
    pixels = picture(look_at(array, (), _SIDE, _SIDE), _SIDE, _SIDE, "linear", GREY)
    factor = max(1, _SIDE // max(pixels.shape))  # a small picture is shown larger
    size = f'width="{pixels.shape[1] * factor}" height="{pixels.shape[0] * factor}" style="image-rendering:pixelated"'
    source = base64.b64encode(png(pixels)).decode()
    return f'<img alt="picture of the array" src="data:image/png;base64,{source}" {size}>'
