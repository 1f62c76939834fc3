"""Paths of values: the dotted form, JSON Pointers, and what is said of wrong ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asdffs.errors import UsageError
from asdffs.tree.paths import format_path, parse_path, split_assignment

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
}


@pytest.mark.parametrize("text", GOOD)
def test_paths_are_read(text: str) -> None:
    assert parse_path(text) == GOOD[text]


@given(st.lists(st.text(max_size=6) | st.integers(-9, 99), max_size=4).map(tuple))
def test_a_path_that_is_written_is_read_back(path: tuple[str | int, ...]) -> None:
    assert parse_path(format_path(path)) == path


@pytest.mark.parametrize(
    ("text", "place"),
    [("", 1), ("a..b", 3), ("a.", 3), ("a[", 2), ("a[x]", 2), ("a b", 2), ('"x', 1), ('a["b"', 6), ("/a~2", 3)],
)
def test_a_wrong_path_is_refused_at_its_character(text: str, place: int) -> None:
    with pytest.raises(UsageError, match=rf"character {place}: "):
        parse_path(text)


def test_assignments() -> None:
    assert split_assignment("a.b=1=2") == (("a", "b"), "1=2")
    assert split_assignment('"x=y".z=[1, 2]') == (("x=y", "z"), "[1, 2]")
    assert split_assignment("/a/b=") == (("a", "b"), "")
    for wrong in ("a.b", "/a/b", "a b=1"):
        with pytest.raises(UsageError, match="write PATH=VALUE"):
            split_assignment(wrong)
