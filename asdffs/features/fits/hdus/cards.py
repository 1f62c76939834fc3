"""Changes cards of FITS headers in place, and computes checksums.

Implements FITS 4.0, sections 4.2 (values of cards) and 4.4.2.7 (CHECKSUM and DATASUM), and appendix J.  Pure.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from typing import Final

from asdffs.features.fits.hdus.hdus import CARD, Header

#: Characters that an encoded checksum may not have (appendix J).
_EXCLUDED: Final = frozenset((*range(0x3A, 0x41), *range(0x5B, 0x61)))
_ONES: Final = 0xFFFF_FFFF


def with_integer(header: Header, keyword: str, value: int) -> Header:
    """Return ``header`` with another integer in the card of ``keyword``; its comment stays."""
    _, slash, comment = _card(header, keyword)[10:].partition("/")
    return _with_card(header, keyword, f"{keyword:<8}= {value:>20}" + (f" /{comment}" if slash else ""))


def with_text(header: Header, keyword: str, value: str) -> Header:
    """Return ``header`` with another string in the card of ``keyword``; its comment stays where it was, if it can.

    ``value`` is printable ASCII without quotes.
    """
    old = _card(header, keyword)
    rest = old[old.index("'", 11) + 1 :]
    start = f"{keyword:<8}= '{value:<8}'"
    _, slash, comment = rest.partition("/")
    before = max(len(start) + 1, len(old) - len(slash + comment))
    return _with_card(header, keyword, f"{start:<{before}}/{comment}" if slash else start)


def _card(header: Header, keyword: str) -> str:
    place = header.places[keyword]
    return header.raw[place : place + CARD].decode("ascii", "replace").rstrip()


def _with_card(header: Header, keyword: str, text: str) -> Header:
    place = header.places[keyword]
    card = text[:CARD].ljust(CARD).encode("ascii", "replace")
    return header._replace(raw=header.raw[:place] + card + header.raw[place + CARD :])


def sum_of(pieces: Iterable[bytes | memoryview]) -> int:
    """Return the ones' complement sum of 32-bit integers; each piece has a multiple of 4 bytes."""
    total = 0
    for piece in pieces:
        numbers = array("I", bytes(piece))
        if sys.byteorder == "little":
            numbers.byteswap()
        total += sum(numbers)
    while total > _ONES:
        total = (total & _ONES) + (total >> 32)
    return total


def with_sums(header: Header, data_sum: int) -> Header:
    """Return ``header`` with right checksums for data with the sum ``data_sum``, in the cards that it has."""
    if header.text("DATASUM") is not None:
        header = with_text(header, "DATASUM", str(data_sum))
    if header.text("CHECKSUM") is None:
        return header
    header = with_text(header, "CHECKSUM", "0" * 16)
    total = sum_of([header.raw, data_sum.to_bytes(4, "big")])
    return with_text(header, "CHECKSUM", encode_sum(_ONES - total))


def encode_sum(value: int) -> str:
    """Return the 16 characters that stand for a 32-bit ``value`` (appendix J)."""
    found = [0] * 16
    for place, byte in enumerate(value.to_bytes(4, "big")):
        parts = [byte // 4 + byte % 4 + 0x30, *[byte // 4 + 0x30] * 3]
        while _EXCLUDED & set(parts):
            for first in (0, 2):
                if _EXCLUDED & set(parts[first : first + 2]):
                    parts[first] += 1
                    parts[first + 1] -= 1
        for number, part in enumerate(parts):
            found[4 * number + place] = part
    return bytes([found[-1], *found[:-1]]).decode("ascii")
