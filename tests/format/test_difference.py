"""The differing part of two texts, beside a comparison byte by byte."""

from __future__ import annotations

import random

import pytest

from asdffs.format import plan
from asdffs.format.plan import difference


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 16, 17, 100])
def test_as_byte_by_byte(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(plan, "_COMPARE", 8)
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
