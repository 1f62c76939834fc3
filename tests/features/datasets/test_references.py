"""References in kerchunk's JSON, opened by zarr, xarray and VirtualiZarr without asdffs."""

from __future__ import annotations

import json
import math
import os
import warnings
from pathlib import Path
from typing import Any

import asdf
import numpy as np
import pytest
import xarray as xr
from astropy import units
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import LocalStore
from support.arrays import tree_file, write_all_kinds
from support.commands import command
from support.fits_files import DATA, DQ, SECOND, write_fits
from support.mounts import environment_in
from support.samples import block_bytes
from support.web_server import WebServer

import asdffs
from asdffs.errors import AsdffsError, NotPermittedError
from asdffs.features.datasets import references as reference_files
from asdffs.features.datasets.references import arrays_of, grid_of, make_references
from asdffs.features.datasets.zarr_metadata import Zarr2, Zarr3

pytestmark = pytest.mark.long

zarr = pytest.importorskip("zarr", reason="zarr is not installed: pip install '.[test-zarr]'")
registry = pytest.importorskip("obspec_utils.registry", reason="VirtualiZarr is not installed")
parsers = pytest.importorskip("virtualizarr.parsers", reason="VirtualiZarr is not installed")

FORMATS = {2: Zarr2(), 3: Zarr3()}
CUBE = np.random.default_rng(3).normal(size=(12, 30, 40)).astype(">f4")


def references(*paths: Path | str, zarr_format: int = 2, group: str | None = None) -> dict[str, Any]:
    files = []
    for path in paths:
        with asdffs.open(path) as document:
            files.append(arrays_of(document, group))
    made = make_references(files, FORMATS[zarr_format])
    return json.loads(json.dumps(made.refs)) | {"left_out": made.left_out}


