"""Compressed arrays as chunks of Zarr: by references in JSON, by the parser for VirtualiZarr, and by Icechunk."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asdf
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from obstore.store import LocalStore, MemoryStore
from support.arrays import tree_file
from support.commands import command
from support.mounts import environment_in
from support.samples import compressed_block

import asdffs
from asdffs.codecs.lz4 import encode_part
from asdffs.document.opening import open_document
from asdffs.errors import AsdffsError
from asdffs.features.datasets.references import arrays_of, make_references
from asdffs.features.datasets.zarr_metadata import Zarr2, Zarr3
from asdffs.workflows.repacking import _even_rows

pytestmark = pytest.mark.long

zarr = pytest.importorskip("zarr", reason="zarr is not installed: pip install '.[test-zarr]'")
virtualizarr = pytest.importorskip("virtualizarr", reason="VirtualiZarr is not installed")
registries = pytest.importorskip("obspec_utils.registry", reason="VirtualiZarr is not installed")

CHANCE = np.random.default_rng(5)
ARRAYS = {
    "image": CHANCE.integers(0, 60, (1022, 128), "u2"),
    "cube": CHANCE.integers(0, 60, (6, 200, 30)).astype(">i4"),
    "short": CHANCE.integers(0, 9, (3001, 97), "i2"),  # no number of rows divides it
    "line": CHANCE.integers(0, 9, 100_000, "u4"),
    "flags": CHANCE.random((300, 400)) < 0.1,
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # codecs of numcodecs are not in the standard of Zarr 3
        warnings.simplefilter("ignore", zarr.errors.UnstableSpecificationWarning)
        yield


def night(tmp_path: Path, count: int = 1) -> list[Path]:
    """Files as the cloud profile stores them."""
    paths = []
    for number in range(count):
        path = tmp_path / f"{number}.asdf"
        tree = {"roman": {name: array + number if name == "image" else array for name, array in ARRAYS.items()}}
        asdf.AsdfFile(tree).write_to(path, all_array_compression="zlib")
        done = command(
            "repack", "--profile", "cloud", "--piece-size", "64K", path, environment=environment_in(tmp_path)
        )
        assert done.code == 0, done.err
        paths.append(path)
    return paths


def of_disk() -> Any:
    return registries.ObjectStoreRegistry({"file://": LocalStore()})


def parsed(path: Path) -> xr.Dataset:
    store = asdffs.AsdfParser()(f"file://{path}", of_disk())
    return xr.open_zarr(store, consolidated=False, zarr_format=3)


def by_fsspec(path: Path, zarr_format: int) -> tuple[xr.Dataset, dict[str, str]]:
    with asdffs.open(path) as document:
        made = make_references([arrays_of(document)], Zarr2() if zarr_format == 2 else Zarr3())
    storage = {
        "fo": json.loads(json.dumps(made.refs)),
        "asynchronous": True,
        "remote_options": {"asynchronous": True},
    }
    settings_ = {"storage_options": storage, "consolidated": False}
    return xr.open_dataset("reference://", engine="zarr", backend_kwargs=settings_), made.left_out


@pytest.mark.parametrize("compression", ["cloud", "zlib", "bzp2", "lz4", "zstd"])
def test_values_are_those_of_asdffs(tmp_path: Path, compression: str) -> None:
    (path,) = night(tmp_path)
    if compression != "cloud":
        options = ("--compression", compression, *(("--piece-size", "32K") if compression == "lz4" else ()))
        assert command("repack", *options, path, environment=environment_in(tmp_path)).code == 0
    expected = xr.open_dataset(path, engine="asdffs")
    names = {"image", "line"} if compression == "lz4" else set(ARRAYS)  # others are not cut into whole rows there
    ways = {"parser": parsed(path)} | {str(version): by_fsspec(path, version)[0] for version in (2, 3)}
    for way, found in ways.items():
        assert set(found.variables) == names, way
        for name, variable in found.variables.items():
            assert np.array_equal(variable.values, expected[name].values), (way, name)
            assert np.array_equal(variable[-1:].values, expected[name][-1:].values), (way, name)
    if compression == "cloud":
        assert ways["parser"]["image"].encoding["chunks"][0] in (511, 146)


def test_a_night_in_icechunk(tmp_path: Path) -> None:
    """Files become one versioned store, and a second commit adds one."""
    icechunk = pytest.importorskip("icechunk", reason="icechunk is not installed")
    paths = night(tmp_path, 3)

    def virtual(path: Path) -> xr.Dataset:
        found = virtualizarr.open_virtual_dataset(f"file://{path}", of_disk(), parser=asdffs.AsdfParser())
        return found.drop_attrs(deep=False).expand_dims("exposure")

    place = f"file://{tmp_path}/"
    config = icechunk.RepositoryConfig.default()
    config.set_virtual_chunk_container(
        icechunk.VirtualChunkContainer(place, store=icechunk.local_filesystem_store(str(tmp_path)))
    )
    trusted = icechunk.containers_credentials({place: None})
    storage = icechunk.local_filesystem_storage(str(tmp_path / "store"))
    repository = icechunk.Repository.create(storage, config, authorize_virtual_chunk_access=trusted)
    session = repository.writable_session("main")
    both = xr.concat([virtual(path) for path in paths[:2]], dim="exposure")
    both.vz.to_icechunk(session.store)
    first = session.commit("two exposures")
    session = repository.writable_session("main")
    virtual(paths[2]).vz.to_icechunk(session.store, append_dim="exposure")
    session.commit("one more")
    found = xr.open_zarr(repository.readonly_session("main").store, consolidated=False)
    assert found["image"].shape == (3, *ARRAYS["image"].shape)
    for number in range(3):
        for name, array in ARRAYS.items():
            assert np.array_equal(found[name][number], array + number if name == "image" else array), name
    before = xr.open_zarr(repository.readonly_session(snapshot_id=first).store, consolidated=False)
    assert before["image"].shape[0] == 2
    later = paths[0].stat().st_mtime_ns + 5_000_000_000
    os.utime(paths[0], ns=(later, later))  # another program changed it
    with pytest.raises(icechunk.IcechunkError, match="has changed"):
        found["image"][0].load()


def test_a_store_of_the_program(tmp_path: Path) -> None:
    """A file is read through the registry, with few requests, and what has no references is told."""
    (path,) = night(tmp_path)
    asked: list[str] = []

    class Counting(MemoryStore):
        def get_range(self, *arguments: Any, **named: Any) -> Any:
            asked.append("range")
            return super().get_range(*arguments, **named)

        def get_ranges(self, *arguments: Any, **named: Any) -> Any:
            asked.append("ranges")
            return super().get_ranges(*arguments, **named)

    store = Counting()
    store.put("night/0.asdf", path.read_bytes())
    registry = registries.ObjectStoreRegistry({"s3://roman": store})
    found = xr.open_zarr(asdffs.AsdfParser()("s3://roman/night/0.asdf", registry), consolidated=False, zarr_format=3)
    assert len(asked) < 20
    for name, array in ARRAYS.items():
        assert np.array_equal(found[name], array), name
    assert found.attrs["asdffs_files"][0]["url"] == "s3://roman/night/0.asdf"
    store.put("text.asdf", b"no ASDF file")
    with pytest.raises(AsdffsError, match="s3://roman/text.asdf"):
        asdffs.AsdfParser()("s3://roman/text.asdf", registry)


def test_a_file_without_references(tmp_path: Path) -> None:
    asdf.AsdfFile({"a": np.zeros(9, [("x", "i4")])}).write_to(tmp_path / "a.asdf")
    with pytest.raises(AsdffsError, match="no array that references can describe"):
        asdffs.AsdfParser()(f"file://{tmp_path}/a.asdf", of_disk())


# -- random layouts ------------------------------------------------------------------------


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_any_pieces_are_right_or_left_out(tmp_path: Path, data: st.DataObject) -> None:
    """An array anywhere in a block of any pieces has the right values, or a reason."""
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=0, max_size=3)))
    item = data.draw(st.sampled_from(["u1", "<i2", ">f8"]))
    values = np.arange(math.prod(shape)).reshape(shape).astype(item)
    before, after = data.draw(st.integers(0, 3)) * 8, data.draw(st.integers(0, 2)) * 8
    content = b"b" * before + values.tobytes() + b"a" * after
    lengths = data.draw(
        st.one_of(st.integers(1, 40).map(lambda n: [n] * 400), st.lists(st.integers(1, 40), min_size=1, max_size=9))
    )
    parts, place = [], 0
    for length in lengths:
        if place < len(content):
            parts.append(encode_part(content[place : place + length]))
            place += length
    parts += [encode_part(content[place:])] if place < len(content) else []
    kind = {"u1": "uint8", "<i2": "int16", ">f8": "float64"}[item]
    order = "big" if item[0] == ">" else "little"
    text = f"a: !core/ndarray-1.1.0 {{source: 0, datatype: {kind}, byteorder: {order}, shape: {list(shape)}"
    block = compressed_block(b"".join(parts), b"lz4\0", len(content))
    path = tmp_path / "a.asdf"
    path.write_bytes(tree_file(f"{text}, offset: {before}}}\n", [block]))
    found, left_out = by_fsspec(path, data.draw(st.sampled_from([2, 3])))
    if "a" in found:
        assert np.array_equal(found["a"].values, values)
    else:
        assert any(word in left_out["a"] for word in ("compressed piece", "other bytes"))
        even = len(set(map(len, parts[:-1]))) <= 1 and before == after == 0 and len(parts) == 1
        assert not even


def is_even(lengths: tuple[int, ...], rows: int) -> bool:
    """Whether all pieces of so many rows have the shape of a chunk, by trying each axis."""
    inner = [math.prod(lengths[axis + 1 :]) for axis in range(len(lengths))]
    return any(
        not rows % one and rows // one <= length and not length % (rows // one)
        for one, length in zip(inner, lengths, strict=True)
    )


@given(st.lists(st.integers(1, 300), min_size=1, max_size=3).map(tuple), st.integers(1, 1000))
def test_rows_of_a_piece(lengths: tuple[int, ...], wanted: int) -> None:
    """They divide the array evenly if any number near the wanted one does."""
    rows = _even_rows(lengths, wanted)
    if math.prod(lengths) <= wanted:
        assert rows == math.prod(lengths)
        return
    assert wanted <= 2 * rows <= 4 * wanted
    assert is_even(lengths, rows) == any(is_even(lengths, one) for one in range(-(-wanted // 2), 2 * wanted + 1))


def test_pieces_of_a_damaged_block(tmp_path: Path) -> None:
    """A length that is not possible is told, and nothing is returned for it."""
    part = encode_part(bytes(100))
    block = compressed_block(part + b"\xff\xff\xff\xff" + part[4:], b"lz4\0", 200)
    array = "a: !core/ndarray-1.1.0 {source: 0, datatype: uint8, byteorder: little, shape: [200]}\n"
    (tmp_path / "a.asdf").write_bytes(tree_file(array, [block]))
    document = open_document(str(tmp_path / "a.asdf"), writable=False)
    assert "too large" in arrays_of(document).left_out["a"]
    document.close()
