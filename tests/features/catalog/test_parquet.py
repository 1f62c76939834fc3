"""A catalogue as a Parquet dataset: what each file says by itself, in columns of one type."""

from __future__ import annotations

import datetime
import json
import math
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import dataset, parquet
from support.commands import Done, command
from support.mounts import environment_in
from support.s3_server import CREDENTIALS, s3_server
from support.samples import odd_file

from asdffs.arrays.scalars import read_scalars
from asdffs.dialects.asdf_1 import PLUGIN as DIALECT
from asdffs.document.scanning import read_text
from asdffs.features.catalog.chunks import Kinds
from asdffs.features.catalog.parquet import type_of

pytestmark = pytest.mark.long

Call = Callable[..., Done]
HEAD = b"#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
VALUES = {
    "flag": ["true", "false", "null"],
    "count": ["1", "-7", str(2**62)],
    "time": ["1.5", "3", "-.inf", ".nan"],
    "name": ["text", "'12'", "''", '"é\\u2028"'],
    "mixed": ["1", "text", "true", "[1, 2]", "2.5"],
    "huge": [str(2**70), "1"],
    "wide": [str(2**60), "1.5"],
    "date": ["2026-11-25", "2026-11-25T10:11:12Z"],
    "deep": ["{a: 1}", "[]", "[1, {b: x}]"],
}


