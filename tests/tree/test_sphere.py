"""Regions of the sky, against the distances of astropy and the polygons of spherical-geometry."""

from __future__ import annotations

import math
import random

import pytest
from astropy.coordinates import angular_separation

from asdffs.arrays.footprints import _from_plane
from asdffs.tree.sphere import Circle, Vector, angle, coordinates_of, meets, parse_region, point_at, text_of

PLACES = [(0.0, 90.0), (10.0, -90.0), (0.0, 0.0), (359.99, 12.0), (180.0, 89.95), (123.4, -45.6)]


def degrees_between(one: Vector, other: Vector) -> float:
    """By astropy (Vincenty's formula)."""
    (a, b), (c, d) = (map(math.radians, coordinates_of(point)) for point in (one, other))
    return math.degrees(float(angular_separation(a, b, c, d)))


def around(center: Vector, chance: random.Random, corners: int, size: float) -> list[Vector]:
    """The corners of a polygon that is a star seen from ``center``, in degrees at most ``size`` from there."""
    turns = sorted(chance.uniform(0, 2 * math.pi) for _ in range(corners))
    far = [math.tan(math.radians(size * chance.uniform(0.3, 1))) for _ in turns]
    return [_from_plane(center, r * math.sin(t), r * math.cos(t)) for r, t in zip(far, turns, strict=True)]


def written(corners: list[Vector]) -> str:
    return "POLYGON ICRS " + " ".join("{:.15g} {:.15g}".format(*coordinates_of(one)) for one in corners)


def test_angles_are_those_of_astropy() -> None:
    chance = random.Random(1)
    for _ in range(2000):
        one = point_at(chance.uniform(0, 360), math.degrees(math.asin(chance.uniform(-1, 1))))
        t, far = chance.uniform(0, 2 * math.pi), 10 ** chance.uniform(-9, 0.1)
        other = _from_plane(one, far * math.sin(t), far * math.cos(t))
        assert math.degrees(angle(one, other)) == pytest.approx(degrees_between(one, other), rel=1e-9, abs=1e-13)


@pytest.mark.long
@pytest.mark.parametrize("place", PLACES)
def test_points_in_polygons_are_those_of_spherical_geometry(place: tuple[float, float]) -> None:
    """Random simple polygons at the poles, across right ascension 0 and elsewhere, whatever way round they go."""
    polygons = pytest.importorskip("spherical_geometry.polygon")
    chance, center, inside = random.Random(2), point_at(*place), 0
    for number in range(60):
        corners = around(center, chance, chance.randrange(3, 9), chance.choice([0.01, 1.0, 20.0]))
        turns = [math.atan2(*reversed(_plane(center, one))) for one in corners]
        gaps = [(after - before) % (2 * math.pi) for before, after in zip(turns, turns[1:] + turns[:1], strict=True)]
        if max(gaps) > 3:
            continue  # the star does not have its centre inside, and may not be simple
        ours = parse_region(written(corners if number % 2 else corners[::-1]))
        theirs = polygons.SphericalPolygon(corners, inside=center)
        for _ in range(20):
            t, far = chance.uniform(0, 2 * math.pi), chance.uniform(0, 1.5) * max(angle(center, c) for c in corners)
            point = _from_plane(center, math.tan(far) * math.sin(t), math.tan(far) * math.cos(t))
            wanted = bool(theirs.contains_point(point))
            assert meets(ours, Circle(point, 0.0)) == wanted, (written(corners), coordinates_of(point))
            inside += wanted
    assert inside > 100


def _plane(center: Vector, point: Vector) -> tuple[float, float]:
    """North and east of ``point`` on the plane that touches the sky at ``center``, as far as directions go."""
    a, d = map(math.radians, coordinates_of(center))
    east = (-math.sin(a), math.cos(a), 0.0)
    north = (-math.sin(d) * math.cos(a), -math.sin(d) * math.sin(a), math.cos(d))
    return sum(x * y for x, y in zip(north, point, strict=True)), sum(x * y for x, y in zip(east, point, strict=True))


@pytest.mark.parametrize("place", PLACES)
def test_a_circle_meets_a_polygon_if_its_nearest_point_is_not_farther(place: tuple[float, float]) -> None:
    """The nearest point of a polygon is found by trying many on its sides, with distances of astropy."""
    chance, center = random.Random(3), point_at(*place)
    for _ in range(25):
        corners = around(center, chance, 4, 2.0)
        region = parse_region(written(corners))
        t, far = chance.uniform(0, 2 * math.pi), math.radians(chance.uniform(2.5, 6))
        point = _from_plane(center, math.tan(far) * math.sin(t), math.tan(far) * math.cos(t))
        nearest = min(
            degrees_between(point, _between(one, other, part / 400))
            for one, other in zip(corners, corners[1:] + corners[:1], strict=True)
            for part in range(401)
        )
        assert meets(region, Circle(point, math.radians(nearest + 1e-9)))
        assert not meets(region, Circle(point, math.radians(nearest - 1e-3)))


def _between(one: Vector, other: Vector, part: float) -> Vector:
    mixed = [x + part * (y - x) for x, y in zip(one, other, strict=True)]
    size = math.hypot(*mixed)
    return mixed[0] / size, mixed[1] / size, mixed[2] / size


TEXTS = {
    "Polygon icrs 10 20 11 20 11 21 10 20": "POLYGON ICRS 10 20 11 20 11 21",
    "POLYGON ICRS TOPOCENTER 10 20 11 20 11 21": "POLYGON ICRS 10 20 11 20 11 21",
    "circle 350 -5 0.5": "CIRCLE ICRS 350 -5 0.5",
    "UNION ICRS ( POLYGON 10 20 11 20 11 21 CIRCLE 1 2 3 )": "POLYGON ICRS 10 20 11 20 11 21 CIRCLE ICRS 1 2 3",
}


@pytest.mark.parametrize("text", TEXTS)
def test_how_regions_are_written(text: str) -> None:
    assert text_of(parse_region(text)) == TEXTS[text]
    assert text_of(parse_region(TEXTS[text])) == TEXTS[text]


WRONG = {
    "": "empty",
    "POLYGON GALACTIC 1 2 3 4 5 6": "the frame GALACTIC is not known",
    "POLYGON ICRS 1 2 3 4": "POLYGON with 4 numbers",
    "POLYGON ICRS 1 2 1 2 1 2": "at least three corners",
    "POLYGON ICRS 0 0 120 0 240 0": "it has no middle|hemisphere",
    "POLYGON ICRS 0 -80 120 -80 240 91": "is no place on the sky",
    "BOX ICRS 1 2 3 4": "BOX with 4 numbers",
    "CIRCLE ICRS 1 2 -3": "CIRCLE with 3 numbers",
    "CIRCLE ICRS nan nan nan": "the frame nan is not known",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_not_understood(text: str) -> None:
    with pytest.raises(ValueError, match=WRONG[text]):
        parse_region(text)
