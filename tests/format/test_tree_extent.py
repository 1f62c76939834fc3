"""Searching in pieces finds the same as searching at once."""

from __future__ import annotations

import random

import pytest

from asdffs.format import tree_extent


@pytest.mark.parametrize("seed", range(20))
def test_what_crosses_the_ends_of_pieces_is_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_extent, "_PIECE", 4)
    chance = random.Random(seed)
    for _ in range(300):
        text = bytes(chance.choices(b"\n.x", k=chance.randrange(30)))
        what = bytes(chance.choices(b"\n.", k=chance.randint(1, 6)))
        start = chance.randrange(35)
        assert tree_extent.find_in_pieces(text, what, start) == text.find(what, start), (text, what, start)
