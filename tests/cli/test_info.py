"""``asdffs info``: arrays and tables with shapes and units, and with ``-v`` the blocks."""

from __future__ import annotations

import json
from pathlib import Path

import asdf
import jsonschema
import numpy as np
import pytest
from astropy import units
from astropy.table import MaskedColumn, QTable, Table
from support.arrays import tree_file
from support.commands import Done, command
from support.mounts import environment_in

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    masked = MaskedColumn([1.0, 2.0], mask=[True, False])
    tree = {
        "roman": {"data": np.zeros((4, 5), "f4") * units.DN / units.s},
        "stars": Table({"name": ["Vega", "Deneb"], "m": masked}),
        "fluxes": QTable({"f": [1, 2, 3] * units.Jy}),
        "events": np.zeros(7, "i4, f8"),
        "one": np.array(3),
    }
    asdf.AsdfFile(tree).write_to(tmp_path / "a.asdf", all_array_compression="zlib")
    return tmp_path / "a.asdf"


def info(path: Path, *words: str) -> Done:
    return command("info", path, *words, environment=environment_in(path.parent))


def test_arrays_and_tables_come_first(path: Path) -> None:
    lines = [line.split(maxsplit=1) for line in info(path).out.splitlines()[2:]]
    shown = {name: " ".join(rest.split()) for name, rest in lines}
    assert shown["roman/data/value"] == "float32 4 x 5 DN / s block 0, zlib"
    assert shown["stars"] == "table 2 rows x 2 columns"
    assert shown["fluxes"] == "table 3 rows x 1 columns"
    assert shown["events"].startswith("record 7 rows x 2 columns block ")
    assert shown["one"].startswith("int64 scalar block ")
    assert not any(name.startswith(("stars/", "block")) for name in shown)
    assert shown["7"].endswith("bytes decoded; -v lists them")


def test_offsets_and_slack_with_v(path: Path) -> None:
    said = info(path, "-v").out
    assert "offset" in said
    assert "stars/columns/1/data/mask" in said
    assert "padding   0 bytes" in said
    assert "-v lists them" not in said


def test_json(path: Path) -> None:
    found = info(path, "--json").json
    jsonschema.validate(found, json.loads((ROOT / "docs/schemas/info.json").read_text()))
    found_units = {one["path"]: one["unit"] for one in found["arrays"] if one["unit"]}
    assert found_units == {"roman/data/value": "DN / s", "fluxes/columns/0/value": "Jy"}
    assert found["tables"] == [
        {"path": "fluxes", "rows": 3, "columns": ["f"]},
        {"path": "stars", "rows": 2, "columns": ["name", "m"]},
    ]


def test_damaged_blocks_are_listed_without_v(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    place = raw.index(b"\xd3BLK", raw.index(b"\xd3BLK") + 4)
    raw[place + 10 : place + 14] = b"wxyz"
    path.write_bytes(raw)
    assert "the compression 'wxyz" in info(path).out


def test_regression_aliases_below_a_column_took_for_ever(tmp_path: Path) -> None:
    levels = "\n".join(f"  - &a{n} {{p: *a{n - 1}, q: *a{n - 1}}}" for n in range(1, 40))
    start = "  - &a0 {x: !core/ndarray-1.1.0 {data: 1, shape: [], datatype: int8}}"
    tree = f"t: !core/table-1.1.0\n  columns:\n{start}\n{levels}\n"
    (tmp_path / "a.asdf").write_bytes(tree_file(tree, []))
    assert "? rows x 40 columns" in info(tmp_path / "a.asdf").out
