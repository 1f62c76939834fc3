"""Regions of the sky, and whether they have a point or meet a circle: exact, on the sphere.

A region is written as STC-S does it, and as ``s_region`` of ObsCore and of the archives has it: ``POLYGON ICRS 10 20
10.1 20 10.1 20.1``, ``CIRCLE ICRS 10 20 0.5``, or several of these, which are one region then.  Numbers are degrees.
The sides of a polygon are parts of great circles, and its inside is what is less than a hemisphere.

Points are unit vectors, so that neither a pole nor right ascension 0 is special.  Pure.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

Vector = tuple[float, float, float]

#: Frames that are ICRS, but for less than 0.1 arc seconds, and words that say from where one looks.
_FRAMES: Final = frozenset({"ICRS", "FK5", "J2000", "UNKNOWNFRAME"})
_WHENCE: Final = frozenset({"TOPOCENTER", "GEOCENTER", "BARYCENTER", "HELIOCENTER", "UNKNOWNREFPOS", "SPHERICAL2"})
_NUMBER: Final = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
#: Characters of the longest region.
_LONGEST: Final = 1 << 16
#: Radians that rounding may cost.
_ROUNDING: Final = 1e-12


class Circle(NamedTuple):
    """A circle on the sky: all points at most ``radius`` radians from ``center``."""

    center: Vector
    radius: float

    def meets(self, other: Circle) -> bool:
        """Return whether any point is in both."""
        return angle(self.center, other.center) <= self.radius + other.radius + _ROUNDING

    @property
    def bounds(self) -> Circle:
        """A circle around all of it."""
        return self

    @property
    def text(self) -> str:
        """The region as STC-S."""
        return f"CIRCLE ICRS {_written(self.center)} {math.degrees(self.radius):.12g}"


class Polygon(NamedTuple):
    """The points inside of, and on, the sides between ``corners``."""

    corners: tuple[Vector, ...]

    @property
    def bounds(self) -> Circle:
        """A circle around all of it."""
        center = _unit(math.fsum(axis) for axis in zip(*self.corners, strict=True))
        return Circle(center, max(angle(center, corner) for corner in self.corners))

    @property
    def text(self) -> str:
        """The region as STC-S."""
        return f"POLYGON ICRS {' '.join(map(_written, self.corners))}"

    def meets(self, other: Circle) -> bool:
        """Return whether any point is in both."""
        point = other.center
        sides = zip(self.corners, (*self.corners[1:], self.corners[0]), strict=True)
        if any(_to_side(point, *side) <= other.radius + _ROUNDING for side in sides):
            return True
        return self.bounds.meets(Circle(point, 0.0)) and self._winds_around(point)

    def _winds_around(self, point: Vector) -> bool:
        """Return whether the sides, seen from ``point``, go around it, as those of a simple polygon do once."""
        seen = [_less(corner, point) for corner in self.corners]
        turns = (
            math.atan2(_dot(point, _cross(one, other)), _dot(one, other))
            for one, other in zip(seen, (*seen[1:], seen[0]), strict=True)
        )
        return abs(math.fsum(turns)) > math.pi


Region = Sequence[Circle | Polygon]


def point_at(right_ascension: float, declination: float) -> Vector:
    """Return the point with these coordinates in degrees.  Raises ``ValueError`` if there is none."""
    if not -360 <= right_ascension <= 360 or not -90 <= declination <= 90:
        raise ValueError(f"{right_ascension:g}, {declination:g} is no place on the sky")
    a, d = math.radians(right_ascension), math.radians(declination)
    return math.cos(d) * math.cos(a), math.cos(d) * math.sin(a), math.sin(d)


def coordinates_of(point: Vector) -> tuple[float, float]:
    """Return right ascension, from 0 to 360, and declination of a point in degrees."""
    x, y, z = point
    return math.degrees(math.atan2(y, x)) % 360, math.degrees(math.atan2(z, math.hypot(x, y)))


def angle(one: Vector, other: Vector) -> float:
    """Return the angle between two points in radians; exact for small and large ones."""
    return math.atan2(math.hypot(*_cross(one, other)), _dot(one, other))


@functools.lru_cache(maxsize=1 << 8)
def parse_region(text: str) -> Region:
    """Return the region that ``text`` describes.  Raises ``ValueError`` with the reason if it is not understood."""
    if len(text) > _LONGEST:
        raise ValueError(f"it has more than {_LONGEST} characters")
    words = re.sub(r"[(),]", " ", text).split()
    found: list[Circle | Polygon] = []
    at = 0
    while at < len(words):
        kind = words[at].upper()
        frame, at = at + 1, at + 1
        while at < len(words) and not _NUMBER.fullmatch(words[at]) and words[at].upper() not in ("POLYGON", "CIRCLE"):
            at += 1
        strange = [one for one in words[frame:at] if one.upper() not in _FRAMES | _WHENCE]
        if strange:
            raise ValueError(f"the frame {strange[0][:40]} is not known here")
        start = at
        while at < len(words) and _NUMBER.fullmatch(words[at]):
            at += 1
        numbers = [float(one) for one in words[start:at]]
        if kind != "UNION" or numbers:
            found.append(_shape(kind, numbers))
    if not found:
        raise ValueError("it is empty")
    return found


def _shape(kind: str, numbers: Sequence[float]) -> Circle | Polygon:
    if kind == "CIRCLE" and len(numbers) == 3 and 0 <= numbers[2] <= 180:
        return Circle(point_at(*numbers[:2]), math.radians(numbers[2]))
    if kind == "POLYGON" and len(numbers) >= 6 and len(numbers) % 2 == 0:
        corners = [point_at(*pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)]
        return polygon_of(corners)
    raise ValueError(f"{kind[:40]} with {len(numbers)} numbers is not known here")


def polygon_of(corners: Sequence[Vector]) -> Polygon:
    """Return the polygon with these corners, the first of which may come again at the end.  Raises ``ValueError``."""
    single = [one for one, after in zip(corners, (*corners[1:], corners[0]), strict=True) if angle(one, after) > 0]
    if len(single) < 3:
        raise ValueError("a polygon has at least three corners")
    found = Polygon(tuple(single))
    if found.bounds.radius >= math.pi / 2:
        raise ValueError("it is as large as a hemisphere")
    return found


def text_of(region: Region) -> str:
    """Return a region as STC-S, as ``parse_region`` reads it."""
    return " ".join(one.text for one in region)


def meets(region: Region, circle: Circle) -> bool:
    """Return whether any point of ``region`` is in ``circle``, whose radius may be 0."""
    return any(one.meets(circle) for one in region)


def _written(point: Vector) -> str:
    return "{:.14g} {:.14g}".format(*coordinates_of(point))


def _to_side(point: Vector, one: Vector, other: Vector) -> float:
    """Return the angle from a point to the nearest point between two corners, in radians."""
    across = _cross(one, other)
    size = math.hypot(*across)
    if size:
        normal = (across[0] / size, across[1] / size, across[2] / size)
        foot = _less(point, normal)
        if _dot(_cross(one, foot), normal) >= 0 and _dot(_cross(foot, other), normal) >= 0:
            return math.atan2(abs(_dot(point, normal)), math.hypot(*foot))
    return min(angle(point, one), angle(point, other))


def _less(vector: Vector, direction: Vector) -> Vector:
    """Return ``vector`` without its part along ``direction``, a unit vector."""
    along = _dot(vector, direction)
    return (
        vector[0] - along * direction[0],
        vector[1] - along * direction[1],
        vector[2] - along * direction[2],
    )


def _unit(vector: Iterable[float]) -> Vector:
    x, y, z = vector
    size = math.hypot(x, y, z)
    if not size:
        raise ValueError("it has no middle")
    return x / size, y / size, z / size


def _dot(one: Vector, other: Vector) -> float:
    return one[0] * other[0] + one[1] * other[1] + one[2] * other[2]


def _cross(one: Vector, other: Vector) -> Vector:
    return (
        one[1] * other[2] - one[2] * other[1],
        one[2] * other[0] - one[0] * other[2],
        one[0] * other[1] - one[1] * other[0],
    )
