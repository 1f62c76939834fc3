"""Edits of single values, beside a model: the objects that PyYAML constructs, with the same change made to them."""

from __future__ import annotations

import contextlib
import copy
import os
import re
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tree_texts import HEAD, NEW, load, parent_in, paths, step_in, texts

from asdffs.errors import InvalidTreeError, MissingValueError, SharedValueError, ValueRefusedError
from asdffs.tree.rules import check_tree
from asdffs.tree.snippets import parse_value, python_value
from asdffs.tree.tape import Tape
from asdffs.tree.value_edits import rename_value, set_value, unset_value

EXAMPLES = 3000 if os.environ.get("ASDFFS_DEEP") else 120


def tape_of(text: str) -> Tape:
    return Tape(text.encode())


def meaning(new: Any) -> Any:
    """What a new value is, by the oracle; nodes have no tags here."""
    node = new.node if hasattr(new, "node") else new
    if isinstance(node.value, dict):
        return {key.strip("'"): meaning(item) for key, item in node.value.items()}
    if isinstance(node.value, list):
        return [meaning(item) for item in node.value]
    return node.value


def text_of(new: Any) -> Any:
    """The same below a tag, which stays: what a scalar is then, only its reader knows."""
    return meaning(new) if isinstance(new.node.value, (dict, list)) else new.node.text


def has_tag(value: Any) -> bool:
    return isinstance(value, tuple) or (isinstance(value, (dict, list)) and "tag" in value)


def without_tags(value: Any) -> Any:
    """A constructed value with keys as text and without tags."""
    if isinstance(value, dict):
        return {str(key): without_tags(item) for key, item in value.items() if key != "tag"}
    if isinstance(value, (list, tuple)):
        items = value[2:] if value[:1] in (["tag"], ("tag",)) else value
        return without_tags(items[0]) if isinstance(value, tuple) else [without_tags(item) for item in items]
    return value


def span(text: str, path: tuple[str | int, ...]) -> tuple[int, int]:
    """Where the value is, by PyYAML's nodes: from behind its key or dash to its end."""
    node = yaml.compose(text)
    before = 0
    for step in path:
        if isinstance(node, yaml.MappingNode):
            key, node = next(pair for pair in node.value if pair[0].value == str(step))
            before = key.end_mark.index
        else:
            items = node.value
            before = items[int(step) - 1].start_mark.index if int(step) else node.start_mark.index
            node = items[int(step)]
    return before, node.end_mark.index


@pytest.mark.parametrize(
    "value",
    ["0\t0", ["a\tb"], {"k": "x\ty z"}, "\t", "a\t# b", {"p": "0?"}, {"a?b": 1}, {"p": "\xa0"}, {"a": ["\u2003"]}],
)
def test_regression_every_parser_reads_it(value: Any) -> None:
    """PyYAML's parser in Python refuses some tabs and question marks in plain scalars, its parser in C does not.

    No-break spaces are text.
    """
    text = "#ASDF 1.0.0\n%YAML 1.1\n---\na: 1\n...\n"
    edit = set_value(tape_of(text), ("a",), python_value(value))
    assert edit is not None
    changed = edit.apply(text)
    for loader in (yaml.CSafeLoader, yaml.SafeLoader):
        loaded = yaml.load(changed, Loader=loader)
        assert loaded == {"a": value}


@pytest.mark.parametrize("path", [("a", "b"), ("e", "b")])
def test_regression_an_anchor_inside_was_missed_through_an_alias(path: tuple[str, str]) -> None:
    text = "#ASDF 1.0.0\n%YAML 1.1\n---\na: &x\n  b: {c: &y 1}\n  d: 2\ne: *x\nf: *y\n...\n"
    with pytest.raises(ValueRefusedError, match="has the anchor '&y' in it, and line 8 uses that"):
        unset_value(tape_of(text), path, shared=True)
    with pytest.raises(ValueRefusedError, match="has the anchor '&y' in it, and line 8 uses that"):
        set_value(tape_of(text), path, python_value(3), shared=True)


@pytest.mark.parametrize("shared", [False, True])
def test_regression_an_alias_on_the_line_of_its_anchor_was_left_alone(shared: bool) -> None:
    text = "#ASDF 1.0.0\n%YAML 1.1\n---\na: {b: &x 1, c: *x}\n...\n"
    with pytest.raises(ValueRefusedError, match="has the anchor '&x', and line 4 uses it"):
        unset_value(tape_of(text), ("a", "b"), shared=shared)


