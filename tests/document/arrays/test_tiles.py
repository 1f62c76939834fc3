"""Arrays of tiles, as ASDF.jl and CHORD write them (``core/chunked-ndarray``): one array, wherever its tiles lie."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.arrays import tree_file
from support.mounts import asdffs, environment_in, mounted
from support.samples import block_bytes, zlib_block

import asdffs as library
from asdffs.document.arrays.index import find_unshown
from asdffs.errors import InvalidArrayError

VALUES = np.arange(6 * 5, dtype="<i4").reshape(6, 5)
#: Start and elements of each tile.
Tiles = list[tuple[tuple[int, ...], np.ndarray[Any, Any]]]
QUARTERS: Tiles = [((y, x), VALUES[y : y + 3, x : x + 3]) for y in (0, 3) for x in (0, 3)]


def names(dtype: np.dtype[Any]) -> tuple[str, str]:
    order = "big" if dtype.str[0] == ">" else "little"
    return {"i": "int", "u": "uint", "f": "float"}[dtype.kind] + str(8 * dtype.itemsize), order


def tile(start: tuple[int, ...], number: int, array: np.ndarray[Any, Any]) -> str:
    datatype, order = names(array.dtype)
    facts = f"source: {number}, datatype: {datatype}, byteorder: {order}, shape: {list(array.shape)}"
    return f"  - !core/ndarray-chunk-1.0.0 {{start: {list(start)}, ndarray: !core/ndarray-1.0.0 {{{facts}}}}}\n"


def tiled(shape: tuple[int, ...], tiles: Tiles, dtype: str = "int32") -> str:
    rows = "".join(tile(start, number, array) for number, (start, array) in enumerate(tiles))
    head = f"!core/chunked-ndarray-1.0.0\n  shape: {list(shape)}\n  datatype: {dtype}\n"
    return f"{head}  chunks:\n{rows}" if rows else f"{head}  chunks: []\n"


def written(path: Path, shape: tuple[int, ...], tiles: Tiles, dtype: str = "int32", *, packed: bool = False) -> Path:
    make = zlib_block if packed else block_bytes
    path.write_bytes(tree_file(f"t: {tiled(shape, tiles, dtype)}", [make(array.tobytes()) for _, array in tiles]))
    return path


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[int, ...], Tiles]:
    shape = tuple(draw(st.lists(st.integers(0, 8), max_size=3)))
    dtype = draw(st.sampled_from(["<i4", ">i4"]))
    tiles: Tiles = []
    for number in range(draw(st.integers(0, 5))):
        ends = [sorted((draw(st.integers(0, length)), draw(st.integers(0, length)))) for length in shape]
        size = tuple(stop - start for start, stop in ends)
        values = np.arange(int(np.prod(size))).reshape(size).astype(dtype) + 1000 * number
        tiles.append((tuple(start for start, _ in ends), values))
    return shape, tiles


def whole(shape: tuple[int, ...], tiles: Tiles) -> np.ndarray[Any, Any]:
    """The array as numpy puts it together: later tiles cover earlier ones, gaps are 0."""
    found = np.zeros(shape, "<i4")
    for start, values in tiles:
        found[tuple(slice(at, at + length) for at, length in zip(start, values.shape, strict=True))] = values
    return found


def keys() -> Any:
    numbers = st.none() | st.integers(-10, 10)
    return st.builds(slice, numbers, numbers, st.sampled_from([None, 1, 2, -1, -3])) | st.integers(-3, 3)


@settings(max_examples=200 if os.environ.get("ASDFFS_DEEP") else 60, deadline=None)
@given(case=cases(), packed=st.booleans(), data=st.data())
def test_any_tiles(tmp_path_factory: pytest.TempPathFactory, case: Any, packed: bool, data: st.DataObject) -> None:
    shape, tiles = case
    expected = whole(shape, tiles)
    path = written(tmp_path_factory.mktemp("tiles") / "t.asdf", shape, tiles, packed=packed)
    with library.open(path) as document:
        array, raw = document.arrays["t"], expected.tobytes()
        assert (array.shape, array.dtype) == (shape, np.dtype("<i4"))
        assert np.array_equal(array[...], expected)
        for _ in range(4):
            offset, length = data.draw(st.integers(0, len(raw) + 2)), data.draw(st.integers(0, len(raw) + 2))
            with document.scheduler.entered():
                assert array.elements().read(offset, length) == raw[offset : offset + length]
            index = tuple(data.draw(st.lists(keys(), max_size=len(shape))))
            try:
                wanted = expected[index]
            except IndexError:
                with pytest.raises(IndexError):
                    array[index]
                continue
            assert np.array_equal(array[index], wanted)


def test_tiles_in_the_text_in_other_files_and_by_alias(tmp_path: Path) -> None:
    other = tmp_path / "other.asdf"
    other.write_bytes(tree_file("a: 1\n", [block_bytes(VALUES[2:4].tobytes())]))
    array = "!core/ndarray-1.0.0"
    rows = f"""t: !core/chunked-ndarray-1.0.0
  shape: [6, 5]
  datatype: int32
  chunks:
  - {{start: [0, 0], ndarray: {array} {{data: [[0, 1], [5, 6]], datatype: int32, shape: [2, 2]}}}}
  - {{start: [2, 0], ndarray: &o {array} {{source: other.asdf, datatype: int32, byteorder: little, shape: [2, 5]}}}}
  - {{start: [4, 0], ndarray: *o}}
