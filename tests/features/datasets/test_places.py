"""Variables of arrays that are reached in other ways than by their own path, and whose names or masks are unusual."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from pathlib import Path
from typing import Any

import asdf
import astropy.units
import numpy as np
import pytest
import xarray as xr
from support.arrays import tree_file
from support.mounts import LIMIT
from support.samples import block_bytes

import asdffs
from asdffs.document.arrays import reference
from asdffs.errors import AsdffsError
from asdffs.features.datasets import variables

pytestmark = pytest.mark.long

VALUES = np.arange(12, dtype="<i2").reshape(3, 4)
ARRAY = "!core/ndarray-1.1.0 {source: 0, datatype: int16, byteorder: little, shape: [3, 4]"


def written(path: Path, body: str, *more: bytes) -> Path:
    path.write_bytes(tree_file(body, [block_bytes(VALUES.tobytes()), *map(block_bytes, more)]))
    return path


def opened(path: Path, **options: object) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return xr.open_dataset(path, engine="asdffs", **options)


def mask_of(shape: str, source: int = 1) -> str:
    return f"!core/ndarray-1.1.0 {{source: {source}, datatype: bool8, byteorder: big, shape: {shape}}}"


def test_aliases_and_references(tmp_path: Path) -> None:
    body = (
        f"own: &one\n  deep: {ARRAY}}}\n  note: text\nsame: *one\nlist: [*one]\nmerged: {{<<: *one, more: 1}}\n"
        "pointed: {$ref: '#/own/deep'}\nbelow: {x: {$ref: '#/own'}}\nnowhere: {$ref: '#/own/none'}\n"
    )
    path = written(tmp_path / "a.asdf", body)
    found = opened(path)
    names = ["own.deep", "same.deep", "list[0].deep", "merged.deep", "pointed", "below.x.deep"]
    assert [*found] == names
    for name in names:
        assert np.array_equal(found[name], VALUES), name
        assert np.array_equal(found[name][::-1, [3, 0]], VALUES[::-1, [3, 0]]), name
    for group in ("same", "merged", "below/x", "list/0"):
        assert [*opened(path, group=group)] == ["deep"]
        assert opened(path, group=group).attrs == {"note": "text"} | ({"more": 1} if group == "merged" else {})
    with pytest.raises(AsdffsError, match="no group 'pointed' with arrays"):
        opened(path, group="pointed")


def test_references_to_other_files(tmp_path: Path) -> None:
    written(tmp_path / "other.asdf", f"inner: {{a: {ARRAY}}}, unit: m}}\n")
    path = written(tmp_path / "first.asdf", "x: {$ref: 'other.asdf#/inner'}\n")
    found = opened(path)
    assert [*found] == ["x.a"]
    assert np.array_equal(found["x.a"], VALUES)
    assert [*opened(path, group="x")] == ["a"]
    assert opened(path, group="x").attrs == {"unit": "m"}
    lost = written(tmp_path / "lost.asdf", f"a: {ARRAY}}}\nb: {{$ref: 'none.asdf#/a'}}\n")
    with pytest.warns(UserWarning, match="lost.asdf: b is left out: 'none.asdf' cannot be read"):
        assert [*xr.open_dataset(lost, engine="asdffs")] == ["a"]


def test_files_that_refer_to_each_other(tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        written(tmp_path / f"{name}.asdf", f"own: {ARRAY}}}\nother: {{$ref: '{other}.asdf#/'}}\n")
        written(tmp_path / f"{name}.asdf", f"top:\n  own: {ARRAY}}}\n  other: {{$ref: '{other}.asdf#/top'}}\n")
    with pytest.warns(UserWarning, match="the two files refer to each other"):
        found = xr.open_dataset(tmp_path / "a.asdf", engine="asdffs")
    assert [*found][:2] == ["own", "other.own"]
    assert np.array_equal(found["other.own"], VALUES)


def test_aliases_of_aliases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They double the places forty times; the limit itself is reached in a few seconds, so it is lower here."""
    monkeypatch.setattr(variables, "PLACES", 3_000)
    lines = [f"l0: &l0 {{a: {ARRAY}}}, b: 1}}"]
    lines += [f"l{number}: &l{number} [*l{number - 1}, *l{number - 1}]" for number in range(1, 40)]
    path = written(tmp_path / "a.asdf", "\n".join(lines) + "\n")
    with pytest.raises(AsdffsError, match="aliases and references lead to more than 3,000 places"):
        opened(path)


