"""Turns numbers into grey levels: which number is black, which is white, and what is between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np

#: Parts of the elements that are black or white, because a few very bright ones would make all others black.
_ENDS: Final = (1.0, 99.0)


def limits_of(values: np.ndarray[Any, Any]) -> tuple[float, float]:
    """Return the numbers that are shown black and white: percentiles 1 and 99 of the finite elements.

    They are different, unless there are no two different elements.
    """
    import numpy as np

    numbers = values.astype("f8")
    finite = numbers[np.isfinite(numbers)]
    if not finite.size:
        return 0.0, 1.0
    low, high = (float(end) for end in np.percentile(finite, _ENDS))
    return (low, high) if low < high else (float(finite.min()), float(finite.max()))


def grey_levels(values: np.ndarray[Any, Any], limits: tuple[float, float]) -> np.ndarray[Any, Any]:
    """Return uint8: 0 for numbers up to ``limits[0]`` and for NaN, 255 for those from ``limits[1]`` on."""
    import numpy as np

    low, high = limits
    scaled = (values.astype("f8") - low) * (255.0 / (high - low) if high > low else 1.0)
    return np.nan_to_num(scaled, nan=0.0, posinf=255.0, neginf=0.0).clip(0, 255).astype("u1")
