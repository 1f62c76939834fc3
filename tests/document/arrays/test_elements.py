"""Elements of arrays against numpy: any strides, any part, any datatype."""

from __future__ import annotations

import itertools
from pathlib import Path

import asdf
import asdf.tags.core.ndarray
import hypothesis.strategies as st
import numpy as np
import pytest
from astropy.table import Table
from hypothesis import given
from support.arrays import tree_file
from support.samples import block_bytes, lz4_block

import asdffs as library
from asdffs.arrays.datatypes import descr_of
from asdffs.arrays.inline import inline_array
from asdffs.arrays.placement import packed
from asdffs.document.arrays.elements import Strided, gather
from asdffs.document.opening import open_document
from asdffs.errors import InvalidArrayError
from asdffs.limits import Budget
from asdffs.storage.backend import read_bytes
from asdffs.views.formats.npy import NpyFile, header_of

ARRAY = "!core/ndarray-1.0.0"
BLOCK = np.random.default_rng(5).integers(0, 255, 4000).astype("u1").tobytes()


@given(data=st.data())
def test_gathered_elements_are_numpys(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 5), max_size=5)))
    strides = tuple(data.draw(st.integers(-40, 40)) for _ in shape)
    item = data.draw(st.sampled_from([1, 2, 3, 8]))
    offset = 2000
    wanted = np.ndarray(shape, f"V{item}", BLOCK, offset, strides).tobytes()
    first = data.draw(st.integers(0, len(wanted) // item))
    last = data.draw(st.integers(first, len(wanted) // item))
    found = gather(Strided(shape, strides, item, offset), (first, last), lambda at, length: BLOCK[at : at + length])
    assert found == wanted[first * item : last * item]


def test_sparse_elements_are_read_one_by_one() -> None:
    """What lies far apart is not read with all that is between."""
    read = []

    def fetch(offset: int, length: int) -> bytes:
        read.append(length)
        return bytes(length)

    gather(Strided((3, 4), (10_000_000, 1_000_000), 2, 0), (0, 12), fetch)
    assert read == [2] * 12


def test_packed_strides() -> None:
    for shape in ((), (5,), (2, 3), (4, 1, 3)):
        assert packed(shape, 8) == np.zeros(shape).strides


DATATYPES = ["int8", "uint64", "float16", "complex128", "bool8", ["ascii", 7], ["ucs4", 3]]
RECORDS = [
    [{"name": "a", "datatype": "int16"}, {"name": "b", "datatype": "float32", "byteorder": "big"}],
    [{"datatype": "int16"}, {"name": "b", "datatype": ["ucs4", 2], "shape": [2, 3]}],
    ["int8", "float64"],
    [{"name": "in", "datatype": [{"name": "x", "datatype": "int32"}, {"name": "y", "datatype": "uint8"}]}],
]


@pytest.mark.parametrize("order", ["big", "little"])
@pytest.mark.parametrize("datatype", [*DATATYPES, *RECORDS], ids=str)
def test_datatypes_are_the_asdf_librarys(datatype: object, order: str) -> None:
    wanted = asdf.tags.core.ndarray.asdf_datatype_to_numpy_dtype(datatype, order)
    assert np.dtype(descr_of(datatype, order)) == wanted


@pytest.mark.parametrize(
    "datatype",
    ["int17", "", None, 5, [], ["ascii", -1], ["ascii", "x"], ["ucs4", 1 << 40], [{"name": "a"}], {"a": 1}],
)
def test_datatypes_that_are_none(datatype: object) -> None:
    with pytest.raises(InvalidArrayError):
        descr_of(datatype, "big")


def shown(tmp_path: Path, body: str, blocks: list[bytes]) -> np.ndarray:
    """The array ``a`` of a file, through its .npy."""
    path = tmp_path / "data.asdf"
    path.write_bytes(tree_file(body, blocks))
    document = open_document(str(path), writable=False)
    try:
        file = NpyFile(document, lambda: document.outlines.branch(("a",)))
        (tmp_path / "a.npy").write_bytes(read_bytes(file.read(0, file.size())))
        return np.load(tmp_path / "a.npy")
    finally:
        document.close()


INLINE = {
    "records": (
        "{data: [[1, 2.5], [3, 4.5]], datatype: [{name: x, datatype: int32}, {name: y, datatype: float64}]}",
        np.array([(1, 2.5), (3, 4.5)], [("x", "i4"), ("y", "f8")]),
    ),
    "records with parts": (
        "{data: [[1, [2, 3]]], datatype: [{name: x, datatype: int8}, {name: y, datatype: int8, shape: [2]}]}",
        np.array([(1, [2, 3])], [("x", "i1"), ("y", "i1", (2,))]),
    ),
    "nulls": ("{data: [null, 2, null], datatype: int64, shape: [3]}", np.array([0, 2, 0])),
    "complex": (
        "{data: [!core/complex-1.0.0 1+2j, 3, !core/complex-1.0.0 inf-1i], datatype: complex64}",
        np.array([1 + 2j, 3, complex("inf-1j")], "c8"),
    ),
    "numbers without a datatype": ("[[1, 2.5], [.inf, -3]]", np.array([[1, 2.5], [np.inf, -3]])),
    "texts": ("{data: [a, é], datatype: [ucs4, 1]}", np.array(["a", "é"])),
    "bools": ("{data: [true, false], datatype: bool8}", np.array([True, False])),
    "one value": ("{data: 5, datatype: int32, shape: []}", np.array(5, "i4")),
    "big-endian": ("{data: [1, 2], datatype: int16, byteorder: big}", np.array([1, 2], ">i2")),
    "block style": (
        "\n  data:\n  - [1, 2]   # first\n  - - 3\n    - 4\n  datatype: uint8\n",
        np.array([[1, 2], [3, 4]], "u1"),
    ),
}


@pytest.mark.parametrize("name", INLINE)
def test_inline_arrays(name: str, tmp_path: Path) -> None:
    body, wanted = INLINE[name]
    found = shown(tmp_path, f"b: 1\na: {ARRAY} {body}\nc: 2\n", [])
    assert (found.dtype, found.shape, found.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes())


@pytest.mark.parametrize(
    "body",
    [
        "[[1], [2, 3]]",
        "{data: [1, 2], shape: [3]}",
        "{data: {a: 1}}",
        "{data: [1, x], datatype: int8}",
        "{data: [300], datatype: int8}",
        "{data: [!other 1]}",
        "{data: [!core/complex-1.0.0 x]}",
    ],
)
def test_inline_arrays_that_are_none(body: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArrayError) as caught:
        shown(tmp_path, f"a: {ARRAY} {body}\n", [])
    assert caught.value.line == 6


def test_headers_are_numpys(tmp_path: Path) -> None:
    """Also of versions 2.0 and 3.0; aligned to 64 bytes; the same size while a stream grows."""
    fields = {1: 3, 2: 4000, 3: 2}
    for version, count in fields.items():
        name = "☃" if version == 3 else "field"
        dtype = np.dtype([(f"{name}{n}", "<i4") for n in range(count)])

        class Some:
            descr = np.lib.format.dtype_to_descr(dtype)
            fortran = False
            shape = (2,)

        header = header_of(Some())  # type: ignore[arg-type]
        assert header[6] == version
        assert len(header) % 64 == 0
        (tmp_path / "x.npy").write_bytes(header + bytes(2 * dtype.itemsize))
        with open(tmp_path / "x.npy", "rb") as file:
            assert np.load(file, allow_pickle=False, max_header_size=10**6).dtype == dtype
    sizes = set()
    for rows in (0, 1, 12345, 10**18):
        Some.shape = (rows, 3)
        sizes.add(len(header_of(Some(), growing=True)))  # type: ignore[arg-type]
    assert len(sizes) == 1


def test_parts_of_a_file_are_parts_of_the_whole(tmp_path: Path) -> None:
    """Whatever is asked for, across header and elements, of windows and of what is gathered."""
    path = tmp_path / "data.asdf"
    common = "source: 0, datatype: int32, byteorder: big"
    body = f"a: {ARRAY} {{{common}, shape: [5, 7]}}\n"
    body += f"b: {ARRAY} {{{common}, shape: [5, 3], strides: [28, -8], offset: 16}}\n"
    path.write_bytes(tree_file(body, [block_bytes(BLOCK[:140])]))
    document = open_document(str(path), writable=False)
    for name in "ab":
        file = NpyFile(document, lambda name=name: document.outlines.branch((name,)))
        whole = read_bytes(file.read(0, file.size() + 10))
        assert len(whole) == file.size()
        for offset, length in itertools.product((0, 1, 120, 127, 128, 129, 150), (0, 1, 3, 9, 500)):
            assert read_bytes(file.read(offset, length)) == whole[offset : offset + length]
    document.close()


def test_inline_needs_data(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    path.write_bytes(tree_file(f"a: {ARRAY} {{source: 0}}\n", [block_bytes(BLOCK[:10])]))
    document = open_document(str(path), writable=False)
    with pytest.raises(InvalidArrayError, match="neither a source nor data"):
        inline_array(document.outlines.outline(), document.outlines.branch(("a",)), Budget())
    document.close()


def test_columns_by_name_and_by_number(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    table = Table({"flux": np.arange(3), "a/b": np.arange(3.0)})
    asdf.AsdfFile({"table": table}).write_to(path)
    with library.open(path) as document:
        assert sorted(document.arrays) == ["table/columns/a%2Fb/data", "table/columns/flux/data"]
        assert document.arrays["table/columns/flux/data"][1] == 1
        assert document.arrays["table/columns/0/data"][1] == 1
        assert document.values["table"]["columns"][0]["data"][1] == 1


def test_a_cutout_of_a_compressed_block_decodes_only_its_pieces(tmp_path: Path) -> None:
    """Rows and columns in the middle, by slices, steps and numbers."""
    path, image = tmp_path / "data.asdf", np.arange(1_600_000, dtype="<i4").reshape(2000, 800)
    tree = f"a: {ARRAY} {{source: 0, datatype: int32, byteorder: little, shape: [2000, 800]}}\n"
    path.write_bytes(tree_file(tree, [lz4_block(image.tobytes(), 64 << 10)]))
    for index in ((slice(1000, 1010), slice(20, 30)), (slice(1990, 1000, -300), slice(0, 9, 2)), (1500, 7)):
        with library.open(path) as document:
            assert np.array_equal(document.arrays["a"][index], image[index])
            assert document.contents.compressed.block(0).kept <= 12 << 18
