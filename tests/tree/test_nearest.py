"""A path that leads to nothing gets the path that was meant."""

from __future__ import annotations

import random
from typing import Any

import pytest
import yaml

from asdffs.tree.lookups import Values
from asdffs.tree.nearest import nearest
from asdffs.tree.paths import Path, parse_path
from asdffs.tree.tape import Tape

TREE = b"""\
roman:
  meta: {telescope: ROMAN, exposure: {type: WFI, start: 1}, wcs: {name: a}}
  data: !core/ndarray-1.1.0 {source: 0}
t:
  columns: [{name: flux, data: 1}, {name: err, data: 2}]
"""


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("data", "roman.data"),
        ("meta.exposure.type", "roman.meta.exposure.type"),
        ("roman.exposure.start", "roman.meta.exposure.start"),
        ("roman.meta.telescop", "roman.meta.telescope"),
        ("roman.meta.Telescope", "roman.meta.telescope"),
        ("roman.meta.nothing", None),
        ("roman.meta.telescope.x", None),
        ("t.columns[5]", None),
        ("t.flux", "t.columns.flux"),
        ("t.flx", None),
        ("t.columns.flus", "t.columns.flux"),
        ("name", "roman.meta.wcs.name"),
    ],
)
def test_what_was_meant(typed: str, meant: str | None) -> None:
    found = nearest(Tape(TREE), parse_path(typed))
    assert found == (parse_path(meant) if meant else None)


def test_the_sentence() -> None:
    said = Values(TREE).missing(parse_path("data"))
    assert said == "data: there is no such value; the tree has no key 'data'; did you mean roman.data?"
    assert Values(b"").missing(parse_path("data")) == "data: there is no such value; the tree has no key 'data'"


@pytest.mark.parametrize("seed", range(20))
def test_a_path_without_its_first_steps_is_found(seed: int) -> None:
    """What is proposed is in the tree, and ends with what was typed."""
    chance = random.Random(seed)
    tree = _tree(chance, 4)
    paths = [*_paths(tree)]
    text = yaml.safe_dump(tree).encode()
    for path in chance.sample(paths, min(len(paths), 20)):
        typed = path[chance.randrange(len(path)) :]
        found = nearest(Tape(text), typed)
        assert found is not None
        assert found in paths
        assert found[-len(typed) :] == typed
        assert len(found) <= len(path)


def test_a_large_tree_is_looked_at_in_part() -> None:
    text = b"".join(b"k%d: [1, 2]\n" % n for n in range(30_000)) + b"last: {deep: {value: 1}}\n"
    tape = Tape(text)
    assert nearest(tape, ("value",)) is None
    assert nearest(tape, ("k7", 5, "x")) is None


def _tree(chance: random.Random, depth: int) -> dict[str, Any]:
    return {
        chance.choice("abcdefgh") * chance.randint(1, 2): _tree(chance, depth - 1)
        if depth and chance.random() < 0.7
        else 1
        for _ in range(4)
    }


def _paths(tree: dict[str, Any], above: Path = ()) -> list[Path]:
    found: list[Path] = []
    for key, value in tree.items():
        found.append((*above, key))
        if isinstance(value, dict):
            found += _paths(value, (*above, key))
    return found
