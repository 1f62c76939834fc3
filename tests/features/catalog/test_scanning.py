"""``asdffs.scan`` beside ``asdffs.find`` and the asdf library; DuckDB, polars and pandas use it."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import asdf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from make_archive import make
from support.s3_server import CREDENTIALS, s3_server

import asdffs
from asdffs.errors import AsdffsError

pytestmark = pytest.mark.long

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
dataset = pytest.importorskip("pyarrow.dataset", reason="pyarrow is not installed")

TIME, FILTER = "roman.meta.exposure.exposure_time", "roman.meta.instrument.optical_element"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    for number in range(300):
        (folder / str(number // 100)).mkdir(exist_ok=True)
        make(folder / f"{number // 100}/{number:04d}.asdf", number)
    return folder


def test_it_has_what_an_index_finds(archive: Path, tmp_path: Path) -> None:
    condition = f'{TIME} > 150 and {FILTER} == "F062"'
    expected = asdffs.find(condition, archive, columns=[TIME], catalog=tmp_path / "c.db", fresh=True)
    found = asdffs.scan(archive, columns=[TIME, FILTER])
    assert found.schema.names == ["@file", "@error", TIME, FILTER]
    wanted = (dataset.field(TIME) > 150) & (dataset.field(FILTER) == "F062")
    table = found.to_table(columns=["@file", TIME], filter=wanted)
    assert table.column_names == ["@file", TIME]
    assert table.to_pydict() == {"@file": expected["file"], TIME: expected[TIME]}
    assert table.num_rows > 5
    assert found.count_rows() == 300
    assert found.filter(wanted).count_rows() == found.count_rows(filter=wanted) == table.num_rows
    assert found.head(7).num_rows == 7
    assert found.take([5]).to_pydict()["@file"] == [found.files[5]]
    assert found.to_table(columns={"double": dataset.field(TIME) * 2}).column("double")[0].as_py() is not None
    assert found.sort_by(TIME).head(1).num_rows == 1
    assert pickle.loads(pickle.dumps(found)).count_rows() == 300
    assert sum(batch.num_rows for batch in found.to_batches(batch_size=7)) == 300


def test_all_columns_of_a_sample(archive: Path) -> None:
    found = asdffs.scan(archive, sample=3)
    assert len(found.schema) > 100
    assert found.schema.field(TIME).type == pyarrow.float64()
    assert found.schema.field(FILTER).type == pyarrow.string()
    row = found.to_table(filter=dataset.field("@file") == found.files[0]).to_pylist()[0]
    with asdf.open(found.files[0]) as file:
        assert row[TIME] == file["roman"]["meta"]["exposure"]["exposure_time"]


def test_duckdb_and_polars(archive: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    polars = pytest.importorskip("polars", reason="polars is not installed")
    night = asdffs.scan(archive, columns=[TIME, FILTER])
    rows = night.to_table().to_pylist()
    expected: dict[str, int] = {}
    for row in rows:
        if row[TIME] is not None and row[TIME] > 100:
            expected[row[FILTER]] = expected.get(row[FILTER], 0) + 1
    query = f'select "{FILTER}", count(*) from night where "{TIME}" > 100 group by all'
    assert dict(duckdb.sql(query).fetchall()) == expected
    lazy = polars.scan_pyarrow_dataset(night)
    chosen = lazy.filter(polars.col(TIME) > 100).group_by(FILTER).len().collect()
    assert dict(chosen.iter_rows()) == expected
    assert len(duckdb.sql("select * from night limit 2").fetchall()) == 2


def test_types_that_differ(tmp_path: Path) -> None:
    for number, value in enumerate((1, 2.5, "three", True, [1], None)):
        asdf.AsdfFile({"v": value, "n": number}).write_to(tmp_path / f"{number}.asdf")
    (tmp_path / "broken.asdf").write_text("no ASDF file")
    found = asdffs.scan(tmp_path, columns={"v": pyarrow.float64(), "n": pyarrow.int32()})
    table = found.to_table().to_pydict()
    assert table["v"] == [1.0, 2.5, None, None, None, None, None]
    assert table["n"] == [0, 1, 2, 3, 4, 5, None]
    assert table["@error"][:6] == [None] * 6
    assert "ASDF" in table["@error"][6]
    strict = asdffs.scan(tmp_path, columns={"v": pyarrow.float64()}, mismatch="error")
    with pytest.raises(pyarrow.ArrowInvalid, match=r"2\.asdf: v is 'three', not double"):
        strict.to_table()
    assert asdffs.scan(tmp_path, sample=1).schema.field("v").type == pyarrow.int64()
    assert asdffs.scan(tmp_path, columns=["v"]).schema.field("v").type == pyarrow.string()


def test_a_value_that_no_type_takes(tmp_path: Path) -> None:
    """NaN for a time is null as others are; columns that every dataset has may be named, and a text is refused."""
    asdf.AsdfFile({"a": float("nan")}).write_to(tmp_path / "0.asdf")
    for kind in (pyarrow.timestamp("us"), pyarrow.date32(), pyarrow.int8(), pyarrow.list_(pyarrow.int8())):
        assert asdffs.scan(tmp_path, columns={"a": kind}).to_table()["a"].to_pylist() == [None]
    assert asdffs.scan(tmp_path, columns=["@file", "a", "a"]).schema.names == ["@file", "@error", "a"]
    with pytest.raises(AsdffsError, match="list of paths"):
        asdffs.scan(tmp_path, columns="a")


def test_a_prefix_of_a_bucket(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read through their store, several at a time, and named by their URLs."""
    pytest.importorskip("moto", reason="moto is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files = sorted(archive.rglob("*.asdf"))[:12]
    with s3_server({f"night/{file.name}": file.read_bytes() for file in files}) as server:
        for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": server.endpoint, "NO_PROXY": "127.0.0.1"}.items():
            monkeypatch.setenv(name, value)
        found = asdffs.scan("s3://bucket/night", columns=[TIME]).to_table().to_pydict()
    assert found[TIME] == asdffs.scan(*files, columns=[TIME]).to_table().to_pydict()[TIME]
    assert found["@file"][0] == f"s3://bucket/night/{files[0].name}"


def test_processes_and_an_early_end(archive: Path) -> None:
    """With several processes the rows are the same; a program that stops in the middle ends as others do."""
    script = (
        "import sys, asdffs\n"
        "if __name__ == '__main__':\n"
        f"    night = asdffs.scan(sys.argv[1], columns=['{TIME}'], jobs=2)\n"
        "    print(sum(row is not None for row in night.to_table(batch_size=20)['" + TIME + "'].to_pylist()))\n"
        "    for batch in night.to_batches(batch_size=20):\n"
        "        break\n"
        "    print(night.head(3).num_rows)\n"
    )
    (archive / "script.py").write_text(script)
    done = subprocess.run([sys.executable, archive / "script.py", archive], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    expected = sum(row is not None for row in asdffs.scan(archive, columns=[TIME]).to_table()[TIME].to_pylist())
    assert done.stdout == f"{expected}\n3\n"


SCALARS = st.one_of(
    st.booleans(), st.integers(-(2**40), 2**40), st.floats(allow_nan=False), st.text("ab c", max_size=4)
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from("abc"), SCALARS, max_size=3), min_size=1, max_size=4), st.data())
def test_any_projection_and_condition(tmp_path: Path, trees: list[dict[str, Any]], data: st.DataObject) -> None:
    """A scan is the same as a table of all rows of which pyarrow takes the columns and rows."""
    for old in tmp_path.glob("*.asdf"):
        old.unlink()
    for number, tree in enumerate(trees):
        asdf.AsdfFile({"t": tree, "array": np.arange(3)}).write_to(tmp_path / f"{number}.asdf")
    found = asdffs.scan(tmp_path, columns=["t.a", "t.b", "t.c"], sample=data.draw(st.integers(0, 4)))
    whole = dataset.dataset(found.to_table())
    columns = data.draw(st.one_of(st.none(), st.lists(st.sampled_from(found.schema.names), unique=True, min_size=1)))
    conditions = [None, *(dataset.field(name).is_valid() for name in found.schema.names)]
    conditions.append((dataset.field("t.a") == dataset.field("t.a")) | dataset.field("@file").is_valid())
    condition = data.draw(st.sampled_from(conditions))
    got = found.to_table(columns=columns, filter=condition)
    assert got.equals(whole.to_table(columns=columns, filter=condition))
    for number, tree in enumerate(trees):
        for key, value in found.to_table().slice(number, 1).to_pylist()[0].items():
            if key.startswith("t.") and value is not None and not isinstance(value, str):
                assert value == tree[key[2:]]


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AsdffsError, match="mismatch is null or error"):
        asdffs.scan(tmp_path, mismatch="other")
    with pytest.raises(AsdffsError):
        asdffs.scan(tmp_path / "none")
    assert asdffs.scan(tmp_path).to_table().num_rows == 0
