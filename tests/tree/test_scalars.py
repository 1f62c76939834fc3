"""The scalars of a tree: one pass over the events gives what a walk over the nodes gives."""

from __future__ import annotations

import random

import pytest

from asdffs.dialects.asdf_1 import PLUGIN as DIALECT
from asdffs.errors import InvalidTreeError
from asdffs.tree.scalar_nodes import scalars_of_nodes
from asdffs.tree.scalar_stream import UnusualTreeError, scalars_in_order
from asdffs.tree.scalars import LONGEST_TEXT, read_scalars

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


def both(text: str) -> tuple[object, object]:
    """What the two ways give: the scalars, or the sentence of the error."""
    found = []
    for way in (read_scalars, scalars_of_nodes):
        try:
            found.append(repr(way(text.encode(), DIALECT)))
        except InvalidTreeError as err:
            found.append(str(err))
    return found[0], found[1]


def is_ordinary(text: str) -> bool:
    try:
        scalars_in_order(text.encode(), DIALECT)
    except UnusualTreeError:
        return False
    except InvalidTreeError:
        return True
    return True


@pytest.mark.parametrize("odd", [0.0, 0.02, 0.2])
def test_random_trees(odd: float) -> None:
    chance = random.Random(odd)
    ordinary = 0
    for _ in range(400):
        text = HEAD + "--- !core/asdf-1.1.0\n" + random_node(chance, 0, odd) + "\n...\n"
        one, other = both(text)
        assert one == other, text
        ordinary += is_ordinary(text)
    assert ordinary == 400 if odd == 0 else 0 < ordinary < 400


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
    for way in (read_scalars, scalars_of_nodes):
        with pytest.raises(InvalidTreeError, match="line 6: the tree is not UTF-8"):
            way(HEAD.encode() + b"---\na: \xff\n...\n", DIALECT)
