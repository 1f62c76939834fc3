"""``cone()`` and ``contains()``: files of a catalogue by their place on the sky."""

from __future__ import annotations

import math
import random
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from astropy.coordinates import SkyCoord
from astropy.wcs import WCS
from support.commands import Done, command
from support.mounts import environment_in

from asdffs.arrays.footprints import _from_plane
from asdffs.document.scanning import footprint_in
from asdffs.features.catalog import cells
from asdffs.tree.sphere import Circle, Vector, coordinates_of, meets, parse_region, point_at, text_of

Call = Callable[..., Done]
HEAD = "#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
CENTERS = [(0.0, 90.0), (0.0, -90.0), (0.0, 0.0), (359.9, 30.0), (180.0, -60.0)]


def make(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{HEAD}{body}\n...\n")


@pytest.fixture
def call(tmp_path: Path) -> Iterator[Call]:
    return partial(command, environment=environment_in(tmp_path))  # type: ignore[return-value]


def square(center: Vector, turn: float, half: float) -> str:
    corners = []
    for step in range(4):
        t, r = turn + step * math.pi / 2, math.tan(math.radians(half * math.sqrt(2)))
        corners.append(_from_plane(center, r * math.sin(t), r * math.cos(t)))
    return "POLYGON ICRS " + " ".join("{:.9f} {:.9f}".format(*coordinates_of(one)) for one in corners)


@pytest.fixture
def survey(tmp_path: Path) -> dict[str, str]:
    """Footprints of all sizes, many of them at the poles and at right ascension 0, by the paths of their files."""
    chance, found = random.Random(4), {}
    for number in range(300):
        center = (
            point_at(*chance.choice(CENTERS))
            if number % 2
            else point_at(chance.uniform(0, 360), math.degrees(math.asin(chance.uniform(-1, 1))))
        )
        t, far = chance.uniform(0, 2 * math.pi), math.radians(chance.uniform(0, 3))
        center = _from_plane(center, math.tan(far) * math.sin(t), math.tan(far) * math.cos(t))
        region = square(center, chance.uniform(0, 6), 10 ** chance.uniform(-3, 0.7))
        path = tmp_path / f"survey/{number:03d}.asdf"
        make(path, f"meta: {{n: {number}, wcsinfo: {{s_region: '{region}'}}}}")
        found[str(path)] = region
    make(tmp_path / "survey/none.asdf", "meta: {n: 300}")
    return found


@pytest.mark.parametrize("with_cells", [True, False])
def test_cones_are_those_of_a_loop_over_all_files(
    survey: dict[str, str], tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch, with_cells: bool
) -> None:
    """Also without the library of cells, only slower."""
    monkeypatch.setattr(cells, "_is_there", lambda: with_cells)
    catalog, chance, hits = tmp_path / "c.db", random.Random(5), 0
    assert call("index", "--jobs", "1", "--catalog", catalog, tmp_path / "survey").code == 0
    for number in range(60):
        center = chance.choice(CENTERS) if number % 2 else (chance.uniform(0, 360), chance.uniform(-90, 90))
        radius = 10 ** chance.uniform(-4, 1.3)
        circle = Circle(point_at(*center), math.radians(radius))
        wanted = [path for path, region in survey.items() if meets(parse_region(region), circle)]
        told = [f"cone({center[0]}, {center[1]}, {radius})", f"cone({center[0]}, {center[1]}, {radius * 60} arcmin)"]
        done = call("find", "--catalog", catalog, told[number // 2 % 2])
        assert done.out.splitlines() == wanted
        hits += len(wanted)
        inside = [path for path, region in survey.items() if meets(parse_region(region), Circle(circle.center, 0))]
        assert call("find", "--catalog", catalog, f"contains({center[0]}, {center[1]})").out.splitlines() == inside
    assert hits > 100


def test_places_and_other_conditions(survey: dict[str, str], tmp_path: Path, call: Call) -> None:
    catalog, folder = tmp_path / "c.db", tmp_path / "survey"
    assert call("index", "--catalog", catalog, folder).code == 0
    near = {path for path, region in survey.items() if meets(parse_region(region), Circle(point_at(0, 90), 0.01))}
    every = {*survey, str(folder / "none.asdf")}

    def found(condition: str) -> set[str]:
        return {*call("find", "--catalog", catalog, condition).out.splitlines()}

    assert 3 < len(near) < len(every) / 2
    cone = f"cone(0, 90, {math.degrees(0.01)})"
    assert found(f"not {cone}") == every - near, "a file without a place is not there, as a missing value is not"
    assert found(f"meta.n < 100 and {cone}") == {path for path in near if int(Path(path).stem) < 100}
    assert found(f"{cone} or meta.n == 300") == near | {str(folder / "none.asdf")}
    one = min(near)
    done = call("get", "meta.n", "--where", cone, one, folder / "none.asdf")
    assert done.out == f"{one}\t{int(Path(one).stem)}\n"
    done = call("set", "--catalog", catalog, "--where", cone, "--create", "meta.pole=true", folder)
    assert done.out == f"{len(near)} files: {len(near)} changed, 0 already so\n"
    assert found("meta.pole == true") == near
    rows = call("find", "--csv", "--catalog", catalog, "--sql", "SELECT count(*) FROM file WHERE footprint != ''")
    assert rows.out.splitlines()[1] == str(len(survey))


@pytest.mark.parametrize(
    ("text", "character"),
    [
        ("cone(1, 2)", 1),
        ("cone(1, 2, 3 parsec)", 1),
        ("cone(1, 91, 3)", 1),
        ("a == 1 and contains(x, 2)", 12),
        ("cone(0, 0, 181)", 1),
        ("cone(0, 0, -1)", 1),
        ("cone(1e, 0, 1)", 1),
    ],
)
def test_wrong_places(tmp_path: Path, call: Call, text: str, character: int) -> None:
    make(tmp_path / "a.asdf", "a: 1")
    assert call("index", "--catalog", tmp_path / "c.db", tmp_path / "a.asdf").code == 0
    done = call("find", "--catalog", tmp_path / "c.db", text)
    assert (done.code, f"character {character}: " in done.err) == (2, True), done.err


def test_a_key_may_be_called_cone(tmp_path: Path, call: Call) -> None:
    make(tmp_path / "a.asdf", "cone: 1\ncontains: {a: 2}")
    assert call("index", "--catalog", tmp_path / "c.db", tmp_path / "a.asdf").code == 0
    assert call("find", "--catalog", tmp_path / "c.db", "cone == 1 and contains.a == 2").code == 0


WCS_FACTS = {
    "plain": {"cdelt1": -1e-3, "cdelt2": 2e-3},
    "turned": {"cdelt1": 1e-3, "cdelt2": 1e-3, "pc1_1": -0.8, "pc1_2": 0.6, "pc2_1": 0.6, "pc2_2": 0.8},
    "matrix": {"cd1_1": -1e-3, "cd1_2": 2e-4, "cd2_1": 2e-4, "cd2_2": 1e-3},
}


@pytest.mark.parametrize("name", WCS_FACTS)
@pytest.mark.parametrize("dec", [12.0, -89.99])
def test_the_outline_of_an_image_is_that_of_astropy(tmp_path: Path, call: Call, name: str, dec: float) -> None:
    facts: dict[str, object] = {"crpix1": 30.5, "crpix2": 10.0, "crval1": 359.99, "crval2": dec, **WCS_FACTS[name]}
    facts |= {"ctype1": "RA---TAN", "ctype2": "DEC--TAN"}
    wcs = WCS({key.upper(): value for key, value in facts.items()} | {"NAXIS": 2})
    corners = wcs.all_pix2world([(0.5, 0.5), (200.5, 0.5), (200.5, 100.5), (0.5, 100.5)], 1)
    listed = ", ".join(f"{key}: {value}" for key, value in facts.items())
    image = "!core/ndarray-1.1.0 {source: 0, datatype: uint8, shape: [100, 200]}"
    text = f"{HEAD}roman: {{meta: {{wcsinfo: {{{listed}}}}}, data: {image}}}\n...\n"
    numbers = list(map(float, footprint_in(text.encode()).split()[2:]))
    ours = SkyCoord(ra=numbers[::2], dec=numbers[1::2], unit="deg")
    apart = ours.separation(SkyCoord(ra=corners[:, 0], dec=corners[:, 1], unit="deg"))
    assert apart.arcsec.max() < 1e-4


UNKNOWN = {
    "? it has a gwcs and no s_region": "meta: {wcs: {name: w, steps: [{a: 1}]}}",
    "? s_region: the frame GALACTIC is not known here": "meta: {s_region: POLYGON GALACTIC 1 2 3 4 5 6}",
    "? wcsinfo: HPLN-TAN, HPLT-TAN is not known here": (
        "meta: {wcsinfo: {ctype1: HPLN-TAN, ctype2: HPLT-TAN}}\ndata: !core/ndarray-1.1.0 {source: 0, shape: [2, 2]}"
    ),
    "? wcsinfo: cunit1 arcsec is not known here": (
        "meta: {wcsinfo: {ctype1: RA---TAN, ctype2: DEC--TAN, cunit1: arcsec}}\n"
        "data: !core/ndarray-1.1.0 {source: 0, shape: [2, 2]}"
    ),
    "? s_region: a polygon has at least three corners": (
        "x: 2\ns_region: POLYGON ICRS 10 20 10.00000000000001 20 10.00000000000001 20"
    ),
    "? wcsinfo: there is no image at data": "meta: {wcsinfo: {ctype1: RA---TAN, ctype2: DEC--TAN}}",
}


def test_what_is_not_understood_is_told(tmp_path: Path, call: Call) -> None:
    for number, body in enumerate(UNKNOWN.values()):
        make(tmp_path / f"data/{number}.asdf", body)
    make(tmp_path / "data/good.asdf", "s_region: CIRCLE ICRS 1 2 3")
    catalog = tmp_path / "c.db"
    assert call("index", "--catalog", catalog, tmp_path / "data").code == 0
    done = call("find", "--catalog", catalog, "contains(1, 2)")
    assert done.out == f"{tmp_path}/data/good.asdf\n"
    assert "6 files have a place on the sky that is not understood; why: asdffs find --sql" in done.err
    rows = call("find", "--catalog", catalog, "--sql", "SELECT footprint FROM file WHERE footprint LIKE '?%'")
    assert rows.out.splitlines()[1:] == list(UNKNOWN)
    assert call("find", "--catalog", catalog, "exists meta").err == ""


def test_cells_never_leave_out_what_a_circle_meets() -> None:
    chance = random.Random(6)
    for number in range(1000):
        center = point_at(chance.uniform(0, 360), math.degrees(math.asin(chance.uniform(-1, 1))))
        size, radius = 10 ** chance.uniform(-6, 0), 10 ** chance.uniform(-6, 0.3)
        t, far = chance.uniform(0, 2 * math.pi), min(1.5, (size + radius) * chance.uniform(0.9, 0.99999))
        other = _from_plane(center, math.tan(far) * math.sin(t), math.tan(far) * math.cos(t))
        circle = Circle(other, radius)
        footprint = text_of([Circle(center, size)])
        here = cells.cells_of(footprint)
        assert 0 < len(here) < 40
        if meets(parse_region(footprint), circle):
            assert any(first <= cell <= last for first, last in cells.ranges_meeting([circle]) for cell in here), (
                number
            )


def test_circles_are_those_of_astropy(tmp_path: Path, call: Call) -> None:
    chance, centers = random.Random(9), []
    for number in range(100):
        center = chance.choice(CENTERS)
        center = ((center[0] + chance.uniform(-2, 2)) % 360, max(-90.0, min(90.0, center[1] + chance.uniform(-2, 2))))
        centers.append(center)
        make(tmp_path / f"data/{number:02d}.asdf", f"s_region: CIRCLE ICRS {center[0]} {center[1]} 0.5")
    assert call("index", "--catalog", tmp_path / "c.db", tmp_path / "data").code == 0
    known = SkyCoord(ra=[one[0] for one in centers], dec=[one[1] for one in centers], unit="deg")
    for ra, dec in CENTERS:
        apart = SkyCoord(ra=ra, dec=dec, unit="deg").separation(known).deg
        found = call("find", "--catalog", tmp_path / "c.db", f"cone({ra}, {dec}, 1)").out.splitlines()
        assert [int(Path(path).stem) for path in found] == [n for n, far in enumerate(apart) if far <= 1.5]
        assert found


def test_a_hostile_region_takes_no_time_and_ends_nothing(tmp_path: Path, call: Call) -> None:
    make(tmp_path / "data/a.asdf", f"s_region: POLYGON {'1' * 60_000}x")
    make(tmp_path / "data/b.asdf", "s_region: CIRCLE ICRS 1 2 3")
    assert call("index", "--catalog", tmp_path / "c.db", tmp_path / "data").code == 0
    with closing(sqlite3.connect(tmp_path / "c.db")) as catalog, catalog:
        catalog.execute("UPDATE files SET footprint = 'POLYGON junk' WHERE path LIKE '%a.asdf'")
        catalog.execute("INSERT INTO sky SELECT 0, id FROM files WHERE path LIKE '%a.asdf'")
    done = call("find", "--catalog", tmp_path / "c.db", "contains(1, 2)")
    assert (done.code, done.out) == (0, f"{tmp_path}/data/b.asdf\n"), done.err


def test_what_was_looked_at_is_told(survey: dict[str, str], tmp_path: Path, call: Call) -> None:
    assert call("index", "--catalog", tmp_path / "c.db", tmp_path / "survey").code == 0
    done = call("find", "-v", "--catalog", tmp_path / "c.db", "contains(0, 90) and meta.n < 50")
    near, columns = (re.search(rf"(\d+) {what}", done.err) for what in ("footprints nearby", "columns were read"))
    assert near is not None
    assert columns is not None
    assert 0 < int(near[1]) < len(survey) / 3
    assert int(columns[1]) == 1
    assert "0 files are read, of which it does not know enough" in done.err
