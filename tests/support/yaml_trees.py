"""Random trees, written as YAML in many styles."""

from __future__ import annotations

import random
from collections.abc import Iterator

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


class TreeWriter:
    """Writes a random tree as YAML, in many styles."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.number = 0

    def text(self, depth: int = 0) -> str:
        """``depth``: how many mappings of one entry are around the rest of the tree."""
        around = "".join(f"{'  ' * n}in{n}:\n" for n in range(depth))
        rest = around + "".join(self.mapping(depth))
        return f"{HEAD}first: &first !core/ndarray-1.1.0 {{data: [1, 2]}}\n{rest}...\n"

    def mapping(self, depth: int) -> Iterator[str]:
        indent = "  " * depth
        for _ in range(self.random.choice((1, 3, 9, 12))):
            self.number += 1
            if self.random.random() < 0.1:
                yield self.random.choice(("# comment\n", "\n", f"{indent}# more: !x\n"))
            if self.random.random() < 0.05:
                yield from self.shared_datatype(indent)
            key = self.random.choice((f"k{self.number}", f"'k {self.number}'", f'"k\\t{self.number}"'))
            if self.random.random() < 0.1:
                yield f"{indent}? {key}\n{indent}: {self.leaf(indent)}".rstrip("\n") + "\n"
            else:
                yield f"{indent}{key}:{self.value(depth)}".rstrip("\n") + "\n"

    def shared_datatype(self, indent: str) -> Iterator[str]:
        """Yield a datatype with an anchor, as a list of one mapping, and an array that refers to it."""
        self.number += 1
        more = "".join(f"{indent}  more{n}: {n}\n" for n in range(self.random.choice((1, 20))))
        yield f"{indent}t{self.number}: &t{self.number}\n{indent}- name: a\n{more}{indent}  datatype: int8\n"
        array = f"{{source: 0, datatype: *t{self.number}, byteorder: big, shape: [3]}}"
        yield f"{indent}u{self.number}: !core/ndarray-1.1.0 {array}\n"

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
