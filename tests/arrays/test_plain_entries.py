"""What is left out of a second look at a tree has no array and leads to none.  Oracle: the outline of all of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.yaml_trees import HEAD, TreeWriter

from asdffs.arrays.branch import Branch
from asdffs.arrays.outline import read_outline
from asdffs.arrays.plain_entries import find_indicators, plain_runs, without
from asdffs.arrays.rechecking import entries_of
from asdffs.dialects.asdf_1 import PLUGIN as ASDF1
from asdffs.tree.tape import Tape


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
    raw = text.encode()
    entries = entries_of(Tape(raw), ASDF1.is_ndarray)
    assert entries is not None
    return without(raw, plain_runs(entries.offsets[1:], find_indicators(raw))).text.decode()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(150))
def test_arrays_are_the_same(seed: int) -> None:
    text = TreeWriter(seed).text()
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
