"""Random texts of trees with comments, anchors, aliases, tags and all styles, and the values that they mean.

The values are those that PyYAML constructs: an oracle that shares no code with asdffs.
"""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import strategies as st

from asdffs.tree.snippets import parse_value, python_value, text_value

HEAD = "#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"


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