@settings(max_examples=EXAMPLES)
@given(texts(), st.data())
def test_a_value_that_is_set_is_what_changes(text: str, data: st.DataObject) -> None:
    old = load(text)
    path = data.draw(st.sampled_from(paths(old)))
    new = data.draw(NEW)
    try:
        edit = set_value(tape_of(text), path, new)
    except SharedValueError:
        assert "*" in text
        with contextlib.suppress(InvalidTreeError):
            if (edit := set_value(tape_of(text), path, new, shared=True)) is not None:
                check_shared(text, edit.apply(text), path, new)
        return
    except InvalidTreeError as err:
        assert re.search("has the anchor .* in it", str(err))
        return
    changed = edit.apply(text) if edit is not None else text
    model = copy.deepcopy(old)
    parent = parent_in(model, path)
    step = step_in(parent, path[-1])
    tagged = has_tag(parent[step]) and not (edit and edit.old.startswith("*"))  # an alias has no tag to keep
    parent[step] = text_of(new) if tagged else meaning(new)
    assert without_tags(load(changed)) == without_tags(model)
    if edit is not None:
        start, end = (0, len(text)) if edit.old.startswith("*") else span(text, path)  # nodes have no aliases
        assert start <= edit.start <= edit.start + len(edit.old) <= max(end, edit.start), (text, edit)
        assert set_value(tape_of(changed), path, new) is None, "a second run changes nothing"
    assert ("\r\n" in text) == ("\r\n" in changed)
    assert not text.count("\r\n") or changed.count("\n") == changed.count("\r\n")


def check_shared(text: str, changed: str, path: tuple[str | int, ...], new: Any) -> None:
    """The value is what was set, wherever an alias means it."""
    found = load(changed)
    value = value_at(found, path)
    assert without_tags(value) == (text_of(new) if has_tag(value) else meaning(new)), text


@settings(max_examples=EXAMPLES)
@given(texts(), st.data())
def test_a_value_that_is_unset_is_what_goes(text: str, data: st.DataObject) -> None:
    old = load(text)
    path = data.draw(st.sampled_from(paths(old)))
    try:
        edit = unset_value(tape_of(text), path)
    except InvalidTreeError:
        assert "&" in text
        return
    model = copy.deepcopy(old)
    parent = parent_in(model, path)
    del parent[step_in(parent, path[-1])]
    changed = edit.apply(text)
    assert without_tags(load(changed)) == without_tags(model)
    for line in text.splitlines():
        if line.lstrip().startswith("# about"):
            assert line.strip() in changed or line.strip() in edit.old


@settings(max_examples=EXAMPLES)
@given(texts(), st.data())
def test_a_value_that_is_added_is_what_comes(text: str, data: st.DataObject) -> None:
    old = load(text)
    boxes = [(), *(path for path in paths(old) if isinstance(value_at(old, path), (dict, list)))]
    box = data.draw(st.sampled_from(boxes))
    new = data.draw(NEW)
    have = value_at(old, box)
    step: str | int = "new key" if isinstance(have, dict) else len(have) - (2 if have[:1] == ["tag"] else 0)
    more = ("sub", "deep") if data.draw(st.booleans()) else ()
    try:
        edit = set_value(tape_of(text), (*box, step, *more), new, create=True)
    except SharedValueError:
        assert "*" in text
        return
    assert edit is not None
    assert not edit.old
    model = copy.deepcopy(old)
    added = meaning(new) if not more else {"sub": {"deep": meaning(new)}}
    target = value_at(model, box)
    if isinstance(target, dict):
        target[step] = added
    else:
        target.append(added)
    assert without_tags(load(edit.apply(text))) == without_tags(model)


