"""Values by their paths, beside what PyYAML constructs."""

from __future__ import annotations

import datetime
import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tree_texts import HEAD, load, parent_in, paths, step_in, texts

from asdffs.errors import InvalidTreeError
from asdffs.tree.lookups import Values, for_json, plain, walk

EXAMPLES = 3000 if os.environ.get("ASDFFS_DEEP") else 80


def same(found: Any, wanted: Any) -> bool:
    """Whether a plain value is what the oracle constructed; below a tag, a scalar is its text."""
    if isinstance(wanted, tuple):
        return str(found) == wanted[2] or isinstance(found, (int, float, bool)) or found is None
    if isinstance(wanted, dict):
        rest = {str(key): item for key, item in wanted.items() if key != "tag"}
        return list(found) == list(rest) and all(same(found[key], rest[key]) for key in rest)
    if isinstance(wanted, list):
        items = wanted[2:] if wanted[:1] == ["tag"] else wanted
        return len(found) == len(items) and all(map(same, found, items))
    return bool(found == wanted)


@settings(max_examples=EXAMPLES)
@given(texts(), st.data())
def test_a_value_is_found(text: str, data: st.DataObject) -> None:
    tree = load(text)
    path = data.draw(st.sampled_from(paths(tree)))
    parent = parent_in(tree, path)
    wanted = parent[step_in(parent, path[-1])]
    alone, all_of_them = Values(text.encode()), Values(text.encode())
    all_of_them.root()
    for values in (alone, all_of_them):
        found = values.find(path)
        assert found is not None
        assert same(plain(found), wanted)
    assert alone.find((*path[:-1], "not there")) is None
    assert [len(path) for path, _ in walk(all_of_them.root())].count(0) == 1


def test_the_end_of_a_sequence() -> None:
    values = Values(f"{HEAD}items: [1, 2, {{x: 3}}]\n...\n".encode())
    found = [values.find(path) for path in (("items", -1, "x"), ("items", "0"), ("items", 3), ("items", -4))]
    assert [None if node is None else node.value for node in found] == [3, 1, None, None]


def test_what_json_cannot_hold_is_text() -> None:
    root = Values(f"{HEAD}a: [.nan, .inf, 2027-06-01, 1.0, ~]\n...\n".encode()).root()
    assert for_json(root) == {"a": [".nan", ".inf", "2027-06-01", 1.0, None]}


def test_text_that_is_not_utf8() -> None:
    with pytest.raises(InvalidTreeError, match="line 6: the tree is not UTF-8"):
        Values(HEAD.encode() + b"a: \xff\n").find(("a",))


@pytest.mark.parametrize(
    ("tree", "path", "value"),
    [
        ("a: 1\na: 2", ("a",), 2),
        ("a: {b: 1}\n'a': {b: 2}", ("a", "b"), 2),
        ("a: {b: 1, c: 3}\na: {b: 2}", ("a", "c"), None),
        ("x_a: 1\na: 2\nb: {a: 3, a: 4}", ("b", "a"), 4),
        ("x: &x {c: 1}\ny: {<<: {b: *x}}", ("y", "c"), None),
    ],
)
def test_regression_the_first_of_two_equal_keys_was_read(tree: str, path: tuple[str, ...], value: int | None) -> None:
    """``asdf`` reads the last one, and so do all other readers here."""
    alone, whole = Values(f"{HEAD}{tree}\n...\n".encode()), Values(f"{HEAD}{tree}\n...\n".encode())
    whole.root()
    for values in (alone, whole):
        found = values.find(path)
        assert (None if found is None else found.value) == value


def test_regression_tags_of_yaml_itself_were_ignored() -> None:
    tree = "[!!int '12', !!float 3, !!bool yes, !!null '', !!str 12, !!timestamp 2027-06-01, !!int x, !x 1]"
    values = Values(f"{HEAD}a: {tree}\nb: !!int '12'\n...\n".encode())
    found = values.find(("b",))
    assert (found.value, found.text) == (12, "12") if found else False
    assert plain(values.root())["a"] == [12, 3.0, True, None, "12", datetime.date(2027, 6, 1), "x", "1"]


def test_regression_merge_keys_of_merge_keys_are_searched_once() -> None:
    """Each level merges the one below it fifty times: searched one by one, nobody would see the end."""
    levels = [f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 50)}]}}\n" for n in range(1, 12)]
    text = (HEAD + "m0: &m0 {}\n" + "".join(levels) + "...\n").encode()
    assert Values(text).find(("m11", "x")) is None
    assert Values(text.replace(b"{}", b"{x: 1}")).find(("m11", "x")) is not None


def test_a_key_on_two_lines_is_found() -> None:
    assert Values((HEAD + "? two\n  lines\n: 1\n...\n").encode()).find(("two lines",)) is not None