def by_fsspec(refs: dict[str, Any], **options: object) -> xr.Dataset:
    storage = {"fo": refs, "asynchronous": True, "remote_options": {"asynchronous": True}}
    settings = {"storage_options": storage, "consolidated": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", zarr.errors.UnstableSpecificationWarning)
        return xr.open_dataset("reference://", engine="zarr", backend_kwargs=settings, **options)


def by_virtualizarr(path: Path, left_out: tuple[str, ...] = ()) -> xr.Dataset:
    parser = parsers.KerchunkJSONParser(skip_variables=left_out)
    store = parser(f"file://{path}", registry.ObjectStoreRegistry({"file://": LocalStore()}))
    return xr.open_zarr(store, consolidated=False, zarr_format=3, mask_and_scale=False)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.filterwarnings("ignore:.*Numcodecs:UserWarning")
def test_every_kind_of_array(tmp_path: Path, zarr_format: int) -> None:
    write_all_kinds(tmp_path / "kinds.asdf")
    refs = references(tmp_path / "kinds.asdf", zarr_format=zarr_format)
    reasons = {
        "its elements do not lie together",
        "its elements are records",
        "its elements are in the text of the tree",
        "its name has a slash",
    }
    assert set(refs["left_out"].values()) == reasons
    expected = xr.open_dataset(tmp_path / "kinds.asdf", engine="asdffs", mask_and_scale=False)
    found = by_fsspec(refs, mask_and_scale=False)
    masked = by_fsspec(refs)
    assert len(found.variables) + len(refs["left_out"]) > 60
    for name, array in found.variables.items():
        assert array.dims == expected[name].dims
        assert array.dtype.kind == expected[name].dtype.kind
        assert np.array_equal(array.values, expected[name].values), name
    ours = xr.open_dataset(tmp_path / "kinds.asdf", engine="asdffs")
    assert np.isnan(masked["masked_by_value"]).sum() == 1
    assert np.array_equal(masked["masked_by_value"], ours["masked_by_value"], equal_nan=True)
    assert np.array_equal(found["masked_by_array.mask"], [False, True] * 5)


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning", "ignore:.*Numcodecs:UserWarning")
def test_virtualizarr(tmp_path: Path) -> None:
    write_all_kinds(tmp_path / "kinds.asdf")
    write_fits(tmp_path / "cal.fits")
    for name in ("kinds.asdf", "cal.fits"):
        (tmp_path / "refs.json").write_text(json.dumps(references(tmp_path / name)))
        # it reads no array without axes, and before version 2.7 none that is compressed
        found = by_virtualizarr(tmp_path / "refs.json", ("rank0", "packed"))
        expected = xr.open_dataset(tmp_path / name, engine="asdffs", mask_and_scale=False)
        assert len(found.variables) > 2
        for variable, array in found.variables.items():
            assert np.array_equal(array.values, expected[variable].values), variable


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.filterwarnings("ignore:.*Numcodecs:UserWarning")
def test_arrays_of_jwst(tmp_path: Path, zarr_format: int) -> None:
    write_fits(tmp_path / "cal.fits")
    refs = references(tmp_path / "cal.fits", zarr_format=zarr_format)
    found = by_fsspec(refs)
    for name, expected in (("data", DATA), ("second", SECOND), ("dq", DQ)):
        assert np.array_equal(found[name], expected), name
    assert found["dq"].dtype == np.uint32
    assert refs["left_out"] == {"spectrum": "its elements are records"}
    assert found.attrs["meta.exposure.time"] == 107.5


def test_the_files_are_noted_and_checked(tmp_path: Path) -> None:
    environment = environment_in(tmp_path)
    asdf.AsdfFile({"a": np.arange(5), "b": np.arange(3)}).write_to(tmp_path / "x.asdf", all_array_storage="external")
    refs = tmp_path / "refs.json"
    done = command("refs", tmp_path / "x.asdf", "-o", refs, environment=environment)
    assert (done.code, done.out) == (0, f"{refs}: 2 arrays of 1 file\n")
    noted = by_fsspec(json.loads(refs.read_text())).attrs["asdffs_files"]
    names = ["x.asdf", "x0000.asdf", "x0001.asdf"]
    assert sorted(file["url"] for file in noted) == [f"file://{tmp_path}/{name}" for name in names]
    size, mtime = (tmp_path / "x.asdf").stat().st_size, (tmp_path / "x.asdf").stat().st_mtime_ns
    assert {"url": f"file://{tmp_path}/x.asdf", "size": size, "mtime_ns": mtime} in noted
    done = command("refs", "--check", refs, environment=environment)
    assert (done.code, done.out) == (0, f"{refs}: all files are as they were\n")
    os.utime(tmp_path / "x0001.asdf")
    (tmp_path / "x0000.asdf").unlink()
    done = command("refs", "--check", refs, environment=environment)
    assert done.code == 1
    assert f"refs.json: file://{tmp_path}/x0001.asdf: was changed: another mtime_ns" in done.out
    assert f"refs.json: file://{tmp_path}/x0000.asdf: cannot be opened" in done.out


def test_several_files_are_stacked(tmp_path: Path) -> None:
    for number in range(3):
        meta = {"telescope": "ROMAN", "number": number}
        tree = {"roman": {"meta": meta, "data": CUBE + number, "odd": np.zeros(number + 1), "same": np.arange(4)}}
        tree["roman"] |= {"more": np.zeros(2)} if number else {}
        asdf.AsdfFile(tree).write_to(tmp_path / f"{number}.asdf")
    paths = [tmp_path / f"{number}.asdf" for number in range(3)]
    for zarr_format in (2, 3):
        refs = references(*paths, zarr_format=zarr_format)
        found = by_fsspec(refs)
        assert {name: one.dims for name, one in found.variables.items()} == {
            "data": ("file", "resultant", "y", "x"),
            "same": ("file", "dim_1"),
        }
        assert np.array_equal(found["data"], np.stack([CUBE + number for number in range(3)]))
        assert "meta.number" not in found.attrs
        assert found.attrs["meta.telescope"] == "ROMAN"
        assert [file["url"] for file in found.attrs["asdffs_files"]] == [f"file://{path}" for path in paths]
        assert refs["left_out"] == {
            "odd": f"{paths[1]} has none like that of {paths[0]}",
            "more": f"{paths[0]} has none like that of {paths[1]}",
        }


def test_over_http_and_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_files, "LARGEST", 5000)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    asdf.AsdfFile({"data": CUBE}).write_to(tmp_path / "a.asdf")
    with WebServer().running() as server:
        url = server.put("/a.asdf", (tmp_path / "a.asdf").read_bytes())
        refs = references(url)
        places = [place for key, place in refs["refs"].items() if key.startswith("data/") and "/." not in key]
        assert len(places) == 12
        assert {place[2] for place in places} == {CUBE[0].nbytes}
        assert np.array_equal(by_fsspec(refs)["data"][5:7], CUBE[5:7])
        assert by_fsspec(refs).attrs["asdffs_files"][0]["etag"].startswith('"')
        with pytest.raises(AsdffsError, match="keep no URL with a query"):
            references(f"{url}?sig=secret")


