"""Cells of the sky (HEALPix): they tell which footprints may meet a circle, without a look at all of them.

A footprint has the cells that overlap with a circle around it, of a size that makes them few.  A cell is one number,
whatever its order: 4^(order + 1) and its number in the nested scheme.  A cell is never the answer: the sphere decides
(``tree/sphere``).  Needs the extra ``sky`` (hpgeom); without it every footprint is looked at.

Implements: HEALPix, nested scheme and unique numbers (Gorski et al. 2005; MOC 2.0, section 3.1).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import Any, Final

from asdffs.tree.sphere import Circle, coordinates_of, parse_region

#: The number of a footprint whose cells are not known.
ANYWHERE: Final = 0
_FINEST: Final = 10
#: A cell is at least so large compared to the circle, so that a footprint has some ten cells at most.
_PART: Final = 0.7


def cells_of(footprint: str) -> list[int]:
    """Return the cells of a footprint that is understood, or ``ANYWHERE`` alone."""
    if not _is_there():
        return [ANYWHERE]
    found = set[int]()
    for shape in parse_region(footprint):
        circle = shape.bounds
        order = _order_for(circle.radius)
        found.update(one + _first(order) for start, stop in _ranges(circle, order) for one in range(start, stop))
    return sorted(found)


def ranges_meeting(circles: Iterable[Circle]) -> Iterator[tuple[int, int]]:
    """Yield ranges of cells, first and last, such that every footprint that meets a circle has one of them."""
    yield ANYWHERE, ANYWHERE if _is_there() else 1 << 62
    if not _is_there():
        return
    for circle in circles:
        for order in range(_FINEST + 1):
            first = _first(order)
            yield from ((start + first, stop + first - 1) for start, stop in _ranges(circle, order))


def _order_for(radius: float) -> int:
    """Return the finest order whose cells are not much smaller than a circle with this radius."""
    order = 0
    while order < _FINEST and _size(order + 1) > radius * _PART:
        order += 1
    return order


def _size(order: int) -> float:
    """Return the side of a cell in radians, as if it were a square."""
    return math.sqrt(math.pi / 3) / (1 << order)


def _first(order: int) -> int:
    return 1 << 2 * (order + 1)


def _ranges(circle: Circle, order: int) -> list[tuple[int, int]]:
    """Return the cells that a circle overlaps with, as ranges, the end not included."""
    sides, count = 1 << order, 12 << 2 * order
    degrees = math.degrees(circle.radius) + math.degrees(_size(_FINEST)) * 0.01
    if degrees >= 90:  # the library counts to half of the sky
        return [(0, count)]
    found = _library().query_circle(
        sides, *coordinates_of(circle.center), degrees, inclusive=True, fact=4, return_pixel_ranges=True
    )
    return [(int(start), int(stop)) for start, stop in found]


@functools.cache
def _is_there() -> bool:
    return find_spec("hpgeom") is not None


def _library() -> Any:
    import hpgeom  # with numpy: only files and conditions with a place on the sky need it

    return hpgeom
