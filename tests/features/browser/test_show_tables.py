"""``asdffs show`` of tables: rows, units and masks are those of astropy."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import asdf
import jsonschema
import numpy as np
import pytest
from astropy import units
from astropy.coordinates import SkyCoord
from astropy.table import MaskedColumn, QTable, Table
from astropy.time import Time
from support.commands import Done, command
from support.mounts import environment_in
from support.terminal import Terminal

ROOT = Path(__file__).parents[3]
COUNT = 1000


def table() -> Table:
    numbers = np.arange(COUNT)
    return Table(
        {
            "id": numbers,
            "ra": np.linspace(0, 359, COUNT) * units.deg,
            "name": [f"star, {n}" for n in numbers],
            "m": MaskedColumn(numbers * 1.5, mask=numbers % 3 == 0),
            "v": np.arange(3.0 * COUNT).reshape(COUNT, 3),
            "ok": numbers % 2 == 0,
        }
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    records = np.array([(1, 2.5, b"a\xff", (3, 4)), (2, np.nan, b"c", (5, 6))], "i4, f4, S2, (2,)i2")
    records.dtype.names = ("x", "y", "s", "v")
    sky = SkyCoord([1, 2] * units.deg, [3, 4] * units.deg)
    odd = QTable({"sky": sky, "when": Time([50000, 50001], format="mjd"), "f": [1, 2] * units.Jy})
    tree = {"t": table(), "deep": {"records": records}, "odd": odd, "x": np.arange(3), "none": records[:0]}
    asdf.AsdfFile(tree).write_to(tmp_path / "a.asdf")
    return tmp_path / "a.asdf"


def show(path: Path, *words: object) -> Done:
    return command("show", path, *words, environment=environment_in(path.parent))


def test_the_first_and_last_rows(path: Path) -> None:
    lines = show(path, "t", "--rows", 5).out.splitlines()
    assert lines[0] == f"t: 1,000 rows, {len(table().columns)} columns"
    assert [lines[1].split(), lines[2].split()] == [["id", "ra", "name", "m", "v", "ok"], ["deg"]]
    assert [line.split()[0] for line in lines[4:]] == ["0", "1", "2", "...", "998", "999"]
    assert lines[4].split() == ["0", "0.0", "star,", "0", "--", "[0.", "1.", "2.]", "True"]
    assert lines[5].split()[-6:] == ["1", "1.5", "[3.", "4.", "5.]", "False"]
    assert len({line.index("star") for line in lines[4:7]}) == 1


def test_all_rows_as_csv(path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(show(path, "t", "--csv").out)))
    expected = table()
    assert [int(row["id"]) for row in rows] == expected["id"].tolist()
    assert [float(row["ra"]) for row in rows] == expected["ra"].tolist()
    assert [row["name"] for row in rows] == expected["name"].tolist()
    assert [row["m"] == "" for row in rows] == expected["m"].mask.tolist()
    assert [json.loads(row["v"]) for row in rows] == expected["v"].tolist()
    assert [row["ok"] for row in rows] == [str(ok).lower() for ok in expected["ok"]]


def test_chosen_columns(path: Path) -> None:
    assert show(path, "t", "--columns", "m,id", "--csv").out.splitlines()[:3] == ["m,id", ",0", "1.5,1"]
    done = show(path, "t", "--columns", "id,nothing")
    assert (done.code, "there is no column 'nothing'; there are id, ra, name" in done.sentence) == (2, True)


def test_records(path: Path) -> None:
    assert show(path, "deep.records", "--csv").out.splitlines() == [
        "x,y,s,v",
        '1,2.5,a\\xff,"[3, 4]"',
        '2,nan,c,"[5, 6]"',
    ]
    assert show(path, "deep/records").out.startswith("deep.records: 2 rows, 4 columns\n")
    assert show(path, "none", "--csv").out == "x,y,s,v\n"
    assert show(path, "deep.records[0]").out.startswith("deep/records[0]: 2 ")


def test_coordinates_and_what_is_no_array(path: Path) -> None:
    lines = show(path, "odd").out.splitlines()
    assert sorted(lines[1].split()[:2]) == ["sky.dec", "sky.ra"]
    assert "Jy" in lines[2]
    assert show(path, "odd", "--columns", "sky.ra,f", "--csv").out.splitlines()[1:] == ["1.0,1.0", "2.0,2.0"]


def test_json(path: Path) -> None:
    found = show(path, "t", "--json").json
    jsonschema.validate(found, json.loads((ROOT / "docs/schemas/show.json").read_text()))
    assert (found["path"], found["rows"]) == ("t", COUNT)
    assert found["columns"][1] == {"name": "ra", "dtype": "float64", "shape": [], "unit": "deg", "description": ""}
    assert found["columns"][4]["shape"] == [3]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["x", "--csv"], "x: is no table; name one, such as those in 'asdffs info'"),
        (["--columns", "a"], "the tree: is no table"),
        (["t", "--rows", "0"], "--rows 0: give a number from 1 on"),
    ],
)
def test_what_is_wrong(path: Path, words: list[str], sentence: str) -> None:
    done = show(path, *words)
    assert (done.code, sentence in done.sentence) == (2, True), done


def test_what_does_not_fit_the_terminal_is_named(path: Path) -> None:
    with Terminal(
        f"stty cols 40; {sys.executable} -m asdffs show a.asdf t --rows 2; read line",
        path.parent,
        environment_in(path.parent),
    ) as terminal:
        terminal.see("not shown: v, ok; --columns chooses")


@pytest.mark.parametrize("seed", range(6))
def test_random_columns_of_every_kind(seed: int, tmp_path: Path) -> None:
    """CSV has the values of astropy, in a block or inline; masked ones are empty."""
    rng = np.random.default_rng(seed)
    found = Table()
    for kind in ("i1", "u8", "f2", ">f4", "f8", "c8", "U3", "S3", "bool"):
        shape = (7, *rng.integers(0, 3, rng.integers(0, 3)).tolist()) if kind[0] not in "US" else (7,)
        data = rng.integers(0, 100, shape).astype(kind)
        found[kind] = MaskedColumn(data, mask=rng.random(shape) < 0.3) if seed % 2 and len(shape) == 1 else data
    asdf.AsdfFile({"t": found}).write_to(tmp_path / "a.asdf", all_array_storage=["internal", "inline"][seed // 3])
    rows = list(csv.DictReader(io.StringIO(show(tmp_path / "a.asdf", "t", "--csv").out)))
    assert len(rows) == 7
    for name in found.colnames:
        for number, row in enumerate(rows):
            cell = found[name][number]
            if np.ma.is_masked(cell):
                assert row[name] == ""
            elif np.ndim(cell):
                listed = json.loads(row[name])
                assert np.array(listed).astype(found[name].dtype).tolist() == cell.tolist()
            elif isinstance(cell, bytes):
                assert row[name] == cell.decode()
            else:
                assert row[name] == (str(cell).lower() if isinstance(cell, np.bool_) else str(cell))


def test_regression_records_of_a_linked_file_were_read_from_this_one(tmp_path: Path) -> None:
    mine, other = np.array([(9, 9.0)], "i4, f8"), np.array([(1, 2.0), (3, 4.0)], "i4, f8")
    asdf.AsdfFile({"ev": other}).write_to(tmp_path / "other.asdf")
    asdf.AsdfFile({"own": mine, "link": {"$ref": "other.asdf#/ev"}}).write_to(tmp_path / "main.asdf")
    assert show(tmp_path / "main.asdf", "link", "--csv").out.splitlines()[1:] == ["1,2.0", "3,4.0"]