"""
    path = tmp_path / "t.asdf"
    path.write_bytes(tree_file(rows, []))
    expected = np.zeros((6, 5), "<i4")
    expected[:2, :2], expected[2:4], expected[4:] = [[0, 1], [5, 6]], VALUES[2:4], VALUES[2:4]
    with library.open(path) as document:
        assert np.array_equal(document.arrays["t"], expected)
        assert np.array_equal(document.arrays["t/chunks/1/ndarray"], VALUES[2:4])
        assert find_unshown(document) == []


def test_a_tile_is_changed_alone_and_the_array_has_it(tmp_path: Path) -> None:
    path = written(tmp_path / "t.asdf", (6, 5), QUARTERS)
    with library.open(path, "r+") as document:
        before = document.arrays["t"][...]
        assert np.array_equal(before, VALUES)
        document.arrays["t/chunks/3/ndarray"][0, 1] = -7
        assert document.arrays["t"][3, 4] == -7
        assert not document.arrays["t"].writable
        assert document.arrays["t"].chunks == (3, 3)
    with library.open(path) as document:
        assert document.arrays["t"][3, 4] == -7


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("start: [3, 3]", "start: [4, 3]", "its chunk 3 reaches beyond its shape"),
        ("start: [3, 3]", "start: [3]", "its chunk 3 has no start with 2 numbers"),
        ("start: [3, 3]", "start: [3, -1]", "its chunk 3 has no start with 2 numbers"),
        ("start: [3, 3], ndarray", "start: [3, 3], array", "its chunk 3 has no ndarray"),
        ("source: 3, datatype: int32", "source: 3, datatype: int16", "its chunk 3 has the datatype int16"),
        ("shape: [3, 2]}}\n...", "shape: [6]}}\n...", "its chunk 3 has not 2 axes"),
        ("shape: [6, 5]", "shape: [6, many]", "its shape or its chunks are missing or not valid"),
        ("source: 3", "source: 9", "its source is 9, and the file has 4 blocks"),
    ],
)
def test_wrong_descriptions(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    path = written(tmp_path / "t.asdf", (6, 5), QUARTERS)
    raw = path.read_bytes()
    assert raw.count(old.encode()) == 1
    path.write_bytes(raw.replace(old.encode(), new.encode()))
    with library.open(path) as document, pytest.raises(InvalidArrayError) as caught:
        document.arrays["t"][...]
    assert sentence in str(caught.value)
    done = asdffs("check", path, environment=environment_in(tmp_path))
    assert (done.returncode, sentence in done.stdout) == (4, True), done.stdout


def test_many_tiles_of_one_block_are_bounded(tmp_path: Path) -> None:
    """What the file states is not what it has: 2,000 tiles of one MiB are 2 GiB."""
    values = np.zeros((1 << 18,), "<i4")
    facts = f"source: 0, datatype: int32, byteorder: little, shape: [{len(values)}]"
    rows = f"t: !core/chunked-ndarray-1.0.0\n  shape: [{2000 * len(values)}]\n  datatype: int32\n  chunks:\n"
    for start in range(0, 2000 * len(values), len(values)):
        rows += f"  - {{start: [{start}], ndarray: !core/ndarray-1.0.0 {{{facts}}}}}\n"
    path = tmp_path / "t.asdf"
    path.write_bytes(tree_file(rows, [block_bytes(values.tobytes())]))
    with library.open(path) as document:
        with pytest.raises(InvalidArrayError, match="its elements"):
            document.arrays["t"][...]
        assert not document.arrays["t"][:: len(values)].any()


def test_it_is_an_array_of_values(tmp_path: Path) -> None:
    path = written(tmp_path / "t.asdf", (6, 5), QUARTERS)
    with library.open(path) as document:
        assert np.array_equal(document.values["t"], VALUES)


@pytest.mark.feature("datasets")
def test_a_dataset_has_one_variable(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray", reason="opens the dataset")
    path = written(tmp_path / "t.asdf", (6, 5), QUARTERS)
    with xarray.open_dataset(path, engine="asdffs", chunks={}) as found:
        assert list(found.variables) == ["t"]
        assert np.array_equal(found["t"].values, VALUES)
        assert found["t"].encoding["preferred_chunks"] == {found["t"].dims[0]: 3, found["t"].dims[1]: 3}


@pytest.mark.mount
def test_in_a_mount(tmp_path: Path) -> None:
    path = written(tmp_path / "t.asdf", (6, 5), QUARTERS)
    with mounted(path) as mount:
        shown = mount.point / "arrays/t.npy"
        assert np.array_equal(np.load(shown), VALUES)
        assert np.array_equal(np.load(shown, mmap_mode="r")[::2, 4], VALUES[::2, 4])
        tiles = [np.load(mount.point / f"arrays/t/chunks/{number}/ndarray.npy") for number in range(4)]
        assert all(np.array_equal(found, made) for found, (_, made) in zip(tiles, QUARTERS, strict=True))
        assert json.loads((mount.point / ".asdffs/arrays.json").read_text()) == []
        before = shown.stat().st_mtime_ns
        with mount.block(0).open("r+b") as file:
            file.write(np.int32(77).tobytes())
        assert np.load(shown)[0, 0] == 77
        assert shown.stat().st_mtime_ns > before
    assert asdffs("check", path, environment=environment_in(tmp_path)).returncode == 0


@pytest.mark.feature("datasets")
def test_references_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "t.asdf", (6, 5), QUARTERS)
    done = asdffs("refs", path, environment=environment_in(tmp_path))
    assert "its elements are in several chunks" in done.stdout + done.stderr


def test_other_commands(tmp_path: Path) -> None:
    path = written(tmp_path / "t.asdf", (6, 5), QUARTERS)
    environment = environment_in(tmp_path)
    done = asdffs("repack", "--drop-unreferenced", path, tmp_path / "o.asdf", environment=environment)
    assert done.returncode == 0, done.stderr
    done = asdffs("explode", path, tmp_path / "parts", environment=environment)
    assert done.returncode == 0, done.stderr
    for copy in (tmp_path / "o.asdf", tmp_path / "parts/t.asdf"):
        with library.open(copy) as document:
            assert np.array_equal(document.arrays["t"], VALUES)
