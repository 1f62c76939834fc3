"""Tells whether a saved tree corrects a text that was refused before.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

#: More lines than these are not compared one by one: all of them count as changed.
_MOST: Final = 2000


def corrects(before: bytes, refused: bytes, saved: bytes) -> bool:
    """Return whether ``saved`` changes any of the lines that ``refused`` would have changed.

    ``before``: the tree that both would replace.  A save that changes other lines corrects nothing: what somebody
    typed into the refused text would be lost without a word.
    """
    lines = before.splitlines()
    wanted = _changed(lines, refused.splitlines())
    done = _changed(lines, saved.splitlines())
    return any(_overlap(one, two) for one in wanted for two in done)


def _changed(old: Sequence[bytes], new: Sequence[bytes]) -> list[tuple[int, int]]:
    """Return the ranges of lines of ``old`` that are not in ``new``; an empty range is where lines are added."""
    least = min(len(old), len(new))
    start = next((n for n in range(least) if old[n] != new[n]), least)
    end = next((n for n in range(least - start) if old[-1 - n] != new[-1 - n]), least - start)
    i, j = len(old) - end, len(new) - end
    if max(i, j) - start > _MOST:
        return [(start, i)]
    from difflib import SequenceMatcher  # few saves are refused

    codes = SequenceMatcher(None, old[start:i], new[start:j]).get_opcodes()
    return [(start + first, start + last) for tag, first, last, _, _ in codes if tag != "equal"]


def _overlap(one: tuple[int, int], two: tuple[int, int]) -> bool:
    """Return whether two ranges of lines have a line in common, or one of them is empty and touches the other."""
    if one[0] == one[1] or two[0] == two[1]:
        return one[0] <= two[1] and two[0] <= one[1]
    return one[0] < two[1] and two[0] < one[1]
