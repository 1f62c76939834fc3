"""Entries of a tree change, and nothing else of its text."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from asdffs.errors import InvalidTreeError
from asdffs.features.daf import splicing
from asdffs.features.daf.nodes import KEPT, KeptEntryError, quoted
from asdffs.features.daf.splicing import changed
from asdffs.tree.tape import Tape

HEAD = "#ASDF 1.0.0\n%YAML 1.1\n---\n"
TABLE = [
    # what, text, old, new, expected
    ("a value", "a: 1\nb: 2\n", {"a": "1"}, {"a": "3"}, "a: 3\nb: 2\n"),
    ("a new key", "a: 1\n", {}, {"b": "2"}, "a: 1\nb: 2\n"),
    ("one less", "a: 1\nb: 2\nc: 3\n", {"b": "2"}, {}, "a: 1\nc: 3\n"),
    ("a foreign key stays", "d:\n  x: 1\n  y: 2\n", {"d": {"x": "1"}}, {"d": {"x": "5"}}, "d:\n  x: 5\n  y: 2\n"),
    ("the last one goes", "d:\n  x: 1\n", {"d": {"x": "1"}}, {"d": {}}, "d: {}\n"),
    ("the first one comes", "d: {}\n", {"d": {}}, {"d": {"x": "1"}}, "d:\n  x: 1\n"),
    ("flow is written anew", "d: {x: 1}  # c\n", {"d": {"x": "1"}}, {"d": {"x": "2"}}, "d:  # c\n  x: 2\n"),
    (
        "comments above stay, those of what goes do not",
        "# a\na: 1  # one\n# b\nb: 2\n# c\nc: 3\n",
        {"a": "1", "b": "2", "c": "3"},
        {"a": "1", "c": "4"},
        "# a\na: 1  # one\n# c\nc: 4\n",
    ),
    (
        "what is kept may be anything",
        "d:\n  x: |\n    text\n    more\n\n  y:\n  - 1\n  -  2 # two\n  z: !t {a: [1,\n     2]}\n",
        {"d": {"x": KEPT, "y": KEPT, "z": KEPT}},
        {"d": {"x": KEPT, "z": KEPT, "w": "0"}},
        "d:\n  x: |\n    text\n    more\n\n  z: !t {a: [1,\n     2]}\n  w: 0\n",
    ),
    ("deep", "d:\n    a:\n        b: 1\n", {"d": {"a": {"b": "1"}}}, {"d": {"a": {"c": "2"}}}, None),
    (
        "quoted keys",
        "d:\n  'yes': 1\n  \"n\": 2\n",
        {"d": {"yes": "1", "n": "2"}},
        {"d": {"yes": "3", "n": "2"}},
        None,
    ),
    ("an empty tree", "{}\n", {}, {"d": {"x": "1"}}, "\nd:\n  x: 1\n"),
    ("a tree in flow style", "{a: 1}\n", {}, {"d": {"x": "1"}}, "{a: 1, d: {x: 1}}\n"),
    ("a comment behind {}", "d: {}  # c\n", {"d": {}}, {"d": {"x": "1"}}, "d:  # c\n  x: 1\n"),
    ("a comment behind a key", "d:  # c\n  x: 1\n", {"d": {"x": "1"}}, {"d": {}}, "d: {}  # c\n"),
    (
        "flow keeps what it does not know",
        "d: {x: 1, y: 2}\n",
        {"d": {"x": "1"}},
        {"d": {"x": "3"}},
        "d:\n  x: 3\n  y: 2\n",
    ),
    ("explicit keys", "? a\n: 1\n? b\n: 2\n", {"a": "1"}, {"a": "3", "c": "4"}, "a: 3\n? b\n: 2\nc: 4\n"),
    ("two keys of one text", '1: x\nb: 2\n"1": y\n', {}, {"d": "3"}, '1: x\nb: 2\n"1": y\nd: 3\n'),
    ("a tag of the root", "!t {a: 1}\n", {}, {"d": "2"}, "!t {a: 1, d: 2}\n"),
    ("a comment in flow", "{a: 1 # c\n}\n", {}, {"d": "2"}, "{a: 1 # c\n  , d: 2}\n"),
    ("an anchor goes", "a: &x [1, 2]\nb: *x\nc: *x\n", {"a": KEPT}, {}, "b: &x [1, 2]\nc: *x\n"),
    ("stars in strings stay", "a: &b 1\nn: '5 *b' # *b\nc: *b\n", {"a": KEPT}, {}, "n: '5 *b' # *b\nc: &b 1\n"),
    ("an anchor whose children change", "a: &b\n  x: 1\nc: *b\n", {"a": {"x": "1"}}, {"a": {"x": "2"}}, None),
    (
        "deep flow keeps others",
        "d: {q: {r: {bad: 5, x: 1}}}\n",
        {"d": {"q": {"r": {"x": "1"}}}},
        {"d": {"q": {"r": {"x": "2"}}, "s": "3"}},
        "d:\n  q:\n    r:\n      x: 2\n      bad: 5\n  s: 3\n",
    ),
    (
        "flow of several lines",
        'd: {x: 1, m: {x: 1, # c\n  y: "a\n\n  b"}}\n',
        {"d": {"x": "1"}},
        {"d": {"x": "2"}},
        'd:\n  x: 2\n  m: {x: 1, y: "a\\nb"}\n',
    ),
    ("lists that are not indented", "d:\n- 1\n- 2\ne: 3\n", {"e": "3"}, {"e": "4"}, "d:\n- 1\n- 2\ne: 4\n"),
]


@pytest.mark.parametrize(("what", "text", "old", "new", "expected"), TABLE, ids=[row[0] for row in TABLE])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_table(what: str, text: str, old: Any, new: Any, expected: str | None, newline: str) -> None:
    whole = (HEAD + text + "...\n").replace("\n", newline)
    found = changed(whole.encode(), old, new).decode()
    loaded = yaml.safe_load(found.replace("!t ", ""))
    for key, value in new.items():
        assert key in loaded, what
        if isinstance(value, dict):
            assert set(value) <= set(loaded[key])
    if expected is not None and newline == "\n":
        assert found == HEAD + expected + "...\n"


def test_what_is_kept_is_not_made_up() -> None:
    with pytest.raises(KeptEntryError):
        changed((HEAD + "d: {x: 1, y: 2}\n...\n").encode(), {"d": {"x": KEPT, "y": KEPT}}, {"d": {"x": KEPT}})


def test_a_tree_that_is_no_mapping() -> None:
    with pytest.raises(InvalidTreeError):
        changed((HEAD + "- 1\n...\n").encode(), {}, {"d": "1"})


KEYS = st.text("abyn1~'\"#: -é\t", min_size=1, max_size=4)
TREES = st.dictionaries(KEYS, st.dictionaries(KEYS, st.dictionaries(KEYS, st.integers(0, 9), max_size=3), max_size=3))


def as_nodes(tree: dict[str, Any]) -> dict[str, Any]:
    return {key: as_nodes(value) if isinstance(value, dict) else str(value) for key, value in tree.items()}


@given(TREES, TREES, st.booleans())
def test_whatever_changes_is_what_is_wanted(old: dict[str, Any], new: dict[str, Any], flow: bool) -> None:
    foreign = {"zz other": {"k": [1, {"l": "m"}], "t": "two\nlines\n"}, "zz last": None}
    text = HEAD + yaml.safe_dump(old | foreign, allow_unicode=True, default_flow_style=flow) + "...\n"
    found = changed(text.encode(), as_nodes(old), as_nodes(new)).decode()
    assert yaml.safe_load(found) == new | foreign


def test_a_long_key() -> None:
    key = "k" * 1100
    found = changed((HEAD + "d: {}\n...\n").encode(), {"d": {}}, {"d": {key: {"x": "1"}, "y": "2"}}).decode()
    assert yaml.safe_load(found) == {"d": {key: {"x": 1}, "y": 2}}
    found = changed(found.encode(), {"d": {key: KEPT, "y": "2"}}, {"d": {key: KEPT, "z": "3"}}).decode()
    assert yaml.safe_load(found) == {"d": {key: {"x": 1}, "z": 3}}


def test_it_takes_no_longer_than_reading() -> None:
    """Ten times the text takes ten times as long, not a hundred times."""
    events = []
    for count in (50, 500):
        tree = {f"a{n}": {f"b{m}": {"c": m} for m in range(10)} for n in range(count)}
        text = (HEAD + yaml.safe_dump(tree) + "...\n").encode()
        tape = Tape(text)
        tape.text = lines = Counted(text.decode())
        root = splicing._mapping_at(tape, 0)
        assert root is not None
        assert all(entry.mapping for entry in root.entries.values())
        events.append(lines.looked / count)
    assert events[1] < 1.5 * events[0]


class Counted(str):
    """A text that counts what is cut out of it."""

    looked = 0

    def __getitem__(self, part: Any) -> str:
        found = str.__getitem__(self, part)
        self.looked += len(found)
        return found


@given(st.text())
def test_strings_are_read_back(text: str) -> None:
    if any("\ud800" <= character <= "\udfff" for character in text):
        return
    assert yaml.safe_load(quoted(text)) == text
    assert yaml.load(f"{{{quoted(text)}: [{quoted(text)}, 1]}}", Loader=yaml.CSafeLoader) == {text: [text, 1]}
