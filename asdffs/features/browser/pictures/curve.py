"""Draws the elements of a one-dimensional array as a curve: an image of grey levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np

_INK: Final = 255


def curve(values: np.ndarray[Any, Any], limits: tuple[float, float], rows: int, columns: int) -> np.ndarray[Any, Any]:
    """Return uint8 of ``rows`` and ``columns``: 255 on the curve, 0 elsewhere.  The first row is at the top.

    Each column has a line from the least to the greatest of its elements, and on to those of the column before, so
    that no peak is lost.  NaN and infinite elements leave a gap.  ``limits``: the values at the bottom and top.
    """
    import numpy as np

    image = np.zeros((rows, columns), "u1")
    low, high = limits
    # by halves, because the difference of the largest numbers is larger than a float can be
    scaled = (values.astype("f8") / 2 - low / 2) / (high / 2 - low / 2 if high > low else 0.5) * (rows - 1)
    heights = np.where(np.isfinite(scaled), scaled, np.nan).clip(0, rows - 1)
    before: float | None = None
    parts = np.array_split(heights, columns) if len(heights) >= columns else _wide(heights, columns)
    for column, part in enumerate(parts):
        known = part[np.isfinite(part)]
        if not known.size:
            before = None
            continue
        first, last = known.min(), known.max()
        if before is not None:
            first, last = min(first, before), max(last, before)
        image[rows - 1 - round(float(last)) : rows - round(float(first)), column] = _INK
        before = float(known[-1])
    return image


def _wide(heights: np.ndarray[Any, Any], columns: int) -> list[np.ndarray[Any, Any]]:
    """Return the elements for each column if there are fewer elements than columns: those that lie nearest."""
    import numpy as np

    places = np.linspace(0, max(0, len(heights) - 1), columns).round().astype(int)
    return [heights[place : place + 1] for place in places]
