"""Turns numbers into grey levels.

| stretch  | black and white                                  | between them                                  |
|----------|--------------------------------------------------|-----------------------------------------------|
| linear   | percentiles 1 and 99                             | in proportion                                 |
| zscale   | those of IRAF and DS9, around the median         | in proportion                                 |
| asinh    | percentiles 1 and 99.9                           | faint differences larger than bright ones     |
| log      | percentiles 1 and 99.9                           | faint differences much larger                 |

zscale needs astropy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from asdffs.errors import NotSupportedError, Remedy

if TYPE_CHECKING:
    import numpy as np

#: Parts of the elements that are black or white, because a few very bright ones would make all others black.
_ENDS: Final[Mapping[str, tuple[float, float]]] = {"linear": (1, 99), "asinh": (1, 99.9), "log": (1, 99.9)}
STRETCHES: Final = ("linear", "zscale", "asinh", "log")
#: Softening of asinh, and exponent of log, as in DS9 and astropy.
_ASINH: Final = 0.1
_LOG: Final = 1000.0


def limits_of(values: np.ndarray[Any, Any], stretch: str = "linear") -> tuple[float, float]:
    """Return the numbers that are shown black and white, of the finite elements, by the table above.

    They are different, unless there are no two different elements.  Raises ``NotSupportedError`` without astropy.
    """
    import numpy as np

    numbers = values.astype("f8")
    finite = numbers[np.isfinite(numbers)]
    if not finite.size:
        return 0.0, 1.0
    low, high = _zscale(finite) if stretch == "zscale" else map(float, np.percentile(finite, _ENDS[stretch]))
    return (low, high) if low < high else (float(finite.min()), float(finite.max()))


def _zscale(finite: np.ndarray[Any, Any]) -> tuple[float, float]:
    try:
        from astropy.visualization import ZScaleInterval
    except ImportError as err:
        raise NotSupportedError("zscale needs astropy, which is not installed", remedy=Remedy.INSTALL_SHOW) from err
    low, high = ZScaleInterval().get_limits(finite)
    return float(low), float(high)


def grey_levels(
    values: np.ndarray[Any, Any], limits: tuple[float, float], stretch: str = "linear"
) -> np.ndarray[Any, Any]:
    """Return uint8: 0 for numbers up to ``limits[0]`` and for NaN, 255 for those from ``limits[1]`` on."""
    import numpy as np

    low, high = limits
    # by halves, because the difference of the largest numbers is larger than a float can be
    scaled = (values.astype("f8") / 2 - low / 2) / (high / 2 - low / 2 if high > low else 127.5)
    part = np.nan_to_num(scaled, nan=0.0, posinf=1.0, neginf=0.0).clip(0, 1)
    if stretch == "asinh":
        part = np.arcsinh(part / _ASINH) / math.asinh(1 / _ASINH)
    elif stretch == "log":
        part = np.log1p(_LOG * part) / math.log1p(_LOG)
    return (part * 255).astype("u1")
