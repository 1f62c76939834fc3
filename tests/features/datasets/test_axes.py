"""The names of axes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asdffs.errors import UsageError
from asdffs.features.datasets.metadata import known_axes, name_axes

pytestmark = pytest.mark.long

ROMAN = {"meta.telescope": "ROMAN"}


def named(shapes: dict[str, tuple[int, ...]], given: dict | None = None, about: dict | None = None) -> dict:
    return name_axes(shapes, given or {}, lambda name, ndim: known_axes(about or {}, name, ndim))


def test_without_a_model_axes_of_the_same_length_have_the_same_name() -> None:
    shapes = {"cube": (8, 40, 40), "image": (40, 40), "row": (40,), "other": (7, 8), "scalar": ()}
    assert named(shapes) == {
        "cube": ("dim_0", "dim_1", "dim_2"),
        "image": ("dim_1", "dim_2"),
        "row": ("dim_1",),
        "other": ("dim_3", "dim_0"),
        "scalar": (),
    }


def test_what_the_caller_says_comes_first_and_holds_for_the_same_shape() -> None:
    found = named({"a": (3, 4), "b": (3, 4), "c": (4, 3), "d": (5,)}, {"b": ("dim_0", "wave")})
    assert found == {"a": ("dim_0", "wave"), "b": ("dim_0", "wave"), "c": ("dim_1", "dim_2"), "d": ("dim_3",)}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"x": ("y",)}, "there is no variable 'x'; there are a, b"),
        ({"a": ("y",)}, "it needs 2 different names"),
        ({"a": ("y", "y")}, "it needs 2 different names"),
        ({"a": ("y", "x"), "b": ("x",)}, "x have other lengths in another variable"),
    ],
)
def test_names_that_do_not_fit(given: dict, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        named({"a": (3, 4), "b": (3,)}, given)


def test_known_models() -> None:
    shapes = {"data": (4088, 4088), "amp33": (2, 4096, 128), "dq": (4088, 4088), "meta.coefficients": (6, 6)}
    found = named(shapes, about=ROMAN)
    assert found["data"] == found["dq"] == ("y", "x")
    assert found["amp33"] == ("dim_0", "dim_1", "dim_2")  # its rows are not those of the image
    assert found["meta.coefficients"] == ("dim_3", "dim_4")
    assert named({"data": (5, 8, 8)}, about=ROMAN)["data"] == ("resultant", "y", "x")
    mosaic = named({"data": (8, 8), "context": (2, 8, 8)}, about=ROMAN)
    assert mosaic == {"data": ("y", "x"), "context": ("plane", "y", "x")}
    webb = {"meta.telescope": "JWST", "meta.model_type": "CubeModel"}
    assert named({"data": (2, 3, 8, 9)}, about=webb)["data"] == ("integration", "group", "y", "x")
    assert named({"data": (2, 8, 9)}, about=webb)["data"] == ("integration", "y", "x")
    cube = webb | {"meta.model_type": "IFUCubeModel"}
    assert named({"data": (2, 8, 9), "err": (8, 9)}, about=cube) == {
        "data": ("wavelength", "y", "x"),
        "err": ("y", "x"),
    }
    assert named({"data": (8, 9)}, about={"meta.telescope": "OTHER"})["data"] == ("dim_0", "dim_1")


@given(st.dictionaries(st.text("abc", min_size=1), st.lists(st.integers(0, 3), max_size=4).map(tuple), max_size=6))
def test_a_name_has_one_length_and_occurs_once_in_an_array(shapes: dict[str, tuple[int, ...]]) -> None:
    for about in ({}, ROMAN):
        lengths: dict[str, int] = {}
        for name, axes in named(shapes, about=about).items():
            assert len({*axes}) == len(axes) == len(shapes[name])
            for axis, length in zip(axes, shapes[name], strict=True):
                assert lengths.setdefault(axis, length) == length
