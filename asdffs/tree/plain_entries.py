"""Leaves out the parts of a tree that have no arrays, so that a second look at a large tree reads less.

``events`` notes where the entries of large mappings begin.  An entry without tag, anchor, alias and ``$ref`` has no
array and leads to none.  Lines stay the same.  Pure.  All offsets are in bytes.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

#: What an entry needs to have an array or to lead to one.  A backslash may be a part of an escaped ``$ref``.
_LEADS: Final = (b"!", b"&", b"*", b"\\", b"$ref")
#: Ends of lines besides LF and CR LF (YAML 1.1, section 4.1.4).
_OTHER_BREAKS: Final = tuple(end.encode() for end in ("\x85", "\u2028", "\u2029"))


class Shortened(NamedTuple):
    """A text without some entries.

    ``cuts``: for each entry that was left out, the offset behind it in the whole text, and how many bytes fewer are
    before that place now.
    """

    text: bytes
    cuts: Sequence[tuple[int, int]]

    def offset(self, place: int) -> int:
        """Return the offset in this text of the byte at ``place`` of the whole text, which was not left out."""
        found = bisect_left(self.cuts, (place + 1, 0)) - 1
        return place - self.cuts[found][1] if found >= 0 else place


def without_plain_entries(text: bytes, mappings: Sequence[Sequence[int]]) -> bytes:
    """Return ``text`` without entries that have no array and lead to none.

    ``mappings``: for each of some mappings, the offsets where its entries begin, and that of its end.  The first
    entry of each is kept, so that it stays a mapping.
    """
    entries = itertools.chain.from_iterable(itertools.pairwise(offsets[1:]) for offsets in mappings)
    return without(text, sorted(entries)).text


def without(text: bytes, entries: Iterable[tuple[int, int]]) -> Shortened:
    """Return ``text`` without those of ``entries`` that have no array and lead to none.

    ``entries``: where each begins and ends, in ascending order, and the outer ones before those inside.
    """
    if text.count(b"\r") != text.count(b"\r\n") or any(end in text for end in _OTHER_BREAKS):
        return Shortened(text, ())
    leading = sorted(place for what in _LEADS for place in _places(text, what))
    pieces: list[bytes] = []
    cuts: list[tuple[int, int]] = []
    place = missing = 0
    for start, stop in entries:
        if start < place or _any_within(leading, start, stop):
            continue
        left = _emptied(text, start, stop)
        if left is not None:
            pieces += [text[place:start], left]
            place, missing = stop, missing + stop - start - len(left)
            cuts.append((stop, missing))
    return Shortened(b"".join([*pieces, text[place:]]), cuts)


def _places(text: bytes, what: bytes) -> Iterator[int]:
    place = text.find(what)
    while place >= 0:
        yield place
        place = text.find(what, place + 1)


def _any_within(places: list[int], start: int, stop: int) -> bool:
    found = bisect_left(places, start)
    return found < len(places) and places[found] < stop


def _emptied(text: bytes, start: int, stop: int) -> bytes | None:
    """Return the same lines without content; None if other text is in these lines."""
    before = text.rfind(b"\n", 0, start) + 1
    last = text.rfind(b"\n", start, stop) + 1
    if not last or text[before:start].strip(b" ") or text[last:stop].strip(b" "):
        return None
    return b"\n" * text.count(b"\n", start, stop) + text[last:stop]
