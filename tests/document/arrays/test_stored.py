"""Where elements are in a file: read there by numpy, they are those of the array."""

from __future__ import annotations

from pathlib import Path

import asdf
import numpy as np
import pytest
from support.arrays import tree_file, write_all_kinds
from support.fits_files import DATA, DQ, SECOND, write_fits
from support.samples import block_bytes

import asdffs
from asdffs.document.arrays.array import Array
from asdffs.document.arrays.finding import Location
from asdffs.errors import AsdffsError, NotPermittedError


def by_numpy(where: Location) -> np.ndarray:
    whole = np.fromfile(where.path, "u1")
    found = np.ndarray(where.shape, np.dtype(where.descr), whole, where.offset, where.strides)
    return found if not where.made else (found.astype("i8") + where.zero).astype(where.made)


def stored(array: Array) -> Location | str:
    try:
        return array.stored()
    except NotPermittedError as err:
        return err.sentence


def test_every_kind(tmp_path: Path) -> None:
    write_all_kinds(tmp_path / "kinds.asdf")
    with asdffs.open(tmp_path / "kinds.asdf") as document:
        found = {name: (array, stored(array)) for name, array in document.arrays.items()}
        refused = {name: where for name, (_, where) in found.items() if isinstance(where, str)}
        for array, where in found.values():
            if isinstance(where, Location):
                assert np.array_equal(by_numpy(where), array[...])
        assert set(refused.values()) == {"block 34 is compressed (zlib)", "its elements are in the text of the tree"}
        assert {"packed", "inline", "short"} <= refused.keys()
        assert stored(document.arrays["masked_by_value/mask"]) == "the tree states it as a value"
    assert len(found) - len(refused) > 50


def test_in_another_file(tmp_path: Path) -> None:
    asdf.AsdfFile({"a": np.arange(5)}).write_to(tmp_path / "main.asdf", all_array_storage="external")
    with asdffs.open(tmp_path / "main.asdf") as document:
        where = document.arrays["a"].stored()
        assert where.path == str(tmp_path / "main0000.asdf")
        assert by_numpy(where).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.feature("fits")
def test_in_a_fits_file(tmp_path: Path) -> None:
    write_fits(tmp_path / "cal.fits")
    with asdffs.open(tmp_path / "cal.fits") as document:
        for name, expected in (("data", DATA), ("second", SECOND), ("dq", DQ)):
            where = document.arrays[name].stored()
            assert np.array_equal(by_numpy(where), expected)
        assert (where.zero, where.made) == (1 << 31, "uint32")
        assert by_numpy(document.arrays["spectrum"].stored())["order"].tolist() == [0, 1, 2, 3, 4]


def test_a_wrong_array(tmp_path: Path) -> None:
    body = "a: !core/ndarray-1.1.0 {source: 0, datatype: int8, byteorder: big, shape: [30]}\n"
    (tmp_path / "a.asdf").write_bytes(tree_file(body, [block_bytes(bytes(10))]))
    with asdffs.open(tmp_path / "a.asdf") as document, pytest.raises(AsdffsError, match="needs bytes 0 to 30"):
        document.arrays["a"].stored()
