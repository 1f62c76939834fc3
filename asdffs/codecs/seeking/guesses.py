"""Guesses where the next pieces of a block begin, to ask the server of a remote file for several at once.

A piece states its own length only, so without guesses each piece costs a round trip.  Neighbouring pieces have nearly
the same stored length.  A wrong guess costs bytes: the stated lengths alone decide what is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

#: The most pieces that are guessed at a time.
_AT_ONCE: Final = 16
#: Bytes around a guess that are fetched, in each direction.
_AROUND: Final = 1 << 14
#: The length field of a piece is in its first bytes.  A guess is right if the fetched part has all of them.
_HEAD: Final = 16


class Guesses:
    """The guesses for one block.  ``ask(parts)`` asks for parts of the stored bytes: each an offset and a length."""

    def __init__(self, ask: Callable[[Sequence[tuple[int, int]]], None]) -> None:
        self._ask = ask
        self._asked: list[tuple[int, int]] = []

    def look_ahead(self, place: int, length: int, count: int) -> None:
        """Ask for the beginnings of the piece at ``place`` and of those after it, ``count`` pieces at most.

        ``length``: the stored bytes of the piece before.
        """
        if count < 2 or length <= 2 * _AROUND or any(start <= place < stop for start, stop in self._asked):
            return
        guessed = [max(0, place + number * length - _AROUND) for number in range(1, min(count, _AT_ONCE))]
        parts = [(place, _AROUND), *((start, 2 * _AROUND) for start in guessed)]
        self._asked = [(start, start + size - _HEAD) for start, size in parts]
        self._ask(parts)
