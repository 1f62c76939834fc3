"""Inline arrays: their values must fit the datatype that the tree states (schema core/ndarray, data)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.arrays import tree_file

import asdffs
from asdffs.document.arrays.faults import find_faults
from asdffs.document.opening import open_document

LOST = [
    ("{data: [1.5, 2], datatype: int8}", "its datatype makes 1 of the value 1.5"),
    ("{data: [[1, 2], [3, 4.25]], datatype: uint16}", "its datatype makes 4 of the value 4.25"),
    ("{data: [abc, a], datatype: [ascii, 2]}", "its datatype makes 'ab' of the value 'abc'"),
    ("{data: [[1, abcd]], datatype: [{name: n, datatype: int8}, {name: t, datatype: [ucs4, 3]}]}", "'abc' of the"),
    ("{data: [2, 0], datatype: bool8}", "its datatype makes True of the value 2"),
    ("{data: [1.0e+300], datatype: float32}", "its datatype makes inf of the value 1e+300"),
]
KEPT = [
    "{data: [1, 2.0], datatype: int8}",
    "{data: [0.1, 1.0e+30, .inf, .nan], datatype: float32}",
    "{data: [1, null, 3], datatype: int16}",
    "{data: [ab, a], datatype: [ascii, 2]}",
    "{data: [true, false], datatype: bool8}",
    "{data: [[1, abc]], datatype: [{name: n, datatype: int8}, {name: t, datatype: [ucs4, 3]}]}",
    "[1.5, 2]",
]


def faults(path: Path, array: str) -> list[str]:
    path.write_bytes(tree_file(f"a: !core/ndarray-1.1.0 {array}\n", []))
    document = open_document(str(path), writable=False)
    try:
        return [fault.sentence for fault in find_faults(document)]
    finally:
        document.close()


@pytest.mark.parametrize(("array", "sentence"), LOST)
def test_what_the_datatype_loses_is_told(tmp_path: Path, array: str, sentence: str) -> None:
    (found,) = faults(tmp_path / "a.asdf", array)
    assert sentence in found


@pytest.mark.parametrize("array", KEPT)
def test_what_it_keeps(tmp_path: Path, array: str) -> None:
    assert faults(tmp_path / "a.asdf", array) == []


def test_texts_beside_numbers_are_as_long_as_the_longest(tmp_path: Path) -> None:
    (tmp_path / "a.asdf").write_bytes(tree_file("a: !core/ndarray-1.1.0 [1, abc]\n", []))
    with asdffs.open(tmp_path / "a.asdf") as document:
        found = document.arrays["a"][:]
    assert found.dtype == np.dtype("<U3")
    assert found.tolist() == ["1", "abc"]
