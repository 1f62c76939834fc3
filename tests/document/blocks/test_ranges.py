"""``Ranges`` against a set of numbers."""

from __future__ import annotations

import itertools
import random

from asdffs.document.blocks.spool import Ranges

END = 60


def test_it_is_a_set_of_numbers() -> None:
    chance = random.Random(27)
    for _ in range(60):
        ranges, model = Ranges(), set[int]()
        for _ in range(60):
            start = chance.randrange(END)
            stop = chance.randrange(start, END + 1)
            asked = set(range(start, stop))
            action = chance.randrange(3)
            if action == 0:
                ranges.add(start, stop)
                model |= asked
            elif action == 1:
                assert ranges.remove(start, stop) == len(model & asked)
                model -= asked
            assert ranges.missing(start, stop) == min(asked - model, default=None)
            assert ranges.touches(start, stop) == bool(model & asked)
            assert {n for a, b in ranges.gaps(start, stop) for n in range(a, b)} == asked - model
            assert [n for a, b in ranges for n in range(a, b)] == sorted(model)
            spans = list(ranges)
            assert all(b < c for (_, b), (c, _) in itertools.pairwise(spans))
            assert ranges.size == len(model)