@pytest.mark.parametrize("shape", [[3, 4], [4], [1, 4], [3, 1], [1, 1], [1], []])
@pytest.mark.parametrize("alias", [False, True])
def test_masks_are_broadcast(tmp_path: Path, shape: list[int], alias: bool) -> None:
    mask = np.arange(int(np.prod(shape))) % 3 == 0
    mask = mask.reshape(shape)
    anchored = f"shared: &m {mask_of(str(shape))}\n" if alias else ""
    body = f"{anchored}a: {ARRAY}, mask: {'*m' if alias else mask_of(str(shape))}}}\n"
    path = written(tmp_path / "a.asdf", body, mask.tobytes())
    expected = np.where(mask, np.nan, VALUES)
    found = opened(path)
    assert [*found] == (["shared", "a"] if alias else ["a"])
    for key in (np.s_[:], np.s_[1], np.s_[:, 2], np.s_[2, 3], np.s_[::-2, 1:], np.s_[[0, 2], 1], np.s_[:, [3, 3]]):
        assert np.array_equal(found["a"][key].values, expected[key], equal_nan=True), key
    plain = opened(path, mask_and_scale=False)
    assert np.array_equal(plain["a"], VALUES)
    assert np.array_equal(plain["a.mask"], mask)


@pytest.mark.parametrize(
    ("mask", "reason"),
    [
        (mask_of("[3]"), r"its mask has the shape \[3\], which does not fit \[3, 4\], so no element is masked"),
        (mask_of("[1, 3, 4]"), "a/mask is left out: its mask has the shape"),
        (mask_of("[9]", 7), "a/mask is left out: its source is 7, .* so no element is masked"),
        ("!core/ndarray-1.1.0 [1.5, 2, 3, 4]", "a/mask is left out: its elements are float64, not bool8"),
        ("'3'", "a/mask is left out: its elements cannot be compared with the mask '3', so no element is masked"),
        ("{$ref: '#/other'}", "a/mask is left out"),
    ],
)
def test_a_mask_that_cannot_be_applied_is_told(tmp_path: Path, mask: str, reason: str) -> None:
    path = written(tmp_path / "a.asdf", f"a: {ARRAY}, mask: {mask}}}\n", bytes(12))
    with pytest.warns(UserWarning, match=reason):
        found = xr.open_dataset(path, engine="asdffs")
    assert np.array_equal(found["a"], VALUES)


@pytest.mark.parametrize("mask", ["300000", "-99999", "1.0e+300"])
def test_a_value_that_no_element_can_have_masks_nothing(tmp_path: Path, mask: str) -> None:
    path = written(tmp_path / "a.asdf", f"a: {ARRAY}, mask: {mask}}}\n")
    assert np.array_equal(opened(path)["a"], VALUES)
    with asdffs.open(path) as document:
        assert not document.arrays["a/mask"][...].any()


@pytest.mark.parametrize(
    ("mask", "datatype", "values"),
    [
        ("1.0e+300", "float16", np.array([np.inf, 1, -np.inf], "<f2")),
        ("-1.0e+300", "float32", np.array([-np.inf, 1, np.nan], "<f4")),
        (str(10**400), "float64", np.array([np.inf, 1, 2], "<f8")),
        (str(2**70), "bool8", np.array([True, False, True])),
        ("''", "[ascii, 0]", np.zeros(3, "S0")),
    ],
)
def test_a_value_beyond_the_datatype_masks_nothing(tmp_path: Path, mask: str, datatype: str, values: Any) -> None:
    fields = f"source: 0, datatype: {datatype}, byteorder: little, shape: [3], mask: {mask}"
    path = written(tmp_path / "a.asdf", f"a: !core/ndarray-1.1.0 {{{fields}}}\n", values.tobytes())
    with asdffs.open(path) as document:
        assert document.arrays["a/mask"][...].tolist() == [False] * 3


