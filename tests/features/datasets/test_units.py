"""Files with different units are combined in one unit, or refused."""

from __future__ import annotations

import pickle
from pathlib import Path

import asdf
import numpy as np
import pytest
from astropy import units as u

xr = pytest.importorskip("xarray", reason="opens the dataset")
VALUES = np.arange(12.0).reshape(3, 4)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "m.asdf", tmp_path / "km.asdf"]
    for path, values in zip(paths, (VALUES * 1000 * u.m, VALUES * u.km), strict=True):
        asdf.AsdfFile({"group": {"d": values, "n": np.arange(3)}}).write_to(path)
    return paths


def test_values_are_converted_when_they_are_read(files: list[Path]) -> None:
    with xr.open_dataset(files[0], engine="asdffs", units={"d": "km"}) as found:
        assert found["d"].attrs["units"] == "km"
        assert np.allclose(found["d"].values, VALUES)
        assert np.allclose(found["d"][1, ::2].values, VALUES[1, ::2])
        assert np.allclose(pickle.loads(pickle.dumps(found))["d"].values, VALUES)


def test_several_files(files: list[Path]) -> None:
    dask = pytest.importorskip("dask", reason="combines the files")
    options = {"engine": "asdffs", "combine": "nested", "concat_dim": "file"}
    with xr.open_mfdataset(files, units={"d": "m"}, **options) as found, dask.config.set(scheduler="synchronous"):
        assert np.allclose(found["d"].values, np.stack([VALUES * 1000] * 2))
        assert found["d"].attrs["units"] == "m"
    with pytest.raises(xr.MergeError):
        xr.open_mfdataset(files, combine_attrs="no_conflicts", **options)


def test_masked_integers_and_magnitudes(tmp_path: Path) -> None:
    masked = np.ma.masked_array(np.arange(4), [0, 1, 0, 0])
    tree = {"t": {"flux": {"value": 1}, "meta": {"bunit_data": "Jy"}, "data": masked}}
    asdf.AsdfFile(tree).write_to(tmp_path / "a.asdf")
    with xr.open_dataset(tmp_path / "a.asdf", engine="asdffs", group="t", units={"data": "mJy"}) as found:
        assert found["data"].values.tolist()[2:] == [2000, 3000]
        assert np.isnan(found["data"].values[1])
        assert found["data"].dtype == float


@pytest.mark.parametrize(
    ("units", "sentence"),
    [
        ({"d": "s"}, "units: d cannot be had in s: it is in m"),
        ({"d": "bananas"}, "units: d cannot be had in bananas: it is in m"),
        ({"n": "m"}, "units: n cannot be had in m: the file states no unit for it"),
        ({"x": "m"}, "units: there is no variable 'x'; there are d, n"),
    ],
)
def test_what_cannot_be_converted_is_refused(files: list[Path], units: dict[str, str], sentence: str) -> None:
    with pytest.raises(Exception, match=sentence):
        xr.open_dataset(files[0], engine="asdffs", units=units)
