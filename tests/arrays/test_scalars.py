"""The scalars of a tree: one pass over the events gives what a walk over the nodes gives."""

from __future__ import annotations

import random

import pytest

from asdffs.arrays.ndarrays import arrays_of
from asdffs.arrays.scalars import LONGEST_LIST, LONGEST_TEXT, Scalars, read_scalars
from asdffs.dialects.asdf_1 import PLUGIN as DIALECT
from asdffs.errors import InvalidTreeError
from asdffs.limits import INDEXED
from asdffs.tree.paths import format_path
from asdffs.tree.tape import Tape
from asdffs.tree.values import ValueNode, read_values

HEAD = "#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n"
SCALARS = [
    "1",
    "-2.5",
    "true",
    "null",
    "~",
    "text",
    "'1'",
    '"a\\nb"',
    "2026-11-25",
    "0x10",
    "1:30",
    ".nan",
    "yes",
    "''",
    "<<",
]
KEYS = ["a", "b", "'odd key'", "c.d", "1", "true", '"é"', "e[0]", "yes"]
ARRAYS = [
    "!core/ndarray-1.0.0 {source: 0, datatype: float32, byteorder: big, shape: [3, 4]}",
    "!core/ndarray-1.0.0 {data: [1, 2, 3], datatype: int8}",
    "!core/ndarray-1.0.0 {source: 1, datatype: [{name: x, datatype: int8}], shape: ['*', 2]}",
    "!core/ndarray-1.0.0 {}",
    "!core/ndarray-1.0.0 [1, 2]",
]
UNUSUAL = ["&x 1", "*x", "&y {a: 1}", "{<<: *y, b: 2}", "{a: 1, a: {b: 2}}", "{? [1] : 2}", "{'': 1}", "{? : 1}"]


def random_node(chance: random.Random, depth: int, odd: float) -> str:
    kind = chance.random()
    if chance.random() < odd:
        return chance.choice(UNUSUAL)
    if kind < 0.35 and depth < 5:
        keys = chance.sample(KEYS, chance.randrange(len(KEYS)))
        return "{" + ", ".join(f"{key}: {random_node(chance, depth + 1, odd)}" for key in keys) + "}"
    if kind < 0.55 and depth < 5:
        count = chance.choice([0, 1, 3, 99, 100, 101, 130]) if chance.random() < 0.1 else chance.randrange(4)
        return "[" + ", ".join(random_node(chance, depth + 2, odd) for _ in range(count)) + "]"
    return chance.choice(ARRAYS) if kind < 0.65 else chance.choice(SCALARS)


class Walk:
    """The same by the nodes of the tree, one after the other."""

    def __init__(self, text: bytes) -> None:
        self.found = Scalars({}, [], [], [], [])
        self.left = INDEXED
        self.names: set[tuple[str | int, ...]] = set()
        self.visit(read_values(text, distinguish_quoted=False), ())
        arrays = {array.path: array for array in arrays_of(Tape(text), DIALECT)}
        self.found.arrays.extend(arrays[path] for path in arrays if path in self.names)

    def visit(self, node: ValueNode, path: tuple[str | int, ...]) -> None:
        value, name, found = node.value, format_path(path) if path else "", self.found
        self.left -= 1
        if self.left <= 0:
            found.left_out.extend([] if self.left else ["."])
        elif value in ({}, []):
            found.empty.extend([name] if name else [])
        elif isinstance(value, dict) and node.tag and DIALECT.is_ndarray(node.tag):
            self.names.add(path)
        elif isinstance(value, list) and len(value) > LONGEST_LIST:
            found.left_out.append(name)
        elif isinstance(value, (dict, list)):
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                self.visit(item, (*path, key))
            found.full.extend([name] if name else [])
        elif isinstance(value, str) and len(value) > LONGEST_TEXT:
            found.left_out.append(name)
        elif name:
            found.values[name] = value


def both(text: str) -> tuple[object, object]:
    """What the two ways give: the scalars, or the sentence of the error."""
    found = []
    for way in (read_scalars, lambda text, _: Walk(text).found):
        try:
            values, arrays, *rest = way(text.encode(), DIALECT)
            paths = {array.path for array in arrays}
            found.append(repr((values, sorted(map(str, paths)), rest)))
        except InvalidTreeError as err:
            found.append(str(err))
    return found[0], found[1]


@pytest.mark.parametrize("odd", [0.0, 0.02, 0.2])
def test_random_trees(odd: float) -> None:
    chance = random.Random(odd)
    for _ in range(400):
        text = HEAD + "--- !core/asdf-1.1.0\n" + random_node(chance, 0, odd) + "\n...\n"
        one, other = both(text)
        assert one == other, text


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "tree",
    [
        "",
        "--- text\n",
        "--- {}\n",
        "--- []\n",
        "---\n",
        "--- {a: [}\n",
        "--- {a: 1}\n--- {b: 2}\n",
        "--- !core/ndarray-1.0.0 {}\n",
        "--- !core/ndarray-1.0.0 {source: 0}\n",
        f"--- {{a: {'x' * (LONGEST_TEXT + 1)}, b: 0x{'1' * 70000}, c: {'1' * 70000}}}\n",
        "--- {a: [" + "1, " * 60_000 + "]}\n",
        "--- {" + ", ".join(f"a{n}: 1" for n in range(50_001)) + "}\n",
        "--- {a: [" + ", ".join(f"[{n}, {{b: {n}}}]" for n in range(101)) + "], z: 1}\n",
        "--- {a: [" + ", ".join(["&x 1", "*x"] * 60) + "], z: 1}\n",
        "--- " + "[" * 255 + "]" * 255 + "\n",
        "--- " + "[" * 300 + "]" * 300 + "\n",
        "--- " + "{a: " * 300 + "1" + "}" * 300 + "\n",
        "--- {a: !custom {b: 1}, c: !!str 5, d: !core/complex-1.0.0 1+1j}\n",
    ],
)
def test_odd_trees(tree: str) -> None:
    one, other = both(HEAD + tree + "...\n")
    assert one == other


def test_bytes_that_are_not_utf8() -> None:
    with pytest.raises(InvalidTreeError, match="line 6: the tree is not UTF-8"):
        read_scalars(HEAD.encode() + b"---\na: \xff\n...\n", DIALECT)


def test_regression_merge_keys_of_merge_keys_are_read_once() -> None:
    """Each level merges the one below it fifty times: read one by one, nobody would see the end."""
    levels = [f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 50)}]}}\n" for n in range(1, 12)]
    text = HEAD + "---\nm0: &m0 {}\n" + "".join(levels) + "...\n"
    assert read_scalars(text.encode(), DIALECT).values == {}


def test_texts_that_asdf_broke_into_lines_are_told_by_what_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """asdf breaks the lines of a flow mapping within texts: of 1,800 in one mapping, hundreds have two lines."""
    entries = ",\n    ".join(f"key{n}: text\n    {n}" for n in range(1000))
    text = f"{HEAD}--- !core/asdf-1.1.0\nmeta: {{{entries}}}\n...\n".encode()
    looked: list[int] = []
    monkeypatch.setattr(Tape, "scalar", lambda tape, row: looked.append(row))
    found = read_scalars(text, DIALECT)
    assert found.values == {f"meta.key{n}": f"text {n}" for n in range(1000)}
    assert not looked
