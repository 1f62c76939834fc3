"""Guesses where the next pieces of a block begin, so that a server is asked for several of them at the same time.

The pieces of a chain say only how long they are themselves.  So each would be a round trip to the server of a remote
file.  But pieces that follow each other have nearly the same stored length.  Guesses decide only what is fetched
early; what is read is decided by the lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

#: The most pieces that are guessed at a time.
_AT_ONCE: Final = 16
#: Bytes around a guess that are fetched, in each direction.
_AROUND: Final = 1 << 14
#: A piece says how long it is in its first bytes, which must be in the part that was asked for.
_HEAD: Final = 16


class Guesses:
    """The guesses for one block.  ``ask(parts)`` asks for parts of the stored bytes: each an offset and a length."""

    def __init__(self, ask: Callable[[Sequence[tuple[int, int]]], None]) -> None:
        self._ask = ask
        self._asked: list[tuple[int, int]] = []

    def look_ahead(self, place: int, length: int, count: int) -> None:
        """Say that the piece at ``place`` is read next, and up to ``count`` others after it.

        ``length``: the stored bytes of the piece before.
        """
        if count < 2 or length <= 2 * _AROUND or any(start <= place < stop for start, stop in self._asked):
            return
        guessed = [max(0, place + number * length - _AROUND) for number in range(1, min(count, _AT_ONCE))]
        parts = [(place, _AROUND), *((start, 2 * _AROUND) for start in guessed)]
        self._asked = [(start, start + size - _HEAD) for start, size in parts]
        self._ask(parts)
