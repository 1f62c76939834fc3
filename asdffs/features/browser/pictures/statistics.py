"""Counts and sums up numbers: what a look at an array tells."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import numpy as np

#: Bars of the histogram.
BARS: Final = 32


class Statistics(NamedTuple):
    """Facts about numbers.

    ``least``, ``greatest``, ``mean`` and ``deviation`` (the standard one) are of the finite numbers; None without
    any.  ``numbers``: how many there are; ``nan``, ``infinite``: how many of them are such.  ``bars``: how many
    finite numbers are in each of equal parts from ``least`` to ``greatest``.
    """

    numbers: int
    nan: int
    infinite: int
    least: float | None
    greatest: float | None
    mean: float | None
    deviation: float | None
    bars: tuple[int, ...]


def statistics_of(values: np.ndarray[Any, Any]) -> Statistics:
    """Return the statistics of ``values``, an array of numbers or bools, of any shape."""
    import numpy as np

    numbers = values.astype("f8").ravel()
    finite = numbers[np.isfinite(numbers)]
    nan = int(np.isnan(numbers).sum())
    if not finite.size:
        return Statistics(numbers.size, nan, numbers.size - nan, None, None, None, None, ())
    with np.errstate(over="ignore", invalid="ignore"):  # the sum of the largest numbers is infinite
        mean, deviation = float(finite.mean()), float(finite.std())
        least, greatest = float(finite.min()), float(finite.max())
    middle, spread = (value if math.isfinite(value) else None for value in (mean, deviation))
    infinite = numbers.size - nan - finite.size
    return Statistics(numbers.size, nan, infinite, least, greatest, middle, spread, _bars(finite, least, greatest))


def _bars(finite: np.ndarray[Any, Any], least: float, greatest: float) -> tuple[int, ...]:
    """Return the histogram: one bar if all numbers are equal, none if their range is larger than a float can be."""
    import numpy as np

    if least == greatest:
        return (finite.size,)
    if not math.isfinite(greatest - least):
        return ()
    places = ((finite - least) / (greatest - least) * BARS).astype(int).clip(0, BARS - 1)
    return tuple(map(int, np.bincount(places, minlength=BARS)))
