"""Converts offsets in characters, as PyYAML has them, into offsets in bytes of a text in UTF-8.  Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

#: Characters between two places whose offsets in bytes are known.
_STEP: Final = 2048


class ByteOffsets:
    """The offsets of ``text``.  Needs little memory for a large text, because it is never encoded as a whole."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._bytes = array("Q", [0])
        if not text.isascii():
            for place in range(0, len(text), _STEP):
                self._bytes.append(self._bytes[-1] + len(text[place : place + _STEP].encode()))

    def convert(self, offsets: Iterable[int]) -> array[int]:
        """Return ``offsets`` in bytes."""
        return array("Q", offsets if len(self._bytes) == 1 else map(self._converted, offsets))

    def _converted(self, offset: int) -> int:
        number = offset // _STEP
        return self._bytes[number] + len(self._text[number * _STEP : offset].encode())

    def character(self, offset: int) -> int:
        """Return the offset in characters of the byte at ``offset``, which begins a character."""
        if len(self._bytes) == 1:
            return offset
        number = bisect_right(self._bytes, offset) - 1
        piece = self._text[number * _STEP : (number + 1) * _STEP].encode()[: offset - self._bytes[number]]
        return min(number * _STEP + len(piece.decode()), len(self._text))
