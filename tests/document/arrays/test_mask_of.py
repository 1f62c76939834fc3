"""Which mask an array has: its own, or bools beside the data of an object; never another one."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.arrays import tree_file

import asdffs

ARRAY = "!core/ndarray-1.1.0"


def masks(folder: Path, tree: str) -> dict[str, list[bool] | None]:
    (folder / "a.asdf").write_bytes(tree_file(tree, []))
    with asdffs.open(folder / "a.asdf") as document:
        names = [name for name in document.arrays if not name.endswith("mask")]
        names += [name for name in ("g/alias", "h/alias", "alias") if name in document.arrays]
        found = {name: document.arrays[name].mask for name in names}
        return {name: None if mask is None else mask[...].tolist() for name, mask in found.items()}


def test_regression_an_alias_had_the_mask_beside_it(tmp_path: Path) -> None:
    own = f"&d {ARRAY} {{data: [1, 2, 3], mask: {ARRAY} {{data: [true, false, false]}}}}"
    tree = f"data: {own}\ng: {{alias: *d, mask: {ARRAY} {{data: [false, true, true]}}}}\nh: {{alias: *d}}\n"
    expected = [True, False, False]
    assert masks(tmp_path, tree) == {"data": expected, "g/alias": expected, "h/alias": expected}


@pytest.mark.parametrize(
    ("tag", "mask", "expected"),
    [
        ("!<asdf://x/cube-1.0.0>", "datatype: bool8, shape: [3], data: [true, false, false]", [True, False, False]),
        ("", "datatype: bool8, shape: [3], data: [true, false, false]", None),  # a mapping that happens to have both
        ("!<asdf://x/cube-1.0.0>", "datatype: int8, shape: [3], data: [1, 0, 0]", None),  # flags
        ("!<asdf://x/cube-1.0.0>", "datatype: bool8, shape: [2], data: [true, false]", None),
    ],
)
def test_beside_the_data_of_an_object(tag: str, mask: str, expected: list[bool] | None, tmp_path: Path) -> None:
    data = f"&d {ARRAY} {{data: [1, 2, 3], datatype: int8, shape: [3]}}"
    found = masks(tmp_path, f"cube: {tag} {{data: {data}, mask: {ARRAY} {{{mask}}}}}\nalias: *d\n")
    assert found == {"cube/data": expected, "alias": expected}