@pytest.fixture
def call(tmp_path: Path) -> Call:
    own = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "NO_PROXY": "127.0.0.1"}
    return partial(command, environment=environment_in(tmp_path) | own | CREDENTIALS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    chance = random.Random(7)
    (tmp_path / "archive").mkdir()
    for number in range(30):
        lines = [f"{key}: {chance.choice(texts)}" for key, texts in VALUES.items() if chance.random() < 0.8]
        path = tmp_path / "archive" / f"{number}.asdf"
        path.write_bytes(HEAD + "\n".join(["odd key: 1", *lines]).encode() + b"\n...\n")
    (tmp_path / "archive" / "odd.asdf").write_bytes(odd_file())
    (tmp_path / "archive" / "broken.asdf").write_bytes(b"nonsense")
    return tmp_path / "archive"


def tables(place: Path) -> dict[str, pa.Table]:
    return {name: dataset.dataset(place / name).to_table() for name in ("files", "arrays", "blocks")}


def told(value: Any, kind: pa.DataType) -> Any:
    """A value as a column of that type has it."""
    if kind == pa.string() and not isinstance(value, str):
        return value.isoformat() if isinstance(value, datetime.date) else json.dumps(value)
    return float(value) if kind == pa.float64() else value


def test_each_row_has_what_the_file_says(
    tmp_path: Path, call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asdffs.features.catalog.indexing.FILES", 7)
    assert call("index", folder).code == 0
    done = call("index", "--to", "parquet", tmp_path / "out")
    assert (done.code, "32 files of" in done.out) == (0, True), done
    found = tables(tmp_path / "out")
    assert len(list((tmp_path / "out" / "files").iterdir())) > 3
    schema = found["files"].schema
    rows = {Path(row["@path"]).name: row for row in found["files"].to_pylist()}
    assert sorted(rows) == sorted(path.name for path in folder.iterdir())
    for name, row in rows.items():
        facts = {key: value for key, value in row.items() if value is not None and not key.startswith("@")}
        if name == "broken.asdf":
            assert ("not an ASDF file" in row["@error"], facts) == (True, {})
            continue
        text = read_text(str(folder / name))
        scalars = {path: value for path, value in read_scalars(text, DIALECT).values.items() if value is not None}
        expected = {path: told(value, schema.field(path).type) for path, value in scalars.items()}
        assert repr(facts) == repr({path: expected[path] for path in facts})
        assert facts.keys() == expected.keys()
        assert (row["@size"], row["@standard"], row["@format"]) == (
            (folder / name).stat().st_size,
            row["@standard"],
            "1.0.0",
        )
    kinds = {"flag": pa.bool_(), "count": pa.int64(), "time": pa.float64(), "name": pa.string(), "mixed": pa.string()}
    kinds |= {"huge": pa.string(), "wide": pa.string(), "date": pa.string(), '"odd key"': pa.int64()}
    for path, kind in kinds.items():
        assert schema.field(path).type == kind, path
    arrays = [row for row in found["arrays"].to_pylist() if row["file"].endswith("odd.asdf")]
    assert next((row["path"], row["datatype"], row["shape"]) for row in arrays) == ("data", "float32", "25")
    assert [row["number"] for row in found["blocks"].to_pylist()] == [0, 1]


def test_types() -> None:
    for kinds, name in (
        (Kinds.BOOL, "bool"),
        (Kinds.INT, "int64"),
        (Kinds.INT | Kinds.LONG, "int64"),
        (Kinds.INT | Kinds.FLOAT, "float64"),
        (Kinds.FLOAT, "float64"),
        (Kinds.LONG | Kinds.FLOAT, "string"),
        (Kinds.HUGE, "string"),
        (Kinds.BOOL | Kinds.INT, "string"),
        (Kinds.TEXT, "string"),
        (Kinds.TIME, "string"),
    ):
        assert type_of(kinds) == name, kinds


def test_where_it_is_written(tmp_path: Path, call: Call, folder: Path) -> None:
    out = tmp_path / "out"
    assert call("index", "--to", "parquet", out, folder).code == 0
    (folder / "new.asdf").write_bytes(HEAD + b"{a: 1}\n...\n")
    done = call("index", "--to", "parquet", out, folder)
    assert (done.code, "already exists" in done.err, "--force" in done.err) == (2, True, True), done
    assert call("index", "--to", "parquet", out, folder, "--force").code == 0
    assert tables(out)["files"].num_rows == 33
    (out / "mine.txt").write_text("x")
    for place in (out, folder / "odd.asdf"):
        done = call("index", "--to", "parquet", place, folder, "--force")
        assert (done.code, "has other files than a Parquet dataset" in done.err) == (2, True), done
    assert (out / "mine.txt").read_text() == "x"
    assert "--to csv x: only parquet is known" in call("index", "--to", "csv", "x", folder).err
    assert (
        "there is no catalogue"
        in call("index", "--catalog", tmp_path / "none", "--to", "parquet", tmp_path / "x").err
    )
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "1.asdf").write_bytes(HEAD + b"{a: .nan}\n...\n")
    assert call("index", "--to", "parquet", tmp_path / "some", tmp_path / "part").out.endswith("sqlite\n")
    (value,) = parquet.read_table(next((tmp_path / "some" / "files").iterdir()))["a"].to_pylist()
    assert math.isnan(value)
    assert sorted(path.name for path in tmp_path.glob("*.new-*")) == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_dataset_in_a_bucket(tmp_path: Path, call: Call, folder: Path) -> None:
    with s3_server({"mine/notes.txt": b"x"}) as s3:
        words = ("index", "--endpoint", s3.endpoint, "--to", "parquet")
        assert call(*words, "s3://bucket/set", folder).code == 0
        assert call(*words, tmp_path / "local", folder).code == 0
        done = call(*words, "s3://bucket/set", folder)
        assert (done.code, "s3://bucket/set: already exists" in done.err) == (2, True), done
        assert "has other files" in call(*words, "s3://bucket/mine", folder, "--force").err
        assert call(*words, "s3://bucket/set", folder, "--force").code == 0
        keys = [one["Key"] for one in s3.client.list_objects_v2(Bucket="bucket", Prefix="set/")["Contents"]]
        for key in keys:
            raw = s3.client.get_object(Bucket="bucket", Key=key)["Body"].read()
            assert raw == (tmp_path / "local" / key.removeprefix("set/")).read_bytes()
        assert len(keys) == 4


def test_what_has_no_column_is_a_row(
    tmp_path: Path, call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paths that most files have get the columns; one file with very many paths does not end the export."""
    own = ", ".join(f"k{number}: {number}" for number in range(50))
    (folder / "many.asdf").write_bytes(HEAD + f"{{odd key: 1, own: {{{own}}}}}\n...\n".encode())
    monkeypatch.setattr("asdffs.features.catalog.parquet._MOST", 20)
    done = call("index", "--json", "--to", "parquet", tmp_path / "out", folder)
    rows = dataset.dataset(tmp_path / "out/values").to_table().to_pylist()
    assert (done.json["values"], "are in the table 'values'" in done.err) == (len(rows), True)
    columns = [name for name in tables(tmp_path / "out")["files"].schema.names if not name.startswith("@")]
    assert len(columns) == 20
    assert set(VALUES) - {"deep"} < set(columns)
    mine = [(row["path"], row["value"]) for row in rows if row["file"].endswith("many.asdf")]
    there = [name for name in columns if name.startswith("own")]
    assert {path: int(value) for path, value in mine} == {
        f"own.k{n}": n for n in range(50) if f"own.k{n}" not in there
    }


def test_which_paths_are_written(tmp_path: Path, call: Call, folder: Path) -> None:
    def columns(*words: str) -> list[str]:
        assert call("index", "--force", "--to", "parquet", tmp_path / "out", *words).code == 0
        found = tables(tmp_path / "out")["files"].schema.names
        return [name for name in found if not name.startswith("@")]

    assert call("index", folder).code == 0
    every = columns()
    assert columns("--columns", '"odd key",time') == ['"odd key"', "time"]
    deep = [name for name in every if name.startswith("deep")]
    assert columns("--columns", "deep") == deep != []
    assert columns("--without", "deep,name") == [name for name in every if name not in (*deep, "name")]
    assert columns("--columns", "deep", "--without", "deep.a") == [name for name in deep if name != "deep.a"]
    assert call("index", "--columns", "name", folder).sentence.endswith(
        "--columns and --without are for --to parquet"
    )
