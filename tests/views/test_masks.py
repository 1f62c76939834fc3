"""Masks that are no arrays: values, of any type of elements, and nulls among inline elements."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import asdf
import numpy as np
import pytest
from support.arrays import tree_file
from support.samples import block_bytes

from asdffs.document.arrays import masks
from asdffs.document.document import Document
from asdffs.document.opening import open_document
from asdffs.errors import InvalidArrayError

Opening = Callable[[str, bytes], Document]


@pytest.fixture
def opening(tmp_path: Path) -> Iterator[Opening]:
    documents = []

    def open_it(body: str, content: bytes) -> Document:
        path = tmp_path / "data.asdf"
        path.write_bytes(tree_file(body, [block_bytes(content)]))
        documents.append(open_document(str(path), writable=False))
        return documents[-1]

    yield open_it
    for document in documents:
        document.close()


VALUES = [
    (np.array([1 + 1j, 2], "<c8"), "complex64", "!core/complex-1.0.0 1+1j"),
    (np.array([b"x", b"yy"], "S2"), "[ascii, 2]", '"x"'),
    (np.array(["x", "yy"], "<U2"), "[ucs4, 2]", "x"),
    (np.array([np.nan, 2.0], "<f4"), "float32", ".nan"),
    (np.array([7, 2], "<i4"), "int32", "7"),
]


@pytest.mark.parametrize(("array", "datatype", "mask"), VALUES)
def test_a_value_masks_elements_of_any_type(
    array: np.ndarray, datatype: str, mask: str, opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = f"source: 0, byteorder: little, datatype: {datatype}, shape: [{len(array)}], mask: {mask}"
    document = opening(f"a: !core/ndarray-1.0.0 {{{facts}}}\n", array.tobytes())
    assert document.arrays["a/mask"][...].tolist() == [True, False]
    monkeypatch.setattr(masks, "CHUNK", 1)  # element by element
    assert document.arrays["a/mask"][...].tolist() == [True, False]


def test_a_value_that_cannot_be_compared(opening: Opening) -> None:
    facts = "source: 0, byteorder: little, datatype: float32, shape: [1], mask: text"
    mask = opening(f"a: !core/ndarray-1.0.0 {{{facts}}}\n", bytes(4)).arrays["a/mask"]
    with pytest.raises(InvalidArrayError, match="cannot be compared with the mask 'text'"):
        mask[...]


BOOLS = "!core/ndarray-1.0.0 {source: 0, datatype: bool8, byteorder: little, shape: [3]}"


@pytest.mark.parametrize(
    ("mask", "wanted"),
    [(BOOLS, [True, False, False]), ("[false, false, true]", [False, False, True]), ("3", [False, True, True])],
)
def test_a_mask_beside_nulls(mask: str, wanted: list[bool], opening: Opening) -> None:
    """An array takes precedence; a value is masked as the nulls are."""
    document = opening(f"a: !core/ndarray-1.0.0 {{data: [1, null, 3], mask: {mask}}}\n", b"\1\0\0")
    assert document.arrays["a/mask"][...].tolist() == wanted


@pytest.mark.parametrize("body", ["[1, null, 3]", "{data: [[1.5, 2], [~, 4]], datatype: float32}", "[1, 2]"])
def test_nulls_are_masked_as_in_the_library(body: str, opening: Opening) -> None:
    document = opening(f"a: !core/ndarray-1.0.0 {body}\n", b"")
    with asdf.open(io.BytesIO(Path(document.path).read_bytes())) as file:
        wanted = file["a"][...]
    found = document.arrays["a"][...]
    assert np.array_equal(np.ma.filled(wanted, 0), found)
    if np.ma.is_masked(wanted):
        assert np.array_equal(np.ma.getmaskarray(wanted), document.arrays["a/mask"][...])
    else:
        assert "a/mask" not in document.arrays
