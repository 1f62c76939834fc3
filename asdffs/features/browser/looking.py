"""A look at an array: few of its elements, their statistics, and a picture of them; thumbnails for notebooks.

All numbers are read up to a size that the caller chooses.  Of more, every so-many-th element is read, so a look
takes as long for 8 GiB as for 8 MiB; of a compressed block, the pieces that have them.  A pixel of a picture is the
mean, or the greatest, of those of its elements that were read.  A picture has the first row at the bottom, as
pictures of the sky have it.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from asdffs.arrays.placement import check_mask_shape
from asdffs.document.arrays.selection import Selectable
from asdffs.errors import NotPermittedError, UsageError
from asdffs.features.browser import USUAL_STRETCH
from asdffs.features.browser.pictures import (
    GREY,
    Index,
    Statistics,
    cells,
    coarser,
    coloured,
    complete,
    curve,
    first_plane,
    grey_levels,
    lengths,
    limits_of,
    png,
    real,
    statistics_of,
)
from asdffs.limits import LOOK

_NUMBERS: Final = "biufc"
#: Bytes of numbers that are all read, if they are on this machine; and for the picture of a notebook.
WHOLE: Final = 256 << 20
_THUMBNAIL: Final = 16 << 20
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

    def pixels(self, rows: int, columns: int, *, peak: bool) -> np.ndarray[Any, Any]:
        """Return the numbers of a picture of at most so many ``rows`` and ``columns``; NaN where all are masked."""
        count, length = self.values.shape
        return cells(self.values, self.mask, max(1, -(-count // rows), -(-length // columns)), peak=peak)


def look_at(
    array: Selectable,
    index: Sequence[Any],
    rows: int,
    columns: int,
    mask: Selectable | None = None,
    *,
    whole: int = 0,
) -> Look:
    """Read so many elements of ``array`` that they fit a picture of ``rows`` and ``columns``.

    Numbers of at most ``whole`` bytes are all read.

    ``index``: integers, slices and ``...``.  Of more than two axes, the first positions of the first axes are taken.
    Of one axis, ten elements for each column are read; of what is not numbers, at most ``LOOK`` bytes, or one
    element.  ``mask``: that of the array.  Raises ``UsageError``, or as ``Array.__getitem__``.
    """
    shape = array.shape
    try:
        asked = first_plane(complete(index, shape), shape)
    except IndexError as err:
        raise UsageError(str(err)) from err
    counts = lengths(asked, shape)
    most = (rows, columns) if len(counts) == 2 else (10 * columns,)
    step = max((-(-count // limit) for count, limit in zip(counts, most, strict=False)), default=1) or 1
    dtype = array.dtype
    if dtype.kind in _NUMBERS and math.prod(counts) * dtype.itemsize <= whole:
        step = 1
    while dtype.kind not in _NUMBERS and counts and step < max(counts) and _size(counts, step, dtype) > LOOK:
        step += -(-step // 8)
    drawn = coarser(asked, step)
    hidden = None if mask is None else broadcast_at(mask, drawn, shape).astype(bool, copy=False)
    return Look(asked, drawn, np.asarray(array[drawn]), math.prod(counts), step, hidden)


def broadcast_at(array: Selectable, index: Index, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return the elements at ``index`` of ``array``, which is broadcast to ``shape``, as a mask may be.

    Raises ``InvalidArrayError`` if it cannot be.
    """
    if array.shape == shape:
        return np.asarray(array[index])
    check_mask_shape(array.shape, shape)
    found: np.ndarray[Any, Any] = np.broadcast_to(np.asarray(array[...]), shape)[index]
    return found


def _size(counts: Sequence[int], step: int, dtype: np.dtype[Any]) -> int:
    return math.prod(-(-count // step) for count in counts) * dtype.itemsize


def picture(
    look: Look, rows: int, columns: int, stretch: str, cmap: str, *, peak: bool = False
) -> np.ndarray[Any, Any]:
    """Return the picture of a look: uint8 of two axes for grey levels, or with a third one of 3 for colours.

    An image has at most ``rows`` and ``columns``, and square pixels; a curve, of one axis, has exactly these.
    ``peak``: a pixel is the greatest of its elements, and not their mean.  Raises ``NotPermittedError`` if there is
    nothing to draw, and as ``coloured``.
    """
    if not look.is_numeric or not look.values.ndim or not look.values.size:
        raise NotPermittedError("there is nothing to draw: it has no axis, no element or no numbers")
    if look.values.ndim == 1:
        facts = look.statistics()
        return curve(real(look.values), look.mask, (facts.least or 0.0, facts.greatest or 0.0), rows, columns)
    pixels = look.pixels(rows, columns, peak=peak)
    return coloured(grey_levels(pixels, limits_of(pixels, stretch), stretch)[::-1], cmap)


def thumbnail(array: Selectable, mask: Selectable | None = None) -> str:
    """Return an ``img`` of the first image in an array; empty if it is none.  Raises as ``Array.__getitem__``."""
    if len(array.shape) < 2 or min(array.shape) < 1 or max(array.shape[-2:]) < 2 or array.dtype.kind not in _NUMBERS:
        return ""
    look = look_at(array, (), _SIDE, _SIDE, mask, whole=_THUMBNAIL)
    pixels = picture(look, _SIDE, _SIDE, USUAL_STRETCH, GREY)
    factor = max(1, _SIDE // max(pixels.shape))  # a small picture is shown larger
    size = f'width="{pixels.shape[1] * factor}" height="{pixels.shape[0] * factor}" style="image-rendering:pixelated"'
    source = base64.b64encode(png(pixels)).decode()
    return f'<img alt="picture of the array" src="data:image/png;base64,{source}" {size}>'
