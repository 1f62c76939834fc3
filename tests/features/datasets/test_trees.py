"""Trees of datasets, and netCDF files of them."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import asdf
import numpy as np
import pytest
import xarray as xr
from astropy.table import MaskedColumn, Table

pytestmark = pytest.mark.long
META = {
    "truncated": False,
    "flags": [True, False],
    "nothing": None,
    "nested": [[1, 2], [3, 4]],
    "mixed": [1, "a"],
    "day": datetime.date(2026, 1, 2),
    "large": 2**62,
    "text": "Å",
    "empty": "",
    "nan": float("nan"),
    "a key": {"deeper": 1},
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    table = Table({"n": MaskedColumn([1, 2], mask=[True, False]), "s": MaskedColumn(["a", "b"], mask=[True, False])})
    roman = {"meta": META, "data": np.arange(12, dtype="f4").reshape(3, 4), "more": {"deep": {"x": np.arange(3)}}}
    asdf.AsdfFile({"roman": roman, "t": table, "b": np.array([True, False])}).write_to(tmp_path / "a.asdf")
    return tmp_path / "a.asdf"


def test_a_tree_is_a_tree(path: Path) -> None:
    tree = xr.open_datatree(path, engine="asdffs")
    assert set(tree.groups) == {"/", "/roman", "/roman/more", "/roman/more/deep", "/t"}
    assert tree["/roman/more/deep/x"].values.tolist() == [0, 1, 2]
    assert np.array_equal(tree["/roman/data"].values, np.arange(12).reshape(3, 4))
    assert tree["/b"].values.tolist() == [True, False]
    assert tree["/roman"].attrs["meta.text"] == "Å"
    assert np.isnan(tree["/t/n"].values[0])
    assert tree["/t/s.mask"].values.tolist() == [True, False]
    assert tree["/"].attrs == {}


def test_groups_have_what_a_dataset_has(path: Path) -> None:
    """Every variable and attribute of the whole is in one group, and no other is."""
    whole = xr.open_dataset(path, engine="asdffs", group="")
    groups = xr.open_groups(path, engine="asdffs")
    assert sum(len(group.variables) for group in groups.values()) == len(whole.variables)
    found: dict[str, Any] = {}
    for name, group in groups.items():
        above = name.strip("/").replace("/", ".")
        found |= {f"{above}.{key}" if above else key: value for key, value in group.attrs.items()}
    assert {*found} == {*whole.attrs}


def test_a_group_of_the_tree(path: Path) -> None:
    groups = xr.open_groups(path, engine="asdffs", group="roman")
    assert set(groups) == {"/", "/more", "/more/deep"}


@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4"])
def test_netcdf_files(path: Path, engine: str) -> None:
    """Nulls are left out, booleans are 0 and 1, dates are texts."""
    dataset = xr.open_dataset(path, engine="asdffs", group="roman")
    dataset.to_netcdf(path.with_suffix(".nc"), engine=engine)
    with xr.open_dataset(path.with_suffix(".nc"), engine=engine) as found:
        assert np.array_equal(found["data"], dataset["data"])
        assert {*found.attrs} == {*dataset.attrs}
        assert found.attrs["meta.truncated"] == 0
        assert found.attrs["meta.day"] == "2026-01-02"
        assert found.attrs["meta.large"] == 2**62
        assert [*found.attrs["meta.nested[1]"]] == [3, 4]
        assert "meta.nothing" not in found.attrs
    tree = xr.open_datatree(path, engine="asdffs")
    tree.to_netcdf(path.with_suffix(".tree.nc"), engine=engine)
    with xr.open_datatree(path.with_suffix(".tree.nc"), engine=engine) as again:
        assert set(again.groups) == set(tree.groups)
        assert again["/t/s"].values.tolist() == ["a", "b"]


def test_keys_with_a_slash(tmp_path: Path) -> None:
    """They are no other mapping than that with this key; names are as in a mount."""
    tree = {"a/b": {"x": np.zeros(2)}, "a": {"b": {"x": np.ones(3)}, "c/d": np.arange(4)}}
    asdf.AsdfFile(tree).write_to(tmp_path / "a.asdf")
    found = xr.open_datatree(tmp_path / "a.asdf", engine="asdffs")
    assert found["/a%2Fb/x"].values.tolist() == [0, 0]
    assert found["/a/b/x"].values.tolist() == [1, 1, 1]
    assert found["/a"].dataset['"c%2Fd"'].values.tolist() == [0, 1, 2, 3]