def test_the_mask_of_a_selection_reads_the_selection(tmp_path: Path) -> None:
    path = written(tmp_path / "a.asdf", f"a: {ARRAY}, mask: 6}}\n")
    with asdffs.open(path) as document:
        mask = document.arrays["a/mask"]
        assert (mask[1, 2], mask[0, 2], mask[...].sum()) == (True, False, 1)
        assert np.array_equal(mask[::-1, 1:3], VALUES[::-1, 1:3] == 6)
    assert np.array_equal(opened(path)["a"][1], [4, 5, np.nan, 7], equal_nan=True)


def test_records_with_a_mask(tmp_path: Path) -> None:
    rows = np.zeros(3, [("a", "<i2"), ("mask", "<i2"), ("v", "<i2", (2,)), ("b.c", "<i2"), ("b", [("c", "<i2")])])
    for number, name in enumerate(("a", "mask", "v", "b.c")):
        rows[name] = number
    rows["b"]["c"] = 9
    datatype = ", ".join(
        f"{{name: {name}, datatype: {inner}, byteorder: little{more}}}"
        for name, inner, more in (
            ("a", "int16", ""),
            ("mask", "int16", ""),
            ("v", "int16", ", shape: [2]"),
            ("b.c", "int16", ""),
            ("b", "[{name: c, datatype: int16, byteorder: little}]", ""),
        )
    )
    body = (
        f"r: !core/ndarray-1.1.0 {{source: 1, datatype: [{datatype}], byteorder: big, shape: [3], "
        f"mask: {mask_of('[3]', 2)}}}\n"
    )
    path = written(tmp_path / "a.asdf", body, rows.tobytes(), bytes([0, 1, 0]))
    plain = opened(path, mask_and_scale=False)
    assert {*plain} == {"r.a", "r.mask", "r.v", 'r."b.c"', "r.b.c", "r.mask_2"}
    assert (plain["r.mask"].values.tolist(), plain['r."b.c"'].values.tolist()) == ([1, 1, 1], [3, 3, 3])
    assert (plain["r.b.c"].values.tolist(), plain["r.mask_2"].values.tolist()) == ([9] * 3, [False, True, False])
    found = opened(path)
    assert "r.mask_2" not in found
    assert np.array_equal(found["r.v"], [[2, 2], [np.nan, np.nan], [2, 2]], equal_nan=True)
    assert np.array_equal(found["r.v"][[2, 1], 0], [2, np.nan], equal_nan=True)
    assert np.array_equal(found["r.b.c"][::-1], [9, np.nan, 9], equal_nan=True)


def test_metadata_beside_a_lone_group_or_quantity(tmp_path: Path) -> None:
    quantity = np.ones((2, 3)) * astropy.units.Unit("DN / s")
    for tree, names, attributes in (
        ({"data": quantity, "n": 4}, ["data"], {"n": 4}),
        ({"data": quantity}, ["data"], {}),
        ({"roman": {"data": quantity, "meta": {"n": 1}}}, ["data"], {"meta.n": 1}),
        ({"images": {"a": VALUES, "b": VALUES}, "n": 4}, ["images.a", "images.b"], {"n": 4}),
        ({"roman": {"t": {"columns": [VALUES]}}}, ["t.columns[0]"], {}),
    ):
        asdf.AsdfFile(tree).write_to(tmp_path / "a.asdf")
        found = opened(tmp_path / "a.asdf")
        assert [*found] == names
        assert found.attrs == attributes
    asdf.AsdfFile({"data": quantity, "n": 4}).write_to(tmp_path / "a.asdf")
    assert opened(tmp_path / "a.asdf")["data"].attrs == {"units": "DN / s"}
    assert opened(tmp_path / "a.asdf", group="data")["value"].attrs == {"units": "DN / s"}


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_another_thread_opens_a_file(tmp_path: Path) -> None:
    path = written(tmp_path / "a.asdf", f"a: {ARRAY}}}\n")
    with asdffs.open(path) as document:
        array = document.arrays["a"].reference()
    assert array[1, 2] == 6
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with reference.open_files._lock:
            held.set()
            done.wait(LIMIT)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(LIMIT)
    child = os.fork()
    if not child:
        signal.alarm(LIMIT)  # ends the child if it waits for ever
        os._exit(0 if np.array_equal(array[...], VALUES) else 1)
    _, status = os.waitpid(child, 0)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0
