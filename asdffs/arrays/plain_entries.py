"""Leaves out the entries of a tree without arrays, so that only what changed in a large tree is read.

An entry without tag, anchor, alias and ``$ref`` has no
array and leads to none.  Its lines stay, without content, so that line numbers stay the same.  All offsets are in
bytes.  Pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from asdffs.format.tree_extent import find_in_pieces

#: An entry that has an array, or leads to one, has one of these: YAML's indicators of tags, anchors and aliases, or
#: the first letter of ``$ref``, or a backslash, by which that may be escaped.  Single bytes are found fast.
_INDICATORS: Final = (b"!", b"&", b"*", b"\\", b"$")
#: Ends of lines besides LF and CR LF (YAML 1.1, section 4.1.4).
_OTHER_BREAKS: Final = tuple(end.encode() for end in ("\x85", "\u2028", "\u2029"))


class Shortened(NamedTuple):
    """A text without some parts.

    ``cuts``: where each of these began and ended in the whole text, and how many bytes are missing from there on.
    """

    text: bytes
    cuts: Sequence[tuple[int, int, int]]

    def missing(self, place: int) -> int:
        """Return how many bytes are missing before the byte at ``place`` of the whole text, which is not cut."""
        found = bisect_left(self.cuts, (place,)) - 1
        return self.cuts[found][2] if found >= 0 else 0


def find_indicators(text: bytes) -> list[int]:
    """Return the places of all that may be a tag, an anchor, an alias or a ``$ref``, in ascending order."""
    return sorted(place for what in _INDICATORS for place in _places(text, what))


def plain_runs(offsets: Sequence[int], indicators: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield where each run of entries without any of ``indicators`` begins and ends.

    ``offsets``: where the entries begin, and the end of the last one.  ``indicators``: see ``find_indicators``.
    """
    low, last = 0, len(offsets) - 1
    while low < last:
        found = bisect_left(indicators, offsets[low])
        if found == len(indicators) or indicators[found] >= offsets[last]:
            yield offsets[low], offsets[last]
            return
        kept = bisect_right(offsets, indicators[found]) - 1
        if kept > low:
            yield offsets[low], offsets[kept]
        low = kept + 1


def without(text: bytes, runs: Iterable[tuple[int, int]]) -> Shortened:
    """Return ``text`` without the entries in ``runs``, unless other text is in their lines.

    ``runs``: where each begins and ends, in ascending order.  A run inside of one before it is ignored.
    """
    if _has_other_breaks(text):
        return Shortened(text, ())
    pieces: list[bytes] = []
    cuts: list[tuple[int, int, int]] = []
    place = missing = 0
    for start, stop in runs:
        left = _emptied(text, start, stop) if start >= place else None
        if left is not None:
            pieces += [text[place:start], left]
            place, missing = stop, missing + stop - start - len(left)
            cuts.append((start, stop, missing))
    return Shortened(b"".join([*pieces, text[place:]]), cuts)


def _has_other_breaks(text: bytes) -> bool:
    """Return whether a line of ``text`` may end without LF."""
    if b"\r" in text and text.count(b"\r") != text.count(b"\r\n"):
        return True
    return not text.isascii() and any(find_in_pieces(text, end) >= 0 for end in _OTHER_BREAKS)


def _places(text: bytes, what: bytes) -> Iterator[int]:
    place = text.find(what)
    while place >= 0:
        yield place
        place = text.find(what, place + 1)


def _emptied(text: bytes, start: int, stop: int) -> bytes | None:
    """Return the same lines without content; None if other text is in these lines."""
    before = text.rfind(b"\n", 0, start) + 1
    last = text.rfind(b"\n", start, stop) + 1
    if not last or text[before:start].strip(b" ") or text[last:stop].strip(b" "):
        return None
    return b"\n" * text.count(b"\n", start, stop) + text[last:stop]
