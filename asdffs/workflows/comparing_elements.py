"""Compares the elements of two arrays of the same shape, some rows at a time.  The model is fitsdiff."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

#: Bytes of elements that are compared at once.
_AT_ONCE: Final = 8 << 20
#: Kinds of numpy that have differences.
_NUMBERS: Final = "iufc"


class Tolerance(NamedTuple):
    """The most that equal numbers may differ by: ``absolute + relative * |second|``, as in numpy's isclose."""

    relative: float = 0.0
    absolute: float = 0.0

    def allows(self, a: Any, b: Any) -> bool:
        """Return whether two values are numbers that differ by no more."""
        numbers = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in (a, b))
        return numbers and abs(a - b) <= self.absolute + self.relative * abs(b)


class Difference(NamedTuple):
    """The differences between the elements of two arrays.

    ``differing`` of ``total`` elements do; ``first``: the index of the first one, as numpy has it.  ``largest``: the
    largest difference of two numbers; ``relative``: the largest one divided by the second number.  Both are None if
    no two finite numbers differ.
    """

    differing: int
    total: int
    first: tuple[int, ...]
    largest: float | int | None
    relative: float | None

    def sentence(self) -> str:
        """Return this in words."""
        verb = "differs" if self.differing == 1 else "differ"
        told = f"{self.differing:,} of {self.total:,} elements {verb}, the first at {list(self.first)}"
        if self.largest is not None:
            told += f"; the largest difference is {self.largest:.6g}"
        return told + (f", relative {self.relative:.3g}" if self.relative is not None else "")


def are_comparable(a: Any, b: Any) -> bool:
    """Return whether two arrays have one shape, and numbers or texts of one kind or records of the same fields."""
    if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
        return False
    return a.dtype.kind != "V" or bool(a.dtype.newbyteorder("=") == b.dtype.newbyteorder("="))


def compare_elements(a: Any, b: Any, tolerance: Tolerance, step: Callable[[int], None]) -> Difference | None:
    """Return how arrays that are comparable differ; None if they do not.  NaN equals NaN, in records too.

    ``step`` is called with the number of bytes that were compared.  Raises as the arrays do when they are read.
    """
    import numpy as np

    found: list[Difference] = []
    for start, stop in _rows(a):
        index = (slice(start, stop),) if a.shape else ()
        one, other = np.asarray(a[index]), np.asarray(b[index])
        found += _compared(one, other, tolerance, start)
        step(one.nbytes)
    if not found:
        return None
    largest = [one.largest for one in found if one.largest is not None]
    relative = [one.relative for one in found if one.relative is not None]
    differing = sum(one.differing for one in found)
    return Difference(
        differing, math.prod(a.shape), found[0].first, max(largest, default=None), max(relative, default=None)
    )


def _rows(array: Any) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows; one range of an array without axes."""
    if not array.shape:
        yield 0, 1
        return
    each = max(1, array.dtype.itemsize * math.prod(array.shape[1:]))
    places = [*range(0, array.shape[0], max(1, _AT_ONCE // each)), array.shape[0]]
    yield from itertools.pairwise(places)


def _compared(one: Any, other: Any, tolerance: Tolerance, start: int) -> Iterator[Difference]:
    """Yield how two pieces differ, if they do; ``start``: the row of their first element."""
    import numpy as np

    places = np.flatnonzero(_differ(one, other, tolerance))
    if not len(places):
        return
    first = tuple(int(n) for n in np.unravel_index(places[0], one.shape)) if one.shape else ()
    first = (first[0] + start, *first[1:]) if first else ()
    x, y = one.reshape(-1)[places], other.reshape(-1)[places]
    yield Difference(len(places), one.size, first, *(_extremes(x, y) if one.dtype.kind in _NUMBERS else (None, None)))


def _differ(one: Any, other: Any, tolerance: Tolerance) -> Any:
    """Return which elements differ: of records, those of which a field does."""
    import numpy as np

    if one.dtype.names:
        found = np.zeros(one.shape, bool)
        for name in one.dtype.names:
            field = _differ(one[name], other[name], tolerance)
            found |= field.any(axis=tuple(range(one.ndim, field.ndim)))
        return found
    differs = one != other
    if one.dtype.kind in _NUMBERS:
        differs &= ~((one != one) & (other != other))
        if any(tolerance):
            with np.errstate(all="ignore"):
                differs &= ~(_distance(one, other) <= tolerance.absolute + tolerance.relative * abs(other))
    return differs


def _extremes(x: Any, y: Any) -> tuple[float | int | None, float | None]:
    """Return the largest difference of numbers, and the largest one relative to ``y``."""
    import numpy as np

    with np.errstate(all="ignore"):
        distance = _distance(x, y)
        finite = np.isfinite(distance)
        ratio = distance / abs(y.astype("c16" if y.dtype.kind == "c" else "f8"))
    ratio = ratio[finite & np.isfinite(ratio)]
    distance = distance[finite]
    return distance.max().item() if distance.size else None, float(ratio.max()) if ratio.size else None


def _distance(x: Any, y: Any) -> Any:
    """Return ``|x - y|``: of integers exactly, without overflow."""
    import numpy as np

    if x.dtype.kind in "iu" and y.dtype.kind == x.dtype.kind:
        return np.subtract(np.maximum(x, y).astype("u8"), np.minimum(x, y).astype("u8"))  # right modulo 2**64
    kind = "c16" if "c" in (x.dtype.kind, y.dtype.kind) else "f8"
    return abs(x.astype(kind) - y.astype(kind))
