"""``xarray.open_dataset(..., engine="asdffs")`` against the asdf library and numpy."""

from __future__ import annotations

import multiprocessing
import pickle
import warnings
from pathlib import Path

import asdf
import astropy.table
import astropy.units
import numpy as np
import pytest
import xarray as xr
from support.arrays import read_by_asdf, tree_file, write_all_kinds
from support.fits_files import DATA, DQ, SECOND, SPECTRUM, write_fits
from support.samples import block_bytes
from support.zarr_files import Zarr, zarr_file

import asdffs
from asdffs.errors import AsdffsError

pytestmark = pytest.mark.long

CUBE = np.random.default_rng(3).normal(size=(12, 30, 40)).astype(">f4")


def opened(path: Path, **options: object) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return xr.open_dataset(path, engine="asdffs", **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    tree = {"roman": {"meta": {"telescope": "ROMAN", "exposure": {"time": 107.5}}, "data": CUBE, "err": CUBE[0] + 1}}
    asdf.AsdfFile(tree).write_to(tmp_path / "l2.asdf")
    return tmp_path / "l2.asdf"


def test_variables_axes_and_attributes(path: Path) -> None:
    found = xr.open_dataset(path)  # the ending tells the engine
    assert {name: one.dims for name, one in found.variables.items()} == {
        "data": ("resultant", "y", "x"),
        "err": ("y", "x"),
    }
    assert found.attrs == {"meta.telescope": "ROMAN", "meta.exposure.time": 107.5}
    assert found["data"].dtype == np.dtype("=f4")
    assert np.array_equal(found["data"], CUBE)
    root = opened(path, group="/", axes={"roman.err": ("row", "column")})
    assert root["roman.err"].dims == ("row", "column")
    assert root.attrs["roman.meta.telescope"] == "ROMAN"
    assert [*opened(path, drop_variables="data")] == ["err"]


def test_nothing_is_read_before_it_is_needed(path: Path) -> None:
    found = opened(path)
    raw = bytearray(path.read_bytes())
    raw[-len(CUBE[0].tobytes()) :] = bytes(CUBE[0].nbytes)
    path.write_bytes(raw)
    with pytest.raises(AsdffsError, match="was changed since the array 'roman/err' was made lazy; open it again"):
        found["err"].load()
    assert opened(path)["err"].shape == (30, 40)


@pytest.mark.parametrize("compression", [None, "zlib", "lz4", "bzp2"])
@pytest.mark.parametrize("chunks", [None, {}, {"resultant": 5, "x": 7}])
def test_indexers(tmp_path: Path, compression: str | None, chunks: dict | None) -> None:
    tree = {"meta": {"telescope": "ROMAN"}, "data": CUBE, "turned": np.asfortranarray(CUBE)[:, ::2]}
    asdf.AsdfFile(tree).write_to(tmp_path / "a.asdf", all_array_compression=compression)
    found = opened(tmp_path / "a.asdf", chunks=chunks)
    for name, expected in (("data", CUBE), ("turned", CUBE[:, ::2])):
        array = found[name]
        resultant, y, x = array.dims
        points = {resultant: xr.DataArray([0, 3, 11], dims="p"), x: xr.DataArray([5, 5, 39], dims="p")}
        for selected, by_numpy in (
            (array, expected),
            (array[3], expected[3]),
            (array[3, 4, 5], expected[3, 4, 5]),
            (array[1:9:3, ::-1, -5:], expected[1:9:3, ::-1, -5:]),
            (array[::-2], expected[::-2]),
            (array[:0], expected[:0]),
            (array.isel({resultant: [7, 0, 7], x: [39, 0]}), expected[[7, 0, 7]][..., [39, 0]]),
            (array.isel({y: [1], resultant: -1}), expected[-1, [1]]),
            (array.isel({resultant: np.arange(12) % 2 == 0}), expected[::2]),
            (array.isel(points), expected[[0, 3, 11], :, [5, 5, 39]]),
            (array[2:][::-1][1:, 3], expected[2:][::-1][1:, 3]),
            (array.isel({x: slice(30, 4, -3)}).T, expected[..., 30:4:-3].T),
            (pickle.loads(pickle.dumps(array))[4], expected[4]),
        ):
            assert np.array_equal(selected.values, by_numpy)
        assert np.allclose(array.mean([y, x]), expected.mean((1, 2)), atol=1e-6)


def test_every_kind_of_array(tmp_path: Path) -> None:
    write_all_kinds(tmp_path / "kinds.asdf")
    by_asdf = {".".join(map(str, place)): value for place, value in read_by_asdf(tmp_path / "kinds.asdf").items()}
    found = opened(tmp_path / "kinds.asdf", mask_and_scale=False)
    lazy = opened(tmp_path / "kinds.asdf", mask_and_scale=False, chunks={})
    assert found.sizes
    compared = 0
    for name, array in found.variables.items():
        plain = str(name).replace('"', "").replace("[", ".").replace("]", "").replace("..", ".")
        fields = str(name).removeprefix("records.") if str(name).startswith("records.") else ""
        expected = by_asdf["records"][fields.strip('"')] if fields else by_asdf[plain.replace(".mask", ".mask")]
        assert array.shape == expected.shape, name
        assert array.dtype == expected.dtype.newbyteorder("="), name
        assert np.array_equal(array.values, expected, equal_nan=array.dtype.kind == "f"), name
        assert np.array_equal(lazy[name].values, expected, equal_nan=array.dtype.kind == "f"), name
        compared += 1
    assert compared > 55
    assert {"alias.deep[0]", "reference"} <= {*found.variables}


def test_missing_elements_are_nan(tmp_path: Path) -> None:
    write_all_kinds(tmp_path / "kinds.asdf")
    found = opened(tmp_path / "kinds.asdf")
    values = np.arange(120).reshape(4, 30) - 60.0
    assert found["masked_by_value"].dtype == np.float32
    assert np.array_equal(found["masked_by_value"], np.where(values == 7, np.nan, values), equal_nan=True)
    assert np.array_equal(found["masked_by_array"][::-3], [np.nan, -54, np.nan, -60], equal_nan=True)
    assert not [name for name in found if str(name).endswith(".mask")]


def test_quantities_tables_and_records(tmp_path: Path) -> None:
    table = astropy.table.QTable({"flux": np.arange(4.0) * astropy.units.Jy, "name": ["a", "b", "c", "d"]})
    tree = {"data": np.ones((2, 3)) * astropy.units.Unit("DN / s"), "catalog": table, "n": 4}
    asdf.AsdfFile(tree).write_to(tmp_path / "a.asdf")
    found = opened(tmp_path / "a.asdf")
    assert {*found} == {"data", "catalog.flux", "catalog.name"}
    assert (found["data"].attrs, found["catalog.flux"].attrs["units"]) == ({"units": "DN / s"}, "Jy")
    assert found["catalog.name"].values.tolist() == ["a", "b", "c", "d"]
    assert found["catalog.flux"].dims == found["catalog.name"].dims
    assert "data.unit" not in found.attrs
    assert found.attrs["n"] == 4


@pytest.mark.parametrize("key", [np.s_[2], np.s_[1:5, 0], np.s_[::-1, 1, ::-1], np.s_[[3, 0], :, [1]]])
def test_fields_with_axes_of_their_own(tmp_path: Path, key: tuple) -> None:
    rows = np.zeros(6, [("v", ">i2", (2, 2)), ("deep", [("x", "<f8"), ("y", "S3", (3,))])])
    rows["v"], rows["deep"]["x"] = np.arange(24).reshape(6, 2, 2), np.arange(6) / 2
    rows["deep"]["y"] = np.arange(18).reshape(6, 3).astype("S3")
    datatype = (
        "[{name: v, datatype: int16, byteorder: big, shape: [2, 2]}, {name: deep, datatype: "
        "[{name: x, datatype: float64, byteorder: little}, {name: y, datatype: [ascii, 3], shape: [3]}]}]"
    )
    body = f"a: !core/ndarray-1.1.0 {{source: 0, datatype: {datatype}, byteorder: big, shape: [6]}}\n"
    (tmp_path / "a.asdf").write_bytes(tree_file(body, [block_bytes(rows.tobytes())]))
    found = opened(tmp_path / "a.asdf")
    assert {*found} == {"a.v", "a.deep.x", "a.deep.y"}
    assert np.array_equal(found["a.deep.y"], rows["deep"]["y"])
    assert np.array_equal(found["a.deep.x"][1::2], rows["deep"]["x"][1::2])
    expected = rows["v"]
    for axis, one in reversed([*enumerate(key if isinstance(key, tuple) else (key,))]):
        expected = expected[(*[slice(None)] * axis, one)]
    assert np.array_equal(found["a.v"][key], expected)


def test_arrays_of_jwst_and_of_zarr(tmp_path: Path) -> None:
    write_fits(tmp_path / "cal.fits")
    found = opened(tmp_path / "cal.fits")
    for name, expected in (("data", DATA), ("second", SECOND), ("dq", DQ), ("spectrum.order", SPECTRUM["order"])):
        assert np.array_equal(found[name], expected), name
    (tmp_path / "z.asdf").write_bytes(zarr_file(CUBE, Zarr((5, 16, 16), compressor={"id": "zlib", "level": 1})))
    found = opened(tmp_path / "z.asdf", chunks={})
    assert np.array_equal(found["z"][::5, [3, 20]], CUBE[::5, [3, 20]])
    assert found["z"].chunksizes["dim_0"] == (5, 5, 2)
    with asdffs.open(tmp_path / "z.asdf") as document:
        assert document.arrays["z"].chunks == (5, 16, 16)
        assert document.arrays["z"].to_dask(chunks=(5, 16, 16)).chunks[0] == (5, 5, 2)
        assert np.array_equal(document.arrays["z"].to_dask().compute(), CUBE)


def test_what_cannot_be_shown_is_told(tmp_path: Path) -> None:
    body = "good: !core/ndarray-1.1.0 [1, 2]\nbad: !core/ndarray-1.1.0 {source: 7, datatype: int8, shape: [3]}\n"
    (tmp_path / "a.asdf").write_bytes(tree_file(body, []))
    with pytest.warns(UserWarning, match="bad is left out: its source is 7, and the file has 0 blocks"):
        found = xr.open_dataset(tmp_path / "a.asdf", engine="asdffs")
    assert [*found] == ["good"]
    with pytest.raises(AsdffsError, match="there is no group 'nothing' with arrays"):
        opened(tmp_path / "a.asdf", group="nothing")
    with pytest.raises(AsdffsError, match="cannot be opened"):
        opened(tmp_path / "none.asdf")
    with open(tmp_path / "a.asdf", "rb") as file, pytest.raises(AsdffsError, match="give a path or a URL"):
        xr.open_dataset(file, engine="asdffs")


def test_many_files(tmp_path: Path) -> None:
    for number in range(5):
        tree = {"meta": {"telescope": "ROMAN", "number": number}, "data": CUBE[0] + number, "n": np.array([number])}
        asdf.AsdfFile(tree).write_to(
            tmp_path / f"{number}.asdf", all_array_compression="zlib" if number % 2 else None
        )
    files = sorted(map(str, tmp_path.glob("*.asdf")))
    stacked = xr.open_mfdataset(files, engine="asdffs", combine="nested", concat_dim="file", data_vars="all")
    assert stacked["data"].dims == ("file", "y", "x")
    assert np.array_equal(stacked["data"], np.stack([CUBE[0] + number for number in range(5)]))
    assert np.array_equal(
        stacked["data"].isel(file=[4, 1], x=slice(None, None, -1))[:, 3], stacked["data"][[4, 1], 3, ::-1]
    )
    assert stacked["n"].values.ravel().tolist() == list(range(5))
    assert float(stacked["data"].mean()) == pytest.approx(float(CUBE[0].mean()) + 2, abs=1e-5)


def _sum(array: xr.DataArray, answers: object) -> None:
    answers.put(float(array.sum()))


@pytest.mark.parametrize("method", ["spawn", "fork"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_other_processes(path: Path, method: str) -> None:
    context = multiprocessing.get_context(method)
    array = opened(path)["data"]
    first = float(array.sum())
    array = pickle.loads(pickle.dumps(opened(path)["data"]))
    answers = context.SimpleQueue()
    process = context.Process(target=_sum, args=(array, answers))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert answers.get() == first


def test_the_same_values_as_arrays_have(path: Path) -> None:
    with asdffs.open(path) as document:
        assert np.array_equal(opened(path)["err"], document.arrays["roman/err"])


def test_a_mask_of_integers(tmp_path: Path) -> None:
    mask = "!core/ndarray-1.1.0 {source: 1, datatype: uint8, byteorder: little, shape: [4]}"
    body = f"a: !core/ndarray-1.1.0 {{source: 0, datatype: int8, byteorder: little, shape: [4], mask: {mask}}}\n"
    blocks = [block_bytes(bytes([1, 2, 3, 4])), block_bytes(bytes([0, 1, 2, 0]))]
    (tmp_path / "a.asdf").write_bytes(tree_file(body, blocks))
    assert np.array_equal(opened(tmp_path / "a.asdf")["a"], [1, np.nan, np.nan, 4], equal_nan=True)