def test_missing_elements_that_zarr_cannot_state(tmp_path: Path) -> None:
    place = "source: 0, byteorder: little, shape: [4]"
    body = "".join(
        f"{name}: !core/ndarray-1.1.0 {{{place}, datatype: {datatype}, mask: {mask}}}\n"
        for name, datatype, mask in (
            ("near", "float32", "7.5"),
            ("nan", "float32", ".nan"),
            ("exact", "int32", "0"),
            ("outside", "uint8", "300"),
        )
    )
    (tmp_path / "a.asdf").write_bytes(tree_file(body, [block_bytes(np.array([0, 7.5, np.nan, 1], "<f4").tobytes())]))
    for zarr_format in (2, 3):
        refs = references(tmp_path / "a.asdf", zarr_format=zarr_format)
        reason = "its missing elements are those close to 7.5, which Zarr cannot say"
        assert refs["left_out"] == {"near": reason}
        ours = xr.open_dataset(tmp_path / "a.asdf", engine="asdffs")
        found = by_fsspec(refs)
        for name in ("nan", "exact", "outside"):
            assert np.array_equal(found[name], ours[name], equal_nan=True), name


def test_the_command(tmp_path: Path) -> None:
    environment = environment_in(tmp_path)
    asdf.AsdfFile({"roman": {"a": CUBE, "n": 1}, "b": np.arange(3)}).write_to(tmp_path / "a.asdf")
    done = command("refs", tmp_path / "a.asdf", "--group", "roman", "--zarr-format", 3, environment=environment)
    found = by_fsspec(json.loads(done.out))
    assert {*found} == {"a"}
    assert found.attrs["n"] == 1
    asdf.AsdfFile({"a": np.zeros(9, [("x", "i4")])}).write_to(tmp_path / "z.asdf")
    done = command("refs", tmp_path / "z.asdf", "-o", tmp_path / "z.json", environment=environment)
    assert (done.code, done.out) == (1, f"{tmp_path}/z.json: 0 arrays of 1 file; 1 left out\n")
    assert "a is left out: its elements are records" in done.err
    assert command("refs", tmp_path / "none.asdf", environment=environment).code == 3
    for odd in ('{"refs": {"zarr.json": "[]"}}', "[" * 100_000, "9" * 5000):
        (tmp_path / "odd.json").write_text(odd)
        assert command("refs", "--check", tmp_path / "odd.json", environment=environment).code == 4


# -- the grid ------------------------------------------------------------------------------


def strided(chance: np.random.Generator) -> np.ndarray:
    """A view with any strides of an array whose elements are all different."""
    shape = tuple(int(length) for length in chance.integers(1, 7, chance.integers(0, 5)))
    order = "CF"[int(chance.integers(2))]
    values = np.arange(math.prod(shape), dtype="<i4").reshape(shape, order=order)
    for axis in range(values.ndim):
        step = int(chance.choice([1, 1, 1, 2, -1]))
        values = values[(*[slice(None)] * axis, slice(None, None, step))]
    return values.transpose(chance.permutation(values.ndim)) if chance.random() < 0.3 else values


