"""What the tree says of arrays in FITS files, against the same slices by numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asdffs.arrays.chunked import is_stacked
from asdffs.arrays.stacked import parse_stacked
from asdffs.errors import InvalidArrayError

PLAIN: dict[str, Any] = {
    "fileuris": [["a", "b", "c"], ["d", "e", "f"]],
    "target": 1,
    "datatype": "float64",
    "shape": [1, 4, 5],
}


@pytest.mark.parametrize(
    ("tag", "known"),
    [
        ("asdf://dkist.nso.edu/tags/file_manager-1.1.0", True),
        ("tag:dkist.nso.edu:dkist/array_container-0.2.0", True),
        ("tag:stsci.edu:asdf/core/externalarray-1.0.0", True),
        ("asdf://dkist.nso.edu/tags/dataset-1.2.0", False),
        ("tag:stsci.edu:asdf/core/ndarray-1.1.0", False),
    ],
)
def test_tags(tag: str, known: bool) -> None:
    assert is_stacked(tag) == known


@pytest.mark.parametrize(
    ("more", "shape"),
    [
        ({}, (2, 3, 4, 5)),
        ({"shape": [4, 5]}, (2, 3, 4, 5)),
        ({"shape": [1, 1, 5]}, (2, 3, 1, 5)),
        ({"fileuris": ["a"]}, (4, 5)),
        ({"fileuris": "a"}, (4, 5)),
        ({"fileuris": [["a", "b"]]}, (1, 2, 4, 5)),
        ({"subslice": [2]}, (2, 3, 5)),
        ({"subslice": [[1, 3, None], [None, None, 2]]}, (2, 3, 2, 3)),
        ({"subslice": [[None, 99, None], 4]}, (2, 3, 4)),
        ({"subslice": []}, (2, 3, 4, 5)),
        ({"subslice": [["null", -3, "null"], -1]}, (2, 3, 1)),
        ({"fileuri": "a", "fileuris": None}, (1, 4, 5)),
    ],
)
def test_shapes(more: dict[str, Any], shape: tuple[int, ...]) -> None:
    assert parse_stacked({**PLAIN, **more}).shape == shape


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"fileuris": [["a"], ["b", "c"]]}, "its files are not in lists of equal lengths"),
        ({"fileuris": [["a"], "b"]}, "its files are not in lists of equal lengths"),
        ({"fileuris": []}, "its files are not in lists of equal lengths"),
        ({"fileuris": ["a", 3]}, "its files have no valid names"),
        ({"fileuris": ["a", "b\0"]}, "its files have no valid names"),
        ({"fileuris": None}, "its files have no valid names"),
        ({"shape": "4"}, "its shape is missing or not valid"),
        ({"shape": [4, -1]}, "its shape is missing or not valid"),
        ({"shape": [1 << 40, 1 << 40]}, "its shape is too large"),
        ({"shape": [1] * 40}, "its shape is too large"),
        ({"target": None}, "its target is neither the number nor the name of an HDU"),
        ({"target": -1}, "its target is neither the number nor the name of an HDU"),
        ({"datatype": "object"}, "its datatype 'object' is none of an image in FITS"),
        ({"datatype": "complex64"}, "its datatype 'complex64' is none of an image in FITS"),
        ({"datatype": ["ascii", 3]}, "its datatype \"['ascii', 3]\" is none of an image in FITS"),
        ({"subslice": [1, 2, 3]}, "its subslice has more axes than its 4"),
        ({"subslice": [7]}, "its subslice 7 is not valid"),
        ({"subslice": [[1, 2]]}, "its subslice [1, 2] is not valid"),
        ({"subslice": [[None, None, 0]]}, "its subslice has a step that is not positive"),
        ({"subslice": [[None, None, -1]]}, "its subslice has a step that is not positive"),
        ({"fileuris": "null"}, "its files have no valid names"),
        ({"datatype": "<i" + "9" * 5000}, f"its datatype {'<i' + '9' * 38!r} is none of an image in FITS"),
        ({"shape": [1, 1 << 30, 1 << 30]}, "its shape is too large"),
    ],
)
def test_what_makes_no_sense(more: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidArrayError) as caught:
        parse_stacked({**PLAIN, **more})
    assert caught.value.sentence == reason


@pytest.mark.parametrize(
    ("stated", "dtype"),
    [("float", "<f8"), ("float32", "<f4"), (">f4", ">f4"), ("int16", "<i2"), ("uint8", "u1"), ("<i8", "<i8")],
)
def test_names_of_numpy(stated: str, dtype: str) -> None:
    from asdffs.arrays.datatypes import descr_of

    found = parse_stacked({**PLAIN, "datatype": stated})
    assert np.dtype(descr_of(found.datatype, found.byteorder)) == np.dtype(dtype)


ENDS = st.none() | st.integers(-9, 9)


@given(st.lists(st.integers(-4, 3) | st.tuples(ENDS, ENDS, st.none() | st.integers(1, 3)).map(list), max_size=2))
def test_slices_mean_what_they_mean_to_numpy(parts: list[Any]) -> None:
    found = parse_stacked({**PLAIN, "subslice": parts})
    index = [slice(*one) if isinstance(one, list) else one for one in parts]
    assert found.shape == np.empty((2, 3, 4, 5))[(slice(None), slice(None), *index)].shape
