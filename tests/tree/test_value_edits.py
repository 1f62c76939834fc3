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

from asdffs.errors import InvalidTreeError
from asdffs.tree.snippets import parse_value, python_value, text_value
from asdffs.tree.value_edits import MissingValueError, SharedValueError, rename_value, set_value, unset_value

HEAD = "#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
EXAMPLES = 3000 if os.environ.get("ASDFFS_DEEP") else 300


class Oracle(yaml.SafeLoader):
    """Constructs any tag: the value and its tag."""


def construct(loader: Any, node: Any) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return ("tag", node.tag, node.value)
    if isinstance(node, yaml.SequenceNode):
        return ["tag", node.tag, *loader.construct_sequence(node, deep=True)]
    return {"tag": node.tag} | loader.construct_mapping(node, deep=True)


Oracle.add_constructor(None, construct)


def load(text: str) -> Any:
    return yaml.load(text, Loader=Oracle)


# -- random texts -----------------------------------------------------------------

KEYS = st.sampled_from(["a", "b", "key", "x y", "é", "k-1", "long_key_name", "10", "ref"])
WORDS = st.sampled_from(
    ["Ada", "two words", "é à", "1.5", "#no", "it's", 'say "x"', "a: b", "", " lead", "null", "x\ny", "l\n\nm\n"]
)
STYLES = st.sampled_from(["number", "plain", "single", "double", "literal", "tagged", "folded", "empty"])
COMMENTS = st.sampled_from(["", "", "", "  # a comment", " # é, [x]: - y"])


class Writer:
    """Writes random values as text, by its own rules; ``anchors``: those that may be used."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.anchors: list[str] = []
        self.count = 0

    def scalar(self, *, flow: bool, indent: int) -> str:
        word = self.draw(WORDS)
        style = self.draw(STYLES)
        if style == "number":
            return self.draw(st.sampled_from(["1", "-2.50", "0x1F", "true", "~", "2027-06-01", "1e+3"]))
        if style == "plain":
            return self.draw(st.sampled_from(["Ada", "two words", "é", "x-y", "a#b"]))
        if style == "single" and "\n" not in word:
            return "'" + word.replace("'", "''") + "'"
        if style == "tagged":
            return "!unit " + self.draw(st.sampled_from(["m", "'s'", '"kg"']))
        if style in ("literal", "folded") and not flow and word.strip() == word and word:
            mark, gap = ("|", "\n") if style == "literal" else (">", "\n\n")
            lines = word.split("\n")
            body = gap.join(" " * indent + line if line else "" for line in lines)
            return f"{mark}-{self.draw(COMMENTS)}\n{body}"
        if style == "empty" and not flow:
            return ""
        return '"' + word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'

    def flow(self, depth: int) -> str:
        kind = self.draw(st.sampled_from(["scalar", "scalar", "map", "list"])) if depth else "scalar"
        if kind == "scalar":
            return self.scalar(flow=True, indent=0)
        if kind == "map":
            keys = self.draw(st.lists(KEYS, max_size=3, unique=True))
            return "{" + ", ".join(f"{key}: {self.flow(depth - 1)}" for key in keys) + "}"
        return "[" + ", ".join(self.flow(depth - 1) for _ in range(self.draw(st.integers(0, 3)))) + "]"

    def value(self, depth: int, indent: int) -> str:
        """What follows a colon or a dash, with its line end."""
        anchor = f"&n{self.count} " if self.draw(st.integers(0, 7)) == 0 else ""
        self.count += 1
        kind = self.draw(st.sampled_from(["scalar", "scalar", "flow", "map", "list", "alias"])) if depth else "scalar"
        if kind == "alias" and self.anchors:
            return f" *{self.draw(st.sampled_from(self.anchors))}{self.draw(COMMENTS)}\n"
        if kind in ("scalar", "alias"):
            text = self.scalar(flow=False, indent=indent + 2)
            if text[:1] in ("|", ">"):
                text, end = f"{anchor}{text}", "\n"
            else:
                text, end = f"{anchor}{text}", f"{self.draw(COMMENTS)}\n"
            found = f" {text}".rstrip(" ") + end
        elif kind == "flow":
            found = f" {anchor}{self.flow(2)}{self.draw(COMMENTS)}\n"
        else:
            tag = self.draw(st.sampled_from(["", "", "!thing "]))
            lines = self.block(kind, depth - 1, indent)
            found = f" {anchor}{tag}".rstrip(" ") + self.draw(COMMENTS) + "\n" + lines
        if anchor:
            self.anchors.append(anchor[1:-1])
        return found

    def block(self, kind: str, depth: int, indent: int) -> str:
        indent += self.draw(st.sampled_from([2, 2, 4])) if indent >= 0 else 0
        lead = " " * max(indent, 0)
        found = ""
        if kind == "map":
            for key in self.draw(st.lists(KEYS, min_size=1, max_size=4, unique=True)):
                if self.draw(st.integers(0, 5)) == 0:
                    found += f"{lead}# about {key}\n"
                found += f"{lead}{key}:{self.value(depth, max(indent, 0))}"
            return found
        for _ in range(self.draw(st.integers(1, 3))):
            found += f"{lead}-{self.value(depth, max(indent, 0))}"
        return found


@st.composite
def texts(draw: Any) -> str:
    text = HEAD + Writer(draw).block("map", 3, -1) + "...\n"
    return text.replace("\n", "\r\n") if draw(st.integers(0, 3)) == 0 else text


def paths(value: Any, below: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """All paths in what ``construct`` made."""
    found = []
    if isinstance(value, dict):
        for key, item in value.items():
            if key != "tag":
                found += [(*below, str(key)), *paths(item, (*below, str(key)))]
    elif isinstance(value, list):
        skip = 2 if value[:1] == ["tag"] else 0
        for number, item in enumerate(value[skip:]):
            found += [(*below, number), *paths(item, (*below, number))]
    return found


def step_in(value: Any, step: str | int) -> Any:
    """The key or number of ``step`` in a constructed value."""
    if isinstance(value, dict):
        return next(key for key in value if str(key) == str(step))
    return int(step) + (2 if value[:1] == ["tag"] else 0)


def parent_in(model: Any, path: tuple[str | int, ...]) -> Any:
    for step in path[:-1]:
        model = model[step_in(model, step)]
    return model


NEW = st.one_of(
    st.sampled_from(["107.5", "[1, 2]", "null", "Grace", "{a: 1, b: [x]}", "'quoted'", "true"]).map(parse_value),
    st.sampled_from(["plain", "1.5", "", "two\nlines", "é # x", " lead", "x\n", "it's"]).map(text_value),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["p", "q r", "1"]), inner, max_size=3)
        ),
        max_leaves=5,
    ).map(python_value),
)


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


@settings(max_examples=EXAMPLES)
@given(texts(), st.data())
def test_a_value_that_is_set_is_what_changes(text: str, data: st.DataObject) -> None:
    old = load(text)
    path = data.draw(st.sampled_from(paths(old)))
    new = data.draw(NEW)
    try:
        edit = set_value(text, path, new)
    except SharedValueError:
        assert "*" in text
        with contextlib.suppress(InvalidTreeError):
            if (edit := set_value(text, path, new, shared=True)) is not None:
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
        assert set_value(changed, path, new) is None, "a second run changes nothing"
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
        edit = unset_value(text, path)
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
        edit = set_value(text, (*box, step, *more), new, create=True)
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
        edit = rename_value(text, path, name)
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
        unset_value(text, wrong)
