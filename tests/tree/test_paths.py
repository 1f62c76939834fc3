"""Paths of values: the dotted form, JSON Pointers, and what is said of wrong ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asdffs.errors import UsageError
from asdffs.tree.paths import IN_CONDITION, format_path, parse_path, parse_paths, parse_prefix, split_assignment

GOOD = {
    "roman.meta.exposure.type": ("roman", "meta", "exposure", "type"),
    "items[0].name": ("items", 0, "name"),
    '"odd.key".x': ("odd.key", "x"),
    'a["x y"].b': ("a", "x y", "b"),
    "a[-1][2]": ("a", -1, 2),
    "/a/b~1c/0": ("a", "b/c", "0"),
    "/": ("",),
    ".": (),
    "ä-b:c": ("ä-b:c",),
    "units.km/s": ("units", "km/s"),
    '"km/s".unit': ("km/s", "unit"),
    "/a b/c=d": ("a b", "c=d"),
}


@pytest.mark.parametrize("text", GOOD)
def test_paths_are_read(text: str) -> None:
    assert parse_path(text) == GOOD[text]


@given(st.lists(st.text(max_size=6) | st.integers(-9, 99), max_size=4).map(tuple))
def test_a_path_that_is_written_is_read_back(path: tuple[str | int, ...]) -> None:
    assert parse_path(format_path(path)) == path


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", 1),
        ("a..b", 3),
        ("a.", 3),
        ("a[", 2),
        ("a[x]", 2),
        ("a b", 2),
        ('"x', 1),
        ('a["b"', 6),
        ("/a~2", 3),
        ("a/b", 2),
    ],
)
def test_a_wrong_path_is_refused_at_its_character(text: str, place: int) -> None:
    with pytest.raises(UsageError, match=rf"character {place}: "):
        parse_path(text)


def test_assignments() -> None:
    assert split_assignment("a.b=1=2") == (("a", "b"), "1=2", False)
    assert split_assignment('"x=y".z=[1, 2]') == (("x=y", "z"), "[1, 2]", False)
    assert split_assignment("/a/b=") == (("a", "b"), "", False)
    assert split_assignment("/a b/c==") == (("a b", "c"), "=", False)
    for wrong in ("a.b", "/a/b", "a b=1"):
        with pytest.raises(UsageError, match="write PATH=VALUE"):
            split_assignment(wrong)


def test_paths_in_a_list_and_in_a_condition() -> None:
    assert parse_paths('a.b,/c/d,"e,f"[0]') == [("a", "b"), ("c", "d"), ("e,f", 0)]
    for wrong, place in (("a,", 3), ("a b", 2), ("a,,b", 3), ("/a~,b", 3)):
        with pytest.raises(UsageError, match=rf"character {place}: "):
            parse_paths(wrong)
    for text, path in (("/a/b == 1", ("a", "b")), ("/a.b/0)", ("a.b", "0")), ('/a/~1=~"x"', ("a", "/"))):
        assert parse_prefix(text, 0, IN_CONDITION)[0] == path
