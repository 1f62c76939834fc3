"""Converts offsets in characters, as PyYAML has them, into offsets in bytes of a text in UTF-8.  Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

#: Bytes between two places whose offsets in characters are known.
_STEP: Final = 4096


class ByteOffsets:
    """The offsets of ``text``.  Needs little memory for a large text, because it is never decoded as a whole."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._bytes, self._characters = array("Q", [0]), array("Q", [0])
        self._start, self._piece = -1, ""
        if not text.isascii():
            self._count()

    def _count(self) -> None:
        place = characters = 0
        while place < len(self._text):
            stop = self._end_of_piece(place)
            characters += len(self._text[place:stop].decode())
            self._bytes.append(stop)
            self._characters.append(characters)
            place = stop

    def _end_of_piece(self, start: int) -> int:
        """Return where a piece ends, which is not inside of a character."""
        stop = min(start + _STEP, len(self._text))
        while stop < len(self._text) and self._text[stop] & 0xC0 == 0x80:
            stop += 1
        return stop

    def convert(self, offsets: Iterable[int]) -> array[int]:
        """Return ``offsets`` in bytes.  Fast if they are in ascending order."""
        return array("Q", offsets if len(self._bytes) == 1 else map(self._converted, offsets))

    def _converted(self, offset: int) -> int:
        number = bisect_right(self._characters, offset) - 1
        start = self._bytes[number]
        if start != self._start:
            self._start, self._piece = start, self._text[start : self._end_of_piece(start)].decode()
        return start + len(self._piece[: offset - self._characters[number]].encode())