def value_at(value: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        value = value[step_in(value, step)]
    return value


@settings(max_examples=EXAMPLES // 3)
@given(texts(), st.data())
def test_a_key_that_is_renamed_stays_in_its_place(text: str, data: st.DataObject) -> None:
    old = load(text)
    path = data.draw(st.sampled_from([path for path in paths(old) if isinstance(path[-1], str)]))
    name = data.draw(st.sampled_from(["other", "x: y", "yes", "é!", "1"]))
    try:
        edit = rename_value(tape_of(text), path, name)
    except SharedValueError:
        assert "*" in text
        return
    new = load(edit.apply(text))
    before, after = parent_in(old, path), parent_in(new, path)
    assert [str(key) for key in after] == [name if str(key) == path[-1] else str(key) for key in before]


@pytest.mark.parametrize("wrong", [("nope",), ("a", 5), ("b", "x")])
def test_what_is_missing_is_named(wrong: tuple[str | int, ...]) -> None:
    text = HEAD + "a: [1]\nb: {c: 1}\n...\n"
    with pytest.raises(MissingValueError, match=r"there is no such value"):
        unset_value(tape_of(text), wrong)


def test_regression_a_last_line_of_no_break_spaces_is_a_part_of_a_block() -> None:
    text = "#ASDF 1.0.0\n%YAML 1.1\n---\na: |\n  x\n  \xa0\nb: 1\n...\n"
    edit = set_value(tape_of(text), ("a",), python_value("y"))
    assert edit is not None
    assert yaml.safe_load(edit.apply(text)) == {"a": "y", "b": 1}


class Tags(yaml.SafeLoader):
    """Reads values with unknown tags as pairs of tag and text."""


Tags.add_multi_constructor("!", lambda loader, suffix, node: (suffix, node.value))


@pytest.mark.parametrize(
    "tree",
    ["a:\n", "a:   \n", "a: # c\n", "a:\r\n", "{a: , b: 1}\n", "{a, b: 1}\n", "{b: 1, a}\n", "? a\n: \nb: 1\n"],
)
@pytest.mark.parametrize(
    ("typed", "value"), [("!foo x", ("foo", "x")), ("!!str 5", "5"), ("text", "text"), ("{k: 1}", {"k": 1})]
)
def test_a_value_where_nothing_was_written(tree: str, typed: str, value: object) -> None:
    text = f"%YAML 1.1\n---\n{tree}...\n"
    edit = set_value(tape_of(text), ("a",), parse_value(typed))
    assert edit is not None
    found = yaml.load(edit.apply(text), Loader=Tags)
    assert found.pop("a") == value
    assert found == ({"b": 1} if "b: 1" in tree else {})


def test_a_path_through_a_single_value_names_it() -> None:
    text = "#ASDF 1.0.0\n%YAML 1.1\n---\na: {b: 1}\n...\n"
    with pytest.raises(MissingValueError, match=r"^line 4: a\.b is a single value, which has no parts$"):
        set_value(tape_of(text), ("a", "b", "c"), parse_value("1"))


OMAP = "o: !!omap\n- !!omap\n  a: 1\n- b: 2 # two\nf: !!omap [c: 3]\n"


@pytest.mark.parametrize(
    ("path", "new", "expected"),
    [
        (("o", "a"), "5", "o: !!omap\n- !!omap\n  a: 5\n- b: 2 # two\nf: !!omap [c: 3]\n"),
        (("o", "a"), None, "o: !!omap\n- b: 2 # two\nf: !!omap [c: 3]\n"),
        (("o", "b"), None, "o: !!omap\n- !!omap\n  a: 1\nf: !!omap [c: 3]\n"),
        (("o", "d"), "5", "o: !!omap\n- !!omap\n  a: 1\n- b: 2 # two\n- d: 5\nf: !!omap [c: 3]\n"),
        (
            ("o", "d", "e"),
            "5",
            "o: !!omap\n- !!omap\n  a: 1\n- b: 2 # two\n- d:\n    e: 5\nf: !!omap [c: 3]\n",
        ),
        (("f", "d"), "5", "o: !!omap\n- !!omap\n  a: 1\n- b: 2 # two\nf: !!omap [c: 3, d: 5]\n"),
        (("f", "c"), None, "o: !!omap\n- !!omap\n  a: 1\n- b: 2 # two\nf: !!omap []\n"),
    ],
)
def test_an_ordered_mapping_is_edited_by_its_keys(path: tuple[str, ...], new: str | None, expected: str) -> None:
    tape = tape_of(OMAP)
    edit = unset_value(tape, path) if new is None else set_value(tape, path, parse_value(new), create=True)
    assert edit is not None
    assert edit.apply(OMAP) == expected
    assert edit.path == path
    check_tree(tape_of(expected), unique=True)


def test_a_key_that_is_there_twice_is_told_with_both_lines() -> None:
    tape = tape_of("a: 1\nb: 2\na: 3\n")
    sentence = "the key 'a' is in line 1 and again in line 3; remove or rename one of the two"
    for edit in (lambda: set_value(tape, ("a",), parse_value("5")), lambda: unset_value(tape, ("a",))):
        with pytest.raises(InvalidTreeError, match=sentence):
            edit()
    assert set_value(tape, ("b",), parse_value("5")) is not None


def test_regression_an_alias_on_the_same_line_was_no_alias_behind_the_anchor() -> None:
    """Lines were compared where places are meant: ``unset --shared`` removed the anchor of a later alias."""
    text = "a: {x: &n 1, y: *n}\n"
    with pytest.raises(ValueRefusedError, match="has the anchor '&n', and line 1 uses it"):
        unset_value(tape_of(text), ("a", "x"), shared=True)
    edit = unset_value(tape_of(text), ("a", "y"), shared=True)
    assert edit.apply(text) == "a: {x: &n 1}\n"
