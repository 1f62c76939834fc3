"""How values and names are written (docs/cli.md, "How values are written"): the same by all commands."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from support.commands import Done, command
from support.mounts import asdffs, environment_in

Call = Callable[..., Done]
HEAD = b"#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
TREE = b"""nan: .NaN
low: -.INF
day: 2027-06-01
time: 2027-06-01 10:11:12
list: [1, 2027-06-01, .nan]
tab: "a\\tb\\\\c"
none: null
"""
JSON = {
    "nan": ".nan",
    "low": "-.inf",
    "day": "2027-06-01",
    "time": "2027-06-01T10:11:12",
    "list": [1, "2027-06-01", ".nan"],
    "tab": "a\tb\\c",
    "none": None,
}
TABLE = {
    "nan": "nan",
    "low": "-inf",
    "day": "2027-06-01",
    "time": "2027-06-01T10:11:12",
    "list": '[1, "2027-06-01", ".nan"]',
    "tab": "a\tb\\c",
    "none": "",
}
WRITTEN = {"nan": ".NaN", "low": "-.INF", "day": "2027-06-01", "time": "2027-06-01 10:11:12", "none": "null"}


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.asdf"))
    path.write_bytes(HEAD + TREE + b"...\n")
    return path


@pytest.fixture
def call(tmp_path: Path) -> Call:
    return partial(command, environment=environment_in(tmp_path))


def test_json(odd: Path, call: Call, tmp_path: Path) -> None:
    names = list(JSON)
    assert call("get", "--json", names[0], *(word for name in names[1:] for word in ("-p", name)), odd).json == JSON
    assert call("tree", "--json", odd).json == JSON
    assert {one["path"]: one["value"] for one in call("grep", "--json", "^(nan|day|time)$", odd).json} == {
        name: JSON[name] for name in ("nan", "day", "time")
    }
    assert call("index", "--catalog", tmp_path / "c.db", odd).code == 0
    [row] = call("find", "--json", "--catalog", tmp_path / "c.db", "--columns", ",".join(names), "exists day").json
    assert row == {"file": str(odd), **JSON}
    assert os.fsencode(row["file"]).endswith(b"/\xff.asdf")


def test_tables(odd: Path, call: Call, tmp_path: Path) -> None:
    names = list(TABLE)
    assert call("index", "--catalog", tmp_path / "c.db", odd).code == 0
    words = ("--catalog", tmp_path / "c.db", "--columns", ",".join(names), "exists day")
    environment = environment_in(tmp_path)
    told = asdffs("find", "--csv", *words, environment=environment, text=False, encoding=None).stdout
    head, row = csv.reader(io.StringIO(os.fsdecode(told)))
    assert dict(zip(head, row, strict=True)) == {"file": str(odd), **TABLE}
    lines = os.fsdecode(
        asdffs("find", *words, environment=environment, text=False, encoding=None).stdout
    ).splitlines()
    escaped = TABLE["tab"].replace("\\", "\\\\").replace("\t", "\\t")
    assert lines[1].split("\t") == [str(odd), *(escaped if name == "tab" else TABLE[name] for name in names)]
    null = asdffs("find", "-0", *words[:2], words[-1], environment=environment, text=False, encoding=None).stdout
    assert null == os.fsencode(odd) + b"\0"
    told = call("find", "--json", *words[:2], "--sql", "SELECT path, value FROM scalar JOIN file USING (path)").out
    assert json.loads(told) == []
    rows = call("find", "--json", *words[:2], "--sql", "SELECT file, path, value FROM scalar").json
    assert {row["path"]: row["value"] for row in rows if row["path"] in ("nan", "low", "day", "time")} == {
        name: TABLE[name] for name in ("nan", "low", "day", "time")
    }
    assert {row["file"] for row in rows} == {str(odd).replace("\udcff", "\\xff")}


def test_plain_text(odd: Path, call: Call) -> None:
    for name, text in WRITTEN.items():
        assert call("get", name, odd).out == f"{text}\n"
    assert call("get", "tab", odd).out == "a\tb\\c\n"
    done = call("get", "missing", odd)
    assert (done.code, done.out) == (1, "")
