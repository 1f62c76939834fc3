"""A look at an array: few of its elements, their statistics, and a picture of them; previews for notebooks.

All numbers are read up to a size that the caller chooses.  Of more, every so-many-th element is read, so a look
takes as long for 8 GiB as for 8 MiB; of a compressed block, the pieces that have them.  A pixel of a picture is the
mean, or the greatest, of those of its elements that were read.  A picture has the first row at the bottom, as
pictures of the sky have it.
"""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from asdffs.arrays.placement import check_mask_shape
from asdffs.document.arrays.selection import Selectable
from asdffs.errors import NotPermittedError, UsageError
from asdffs.features.browser import USUAL_STRETCH
from asdffs.features.browser.cells import for_people
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
#: Bytes of numbers that are all read, if they are on this machine; and for a small picture.
WHOLE: Final = 256 << 20
_SMALL: Final = 16 << 20
#: Pixels of the longer side of a small picture.
THUMBNAIL: Final = 160
#: Rows of a table in a notebook.
_ROWS: Final = 6


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


def small_picture(array: Selectable, mask: Selectable | None, side: int) -> bytes | None:
    """Return the first image in an array as PNG, at most ``side`` pixels wide and high; None if it is none.

    Raises as ``Array.__getitem__``.
    """
    if len(array.shape) < 2 or min(array.shape) < 1 or max(array.shape[-2:]) < 2 or array.dtype.kind not in _NUMBERS:
        return None
    look = look_at(array, (), side, side, mask, whole=_SMALL)
    return png(picture(look, side, side, USUAL_STRETCH, GREY))


def preview(array: Selectable, mask: Selectable | None = None) -> str:
    """Return what a notebook shows of an array beside its facts, as HTML: an image, a curve, or the rows of a table.

    Empty if there is nothing to show.  Raises as ``Array.__getitem__``.
    """
    if array.dtype.names:
        return _rows(array)
    raw = _curve(array, mask) if len(array.shape) == 1 else small_picture(array, mask, THUMBNAIL)
    if raw is None:
        return ""
    source = f"data:image/png;base64,{base64.b64encode(raw).decode()}"
    wide = f' width="{_wide(array.shape)}"' if len(array.shape) > 1 else ""
    return f'<img alt="picture of the array" src="{source}"{wide} style="image-rendering:pixelated">'


def _wide(shape: Sequence[int]) -> int:
    """Return how wide a picture is shown: a small one larger than it is."""
    rows, columns = shape[-2:]
    step = -(-max(rows, columns) // THUMBNAIL)
    return -(-columns // step) * max(1, THUMBNAIL // max(rows, columns))


def _curve(array: Selectable, mask: Selectable | None) -> bytes | None:
    if array.dtype.kind not in _NUMBERS or array.shape[0] < 2:
        return None
    look = look_at(array, (), THUMBNAIL, THUMBNAIL, mask)
    return png(255 - picture(look, THUMBNAIL // 2, THUMBNAIL * 2, "linear", GREY))


def _rows(array: Selectable) -> str:
    """Return the first rows of an array of records as a table."""
    names = array.dtype.names or ()
    rows = np.asarray(array[:_ROWS]).reshape(-1)[:_ROWS]
    cells = [list(names), *([for_people(row[name], None) for name in names] for row in rows)]
    lines = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in cells)
    return f"<table>{lines}</table>"
