"""Arrays that are not shown are named, with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.mounts import asdffs, environment_in, mounted
from support.samples import odd_file

import asdffs as library
from asdffs.document.arrays.index import find_unshown

DKIST = """\
dataset: !<asdf://dkist.nso.edu/tags/dataset-1.2.0>
  data: !<asdf://dkist.nso.edu/tags/file_manager-1.0.0>
    fileuris: [[a.fits, b.fits], [c.fits]]
    target: 1
    datatype: float64
    shape: [1, 490, 1000]
"""
ZARR = """\
cube: !<asdf://stsci.edu/asdf-zarr/tags/zarr-1.0.0>
  .zarray: {chunks: [2, 2], compressor: null, dtype: <f4, fill_value: 0.0, order: C, shape: [4, 6], zarr_format: 2}
  store: {path: /somewhere, type_string: DirectoryStore}
"""
UNKNOWN = "odd: !<asdf://example.org/tags/ragged_array-1.0.0> {lengths: [1, 2, 3]}\n"
EXTERNAL = "far: !core/externalarray-1.0.0 {fileuri: x.fits, target: -1, datatype: int16, shape: [3]}\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    raw = odd_file()
    path = tmp_path / "data.asdf"
    path.write_bytes(raw.replace(b"value: 1\n", b"value: 1\n" + (DKIST + ZARR + UNKNOWN + EXTERNAL).encode()))
    return path


def test_each_has_its_reason(path: Path) -> None:
    with library.open(path) as document:
        found = {"/".join(map(str, one.path)): (one.shape, one.reason) for one in find_unshown(document)}
    assert found == {
        "dataset/data": ((1, 490, 1000), "its files are not in lists of equal lengths"),
        "cube": ((4, 6), "its chunks are in a store outside of this file, which asdffs does not read"),
        "odd": (None, "asdffs does not know objects with the tag asdf://example.org/tags/ragged_array-1.0.0"),
        "far": ((3,), "its target is neither the number nor the name of an HDU"),
    }


def test_arrays_that_are_shown_are_not_named(tmp_path: Path) -> None:
    (tmp_path / "data.asdf").write_bytes(odd_file())
    with library.open(tmp_path / "data.asdf") as document:
        assert find_unshown(document) == []


@pytest.mark.mount
def test_in_the_mount_and_in_info(path: Path) -> None:
    with mounted(path) as mount:
        shown = json.loads((mount.point / ".asdffs/arrays.json").read_text())
        assert [one["path"] for one in shown] == ["dataset/data", "cube", "odd", "far"]
        text = mount.tree.read_bytes()
        mount.tree.write_bytes(text.replace(EXTERNAL.encode(), b""))
        shown = json.loads((mount.point / ".asdffs/arrays.json").read_text())
        assert [one["path"] for one in shown] == ["dataset/data", "cube", "odd"]
    environment = environment_in(path.parent)
    facts = json.loads(asdffs("info", "--json", path, environment=environment).stdout)
    assert facts["unshown"] == shown
    lines = asdffs("info", path, environment=environment).stdout.splitlines()
    assert "not shown dataset/data, 1x490x1000: its files are not in lists of equal lengths" in lines
    assert any(line.startswith("not shown odd, shape unknown: asdffs does not know") for line in lines)
