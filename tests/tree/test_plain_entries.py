"""What is left out of a second look at a tree has no array and leads to none.  Oracle: the outline of all of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from asdffs.dialects.asdf_1 import PLUGIN as ASDF1
from asdffs.tree.branch import Branch
from asdffs.tree.events import read_tree
from asdffs.tree.outline import read_outline
from asdffs.tree.plain_entries import without_plain_entries

HEAD = "#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
#: ``@`` stands for the indentation of the key, ``%`` for a number.
LEAVES = (
    "{a: 1, b: 2,\n@ c: 3, d: 4,\n@ e: 5, f: 6,\n@ g: 7, h: !core/ndarray-1.1.0 [1],\n@ i: 8, j: 9,\n@ k: 10}",
    "1", "text \u00b5", "'!x'", '"&a"', "[1, 2]", "{a: 1, b: 2}", "''", "2020-01-01", "|\n@  lines\n@   more: 1\n",
    ">-\n@  folded\n\n@  # no comment\n", '"two\n@  lines"', "plain\n@  lines # comment\n", "[1,\n@ 2]",
    "{a: 1,\n@ b: !core/ndarray-1.1.0 [1],\n@ c: 3}", "{\n@ a: 1\n@ ,\n@ b: 2\n@ }",
)  # fmt: skip
ARRAYS = (
    "!core/ndarray-1.1.0 {source: %, datatype: int8, byteorder: big, shape: [3], mask: 3}",
    "!core/ndarray-1.1.0\n@  source: %\n@  datatype: int8\n@  byteorder: big\n@  shape: [3]\n"
    "@  offset: 1\n@  strides: [1]\n@  mask: 7\n@  more: 1\n@  rest: 2\n",
    "!core/ndarray-1.1.0\n@  source: %\n@  datatype: int8\n@  byteorder: big\n@  shape: [3]\n"
    "@  mask: !core/ndarray-1.1.0 [true, false, false]\n",
    "!core/ndarray-1.1.0 [1, 2, %]", "&n% !core/ndarray-1.1.0 {data: [1, 2]}", "*first", "{$ref: '#/first'}",
    '{"\\x24ref": "#/first"}', "{<<: *first}",
)  # fmt: skip


class Writer:
    """Writes a random tree as YAML, in many styles."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.number = 0

    def text(self) -> str:
        rest = "".join(self.mapping(0))
        return f"{HEAD}first: &first !core/ndarray-1.1.0 {{data: [1, 2]}}\n{rest}...\n"

    def mapping(self, depth: int) -> Iterator[str]:
        indent = "  " * depth
        for _ in range(self.random.choice((1, 3, 9, 12))):
            self.number += 1
            if self.random.random() < 0.1:
                yield self.random.choice(("# comment\n", "\n", f"{indent}# more: !x\n"))
            key = self.random.choice((f"k{self.number}", f"'k {self.number}'", f'"k\\t{self.number}"'))
            if self.random.random() < 0.1:
                yield f"{indent}? {key}\n{indent}: {self.leaf(indent)}".rstrip("\n") + "\n"
            else:
                yield f"{indent}{key}:{self.value(depth)}".rstrip("\n") + "\n"

    def value(self, depth: int) -> str:
        chance = self.random.random()
        if chance < 0.25 and depth < 4:
            tag = self.random.choice(("", "", " !other/thing-1.0.0", " &a" + str(self.number)))
            return tag + "\n" + "".join(self.mapping(depth + 1))
        if chance < 0.35 and depth < 4:
            items = self.random.choice((1, 3))
            inner = "  " * (depth + 1)
            return "\n" + "".join(f"{inner}- " + "".join(self.mapping(depth + 2)).lstrip(" ") for _ in range(items))
        return " " + self.leaf("  " * depth)

    def leaf(self, indent: str) -> str:
        choices = ARRAYS if self.random.random() < 0.1 else LEAVES
        return self.random.choice(choices).replace("@", indent).replace("%", str(self.number))


def facts(text: str) -> list[Any]:
    """All that the rules for arrays look at, and the paths to all arrays."""
    outline = read_outline(text.encode(), ASDF1, spans=False)

    def of(branch: Branch) -> Any:
        start, stop = branch.inline or (0, 0)
        mask = branch.children.get("mask")
        return (
            *(branch.path, branch.tag, branch.line, branch.array, branch.scalars.get("mask"), branch.nulls),
            *(outline.text[start:stop] if branch.inline else None, of(mask) if mask is not None else None),
        )

    def paths(branch: Branch, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
        yield path
        for key, child in branch.children.items():
            if child.holds:
                yield from paths(child, (*path, key))

    assert outline.root is not None
    return [*(of(branch) for branch in outline.arrays), *paths(outline.root)]


def shortened(text: str) -> str:
    return without_plain_entries(
        text.encode(), read_tree(text.encode(), ASDF1.is_ndarray, unique=True).mappings
    ).decode()


@pytest.mark.parametrize("seed", range(400))
def test_arrays_are_the_same(seed: int) -> None:
    text = Writer(seed).text()
    short = shortened(text)
    assert facts(short) == facts(text)
    assert short.count("\n") == text.count("\n")


def test_entries_without_arrays_are_left_out() -> None:
    plain = "".join(f"k{n}: [1, {n}, \u00e9]\n" for n in range(1000))
    text = f"{HEAD}{plain}a: !core/ndarray-1.1.0 [1]\n{plain.replace('k', 'j')}...\n"
    assert shortened(text).split() == f"{HEAD}k0: [1, 0, \u00e9]\na: !core/ndarray-1.1.0 [1]\n...\n".split()


@pytest.mark.parametrize("end", ["\r", "\x85", "\u2028"])
def test_unusual_ends_of_lines_leave_the_text_as_it_is(end: str) -> None:
    text = HEAD + "".join(f"k{n}: {n}{end if n % 2 else chr(10)}" for n in range(20)) + "\n...\n"
    assert shortened(text) == text
