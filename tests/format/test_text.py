"""What differs in two texts is found as byte by byte; searching in pieces finds the same as searching at once."""

from __future__ import annotations

import random

import pytest

from asdffs.format import plan
from asdffs.format import text as texts
from asdffs.format.text import common_prefix, common_suffix, difference


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 16, 17, 100])
def test_as_byte_by_byte(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(texts, "_COMPARE", 8)
    rng = random.Random(size)
    for _ in range(300):
        old = bytes(rng.choices(b"ab", k=size))
        new = bytearray(old)
        for _ in range(rng.randrange(4)):
            new[rng.randrange(size)] = rng.choice(b"abc")
        places = [place for place in range(size) if old[place] != new[place]]
        wanted = (places[0], bytes(new[places[0] : places[-1] + 1])) if places else None
        assert difference(old, bytes(new)) == wanted
        more = bytes(new) + bytes(rng.choices(b"ab", k=rng.randrange(1, 20)))
        (write,) = plan._changes_of_text(old, more)
        start = places[0] if places else size
        assert (write.offset, write.payload) == (start, more[start:])


@pytest.mark.parametrize("size", [0, 1, 8, 9, 40])
def test_what_is_the_same_at_both_ends(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(texts, "_COMPARE", 8)
    rng = random.Random(size)
    for _ in range(300):
        same, end = bytes(rng.choices(b"ab", k=size)), bytes(rng.choices(b"ab", k=rng.randrange(20)))
        one, other = (same + bytes(rng.choices(b"abc", k=rng.randrange(3))) + end for _ in range(2))
        least = min(len(one), len(other))
        assert common_prefix(one, other) == next((n for n in range(least) if one[n] != other[n]), least)
        most = rng.randrange(least + 1)
        wanted = next((n for n in range(most) if one[-1 - n] != other[-1 - n]), most)
        assert common_suffix(one, other, most) == wanted


@pytest.mark.parametrize("seed", range(20))
def test_what_crosses_the_ends_of_pieces_is_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_PIECE", 4)
    chance = random.Random(seed)
    for _ in range(300):
        text = bytes(chance.choices(b"\n.x", k=chance.randrange(30)))
        what = bytes(chance.choices(b"\n.", k=chance.randint(1, 6)))
        start = chance.randrange(35)
        assert texts.find_in_pieces(text, what, start) == text.find(what, start), (text, what, start)
