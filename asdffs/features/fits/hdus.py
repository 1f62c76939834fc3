"""Reads and changes the headers of a FITS file: where each header/data unit (HDU) is, and its keywords and checksums.

Cards are changed in place.  Implements FITS 4.0, sections 3.3 (structure), 4.1 and 4.2 (cards and values), 4.4.1 and
7 (sizes), 4.4.2.7 (CHECKSUM and DATASUM), and appendix J.  Pure.
"""

from __future__ import annotations

import math
import re
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from asdffs.errors import DamagedFileError

Read = Callable[[int, int], bytes]

#: Headers and data fill whole records of this size, in bytes.
RECORD: Final = 2880
#: Bytes of a card, a line of a header.
CARD: Final = 80
#: A longer header, in bytes, or a larger number of HDUs, is refused.
_LONGEST: Final = 16 << 20
_MOST: Final = 20_000
#: Records of a header that are read at once.
_AT_ONCE: Final = 8
_END: Final = b"END".ljust(CARD)
_NAME: Final = re.compile(rb"[A-Z0-9_-]+ *")
_TEXT: Final = re.compile(r"\s*'((?:[^']|'')*)'")
#: Characters that an encoded checksum may not have (appendix J).
_EXCLUDED: Final = frozenset((*range(0x3A, 0x41), *range(0x5B, 0x61)))
_ONES: Final = 0xFFFF_FFFF


class Header(NamedTuple):
    """The header of one HDU.  ``raw``: its bytes, from ``start`` on.  ``places``: offset in ``raw`` by keyword."""

    start: int
    raw: bytes
    places: Mapping[str, int]

    def text(self, keyword: str) -> str | None:
        """Return the value of ``keyword`` if it is a string, without spaces at its end; else None."""
        match = _TEXT.match(self._value(keyword))
        return match[1].replace("''", "'").rstrip() if match else None

    def integer(self, keyword: str) -> int | None:
        """Return the value of ``keyword`` if it is an integer, else None."""
        value = self._value(keyword).partition("/")[0].strip()
        return int(value) if re.fullmatch(r"[+-]?[0-9]{1,20}", value) else None

    def number(self, keyword: str) -> float | None:
        """Return the value of ``keyword`` if it is a number, else None."""
        try:
            return float(self._value(keyword).partition("/")[0].strip().replace("D", "E").replace("d", "e"))
        except ValueError:
            return None

    def flag(self, keyword: str) -> bool:
        """Return whether the value of ``keyword`` is true."""
        return self._value(keyword).partition("/")[0].strip() == "T"

    def once(self, wanted: Callable[[str], object] = lambda keyword: True) -> bytes:
        """Return the cards with ``wanted`` keywords that are read here, each keyword once, as a header of its own."""
        places = [place for keyword, place in self.places.items() if wanted(keyword)]
        cards = b"".join([*(self.raw[place : place + CARD] for place in places), _END])
        return cards.ljust(filled(len(cards)))

    def _value(self, keyword: str) -> str:
        place = self.places.get(keyword)
        if place is None:
            return ""
        return self.raw[place + 10 : place + CARD].decode("ascii", "replace")


class Hdu(NamedTuple):
    """One HDU.  ``data``: where its data begin; ``length``: their size without filling, both in bytes."""

    number: int
    header: Header
    data: int
    length: int

    @property
    def stop(self) -> int:
        """The end of the last record of its data."""
        return self.data + filled(self.length)

    @property
    def axes(self) -> tuple[int, ...]:
        """The lengths of its axes: NAXIS1 first."""
        return tuple(self.header.integer(f"NAXIS{n}") or 0 for n in range(1, (self.header.integer("NAXIS") or 0) + 1))

    @property
    def name(self) -> str:
        """EXTNAME in capitals, as FITS compares names; ``PRIMARY`` for the first HDU without one."""
        return (self.header.text("EXTNAME") or ("PRIMARY" if self.number == 0 else "")).upper()

    @property
    def version(self) -> int:
        """EXTVER, 1 if it is not stated."""
        found = self.header.integer("EXTVER")
        return 1 if found is None else found


def filled(length: int) -> int:
    """Return the bytes of the whole records that ``length`` bytes take."""
    return -(-length // RECORD) * RECORD


def read_hdus(read: Read, size: int) -> Iterator[Hdu]:
    """Yield the HDUs of a file of ``size`` bytes.  Raises ``DamagedFileError``, ``OSError``.

    What follows the last HDU, as far as the file goes, is left out (FITS 4.0, section 3.5: special records).
    """
    offset, index = 0, 0
    while offset < size:
        if index and read(offset, 8) != b"XTENSION":
            return
        if index == _MOST:
            raise DamagedFileError(
                f"has more than {_MOST} FITS extensions, which asdffs does not read", offset=offset
            )
        found = _hdu(index, _read_header(read, offset))
        yield found
        offset, index = found.stop, index + 1


def _read_header(read: Read, start: int) -> Header:
    raw = b""
    places: dict[str, int] = {}
    while len(raw) < _LONGEST:
        piece = read(start + len(raw), _AT_ONCE * RECORD)
        begin, raw = len(raw), raw + piece
        for place in range(begin, begin + len(piece) // CARD * CARD, CARD):
            card = raw[place : place + CARD]
            if card == _END:
                return Header(start, raw[: filled(place + CARD)], places)
            if card[8:10] == b"= " and _NAME.fullmatch(card[:8]):
                places.setdefault(card[:8].decode().rstrip(), place)
        if len(piece) < _AT_ONCE * RECORD:
            raise DamagedFileError("the file ends inside a FITS header", offset=start)
    raise DamagedFileError(f"a FITS header is longer than {_LONGEST >> 20} MiB", offset=start)


def _hdu(index: int, header: Header) -> Hdu:
    """Return the HDU of a header, with the size of its data (equations 1 to 3 of FITS 4.0)."""
    count = header.integer("NAXIS")
    bits = header.integer("BITPIX")
    if bits not in (8, 16, 32, 64, -32, -64) or count is None or not 0 <= count <= 999:
        raise DamagedFileError("a FITS header states no valid BITPIX and NAXIS", offset=header.start)
    axes = [header.integer(f"NAXIS{n}") for n in range(1, count + 1)]
    if any(axis is None or axis < 0 for axis in axes):
        raise DamagedFileError("a FITS header states no valid length of an axis", offset=header.start)
    lengths = [axis for axis in axes if axis is not None]
    if index == 0 and lengths[:1] == [0] and len(lengths) > 1:  # random groups (section 6)
        lengths = lengths[1:]
    groups, heap = _stated(header, "GCOUNT", 1), _stated(header, "PCOUNT", 0)
    length = abs(bits) // 8 * groups * (heap + math.prod(lengths)) if lengths else 0
    if groups < 0 or heap < 0 or length >= 1 << 62:
        raise DamagedFileError("a FITS header states a size that no file can have", offset=header.start)
    return Hdu(index, header, header.start + len(header.raw), length)


def _stated(header: Header, keyword: str, default: int) -> int:
    found = header.integer(keyword)
    return default if found is None else found


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