@given(st.integers(0, 10**9), st.sampled_from([4, 16, 100, 1 << 20]))
def test_chunks_are_contiguous_and_cover_the_array(seed: int, largest: int) -> None:
    values = strided(np.random.default_rng(seed))
    base = values
    while base.base is not None:
        base = base.base
    raw = base.ravel(order="K")
    start = values.__array_interface__["data"][0] - raw.__array_interface__["data"][0]
    before, reference_files.LARGEST = reference_files.LARGEST, largest
    try:
        cut = grid_of(values.shape, values.strides, 4)
    except NotPermittedError:
        assert all(stride != 4 for stride, length in zip(values.strides, values.shape, strict=True) if length > 1)
        return
    finally:
        reference_files.LARGEST = before
    found = np.full(values.shape, -1)
    for index, offset, length in cut.chunks():
        assert length == 4 * math.prod(cut.chunk)
        first = (start + offset) // 4
        chunk = raw[first : first + math.prod(cut.chunk)].reshape(cut.chunk)
        where = tuple(slice(n * part, (n + 1) * part) for n, part in zip(index, cut.chunk, strict=True))
        found[where] = chunk
    assert np.array_equal(found, values)
    assert all(length % part == 0 for length, part in zip(cut.shape, cut.chunk, strict=True))


def test_large_arrays_are_cut_evenly() -> None:
    assert grid_of((4088, 4088), (16352, 4), 4).chunk == (1022, 4088)
    assert grid_of((8, 4096, 4096), (67108864, 16384, 4), 4).chunk == (1, 1024, 4096)
    assert grid_of((4088, 4088), (4, 16352), 4).chunk == (4088, 1)
    prime = 10_000_019
    assert grid_of((prime,), (8,), 8).chunk == (prime,)
    with pytest.raises(NotPermittedError, match="it lies in 500000 places"):
        grid_of((500_000, 3), (24, 4), 4)


def test_one_array_that_zarr_cannot_have_does_not_stop_the_others(tmp_path: Path) -> None:
    place = "source: 0, byteorder: little, shape: [3]"
    body = f"a: !core/ndarray-1.1.0 {{{place}, datatype: [ascii, 0]}}\n"
    body += f"b: !core/ndarray-1.1.0 {{{place}, datatype: int8}}\n"
    (tmp_path / "a.asdf").write_bytes(tree_file(body, [block_bytes(bytes([1, 2, 3]))]))
    refs = references(tmp_path / "a.asdf")
    assert refs["left_out"] == {"a": "its elements have no bytes"}
    assert by_fsspec(refs)["b"].values.tolist() == [1, 2, 3]


def test_names_that_zarr_would_split(tmp_path: Path) -> None:
    tree = {"a/b": np.arange(3), "a\\b": np.arange(3), "plain": np.arange(3)}
    asdf.AsdfFile(tree).write_to(tmp_path / "a.asdf")
    refs = references(tmp_path / "a.asdf")
    assert refs["left_out"] == {"a%2Fb": "its name has a slash", "a\\b": "its name has a backslash"}
    assert [*by_fsspec(refs).variables] == ["plain"]


def test_what_means_something_else_is_not_stacked(tmp_path: Path) -> None:
    """Numbers of another unit, and those of which one file has a mask: no code runs that could tell them apart."""
    trees = [
        {"x": np.arange(3.0) * units.m, "same": np.arange(3.0) * units.m, "bare": np.arange(3.0) * units.m},
        {"x": np.arange(3.0) * units.km, "same": np.arange(3.0) * units.m, "bare": np.arange(3.0)},
    ]
    trees[0]["masked"] = np.ma.masked_array(np.arange(3.0), [True, False, False])
    trees[1]["masked"] = np.arange(3.0)
    paths = [tmp_path / "a.asdf", tmp_path / "b.asdf"]
    for path, tree in zip(paths, trees, strict=True):
        asdf.AsdfFile(tree).write_to(path)
    files = []
    for path in paths:
        with asdffs.open(path) as document:
            files.append(arrays_of(document))
    found = make_references(files, FORMATS[2])
    assert found.arrays == ["same"]
    assert found.left_out["x"] == f"its unit is km in {paths[1]}, and m in {paths[0]}; references convert nothing"
    assert (
        found.left_out["bare"] == f"its unit is none in {paths[1]}, and m in {paths[0]}; references convert nothing"
    )
    assert found.left_out["masked"] == f"it has a mask in {paths[0]}, and not in all files"
