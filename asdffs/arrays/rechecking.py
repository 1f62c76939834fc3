"""Checks a changed text of a large tree without reading the entries that did not change.

Known are the entries of one large mapping of the last text: the tree itself, or a mapping near its root.  They are
read one after the other, so what PyYAML says of an entry does not depend on the entries before it, if it begins as an
entry.  Entries at the start and at the end of the mapping that are the same as in the last text, and have no tag,
anchor, alias or ``$ref``, are left out: they have no array and lead to none.  The ends of their lines stay, so that
line numbers stay the same.  What is before and behind the mapping is read, and so are the entries next to the
change, which must begin where they did, in block style in the same column.  So nothing in the change, such as a quote
without its end, reaches into the entries behind it.  Pure.  All offsets are in bytes.
"""

from __future__ import annotations

import operator
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from asdffs.format.text import common_prefix, common_suffix, find_in_pieces
from asdffs.tree.rules import key_value, keys_in_parts
from asdffs.tree.tape import MAPPING, MAPPINGS, Tape
from asdffs.tree.values import is_merge

#: Characters between two places whose offsets in bytes are known.
_STEP: Final = 2048
#: An entry that has an array, or leads to one, has one of these: YAML's indicators of tags, anchors and aliases, or
#: the first letter of ``$ref``, or a backslash, by which that may be escaped.  Single bytes are found fast.
_INDICATORS: Final = (b"!", b"&", b"*", b"\\", b"$")
#: Ends of lines besides LF and CR LF (YAML 1.1, section 4.1.4).
_OTHER_BREAKS: Final = tuple(end.encode() for end in ("\x85", "\u2028", "\u2029"))
#: The most bytes of spaces before an entry in flow style that is left out.
_FLOW_SPACE: Final = 256
#: White space, and a comment, between two tokens.
_SPACE: Final = re.compile(r"\s*")
_COMMENT: Final = re.compile(r"#[^\r\n\x85\u2028\u2029]*")
#: The smallest number of keys of a large mapping, but for the root, and how near to the root it must be.
_MANY: Final = 8
_NEAR: Final = 3
#: When one entry changes, four are read: that one, the two next to it, and the first one of the mapping.
_READ_AGAIN: Final = 4


class ByteOffsets:
    """Converts offsets of ``text`` in characters, as PyYAML has them, and in bytes of UTF-8.

    Needs little memory for a large text, because it is never encoded as a whole.
    """

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
    return sorted(place for what in _INDICATORS for place in _places_in(text, what))


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


def without(text: bytes, runs: Iterable[tuple[int, int]], *, flow: bool) -> Shortened:
    """Return ``text`` without the entries in ``runs``, unless what is in their lines may belong to them.

    ``runs``: where each begins and ends, in ascending order.  A run inside of one before it is ignored.
    ``flow``: the entries are in flow style.
    """
    if _has_other_breaks(text):
        return Shortened(text, ())
    pieces: list[bytes] = []
    cuts: list[tuple[int, int, int]] = []
    place = missing = 0
    for start, stop in runs:
        left = _emptied(text, start, stop, flow=flow) if start >= place else None
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


def _places_in(text: bytes, what: bytes) -> Iterator[int]:
    place = text.find(what)
    while place >= 0:
        yield place
        place = text.find(what, place + 1)


def _emptied(text: bytes, start: int, stop: int, *, flow: bool) -> bytes | None:
    """Return the same lines without entries; None if in these lines is more than entries in flow style."""
    lines = b"\n" * text.count(b"\n", start, stop)
    if flow:  # neither lines nor columns matter, but '---' may not begin a line, which may be as long as the text
        before = text[max(0, start - _FLOW_SPACE) : start].rstrip(b" ")
        return lines + b" " if before.endswith((b",", b"{", b"\n")) else None
    before = text[text.rfind(b"\n", 0, start) + 1 : start].strip(b" ")
    last = text.rfind(b"\n", start, stop) + 1
    return None if not last or before or text[last:stop].strip(b" ") else lines + text[last:stop]


class Entries(NamedTuple):
    """The entries of a mapping: the offset of each key and of the end in bytes, and the hash of each key.

    ``flow``: it is in flow style.
    """

    offsets: array[int]
    hashes: array[int]
    flow: bool

    @property
    def spared(self) -> int:
        """The bytes that need not be read if the largest entry changes."""
        sizes: list[int] = list(map(operator.sub, self.offsets[1:], self.offsets))
        return sum(sizes) - max(sizes, default=0)


def entries_of(tape: Tape, is_array: Callable[[str], bool], first_key: int | None = None) -> Entries | None:
    """Return the entries of the mapping, near the root, without which most of the tree is left out.

    No array may need an entry: the mapping is no array, and no alias stands for what is around it.  ``first_key``: if
    given, return the entries of the mapping whose first key begins at this byte.
    """
    in_bytes = ByteOffsets(tape.text)
    wanted = in_bytes.character(first_key) if first_key is not None else -1
    best, worth = -1, 0.0
    for row in _near(tape, 0, 0, is_array) if tape.kind else ():
        start, count = tape.start[row + 1], _count(tape, row)
        if first_key is not None:
            value = float(start == wanted)
        elif row and count < _MANY:
            continue
        else:
            value = (tape.end[row] - start) * (1 - _READ_AGAIN / max(1, count))
        if best < 0 or value > worth:
            best, worth = row, value
    if best < 0:
        return None
    offsets, hashes = _keys_of(tape, best)
    offsets.append(_end(tape, best))
    return Entries(in_bytes.convert(offsets), hashes, tape.kind[best] != MAPPING)


def _count(tape: Tape, row: int) -> int:
    """Return the number of entries of a mapping."""
    return (tape.next[row] - row) // 2 if tape.is_flat(row) else sum(1 for _ in tape.pairs(row))


def _keys_of(tape: Tape, row: int) -> tuple[array[int], array[int]]:
    """Return where each key of a mapping begins, and its hash.  Most keys are text as it is written."""
    offsets, hashes = array("Q"), array("q")
    for keys, names, usual in keys_in_parts(tape, row):
        if not usual:
            keys = [key for key in keys if not is_merge(tape, key)]
        offsets.extend(map(tape.start.__getitem__, keys))
        hashes.extend(map(hash, names) if usual else (hash(key_value(tape, key)) for key in keys))
    return offsets, hashes


def _near(tape: Tape, row: int, depth: int, is_array: Callable[[str], bool]) -> Iterator[int]:
    """Yield the mappings in and below ``row`` that may be chosen, inner ones first."""
    if row in tape.anchors or is_array(tape.tags.get(row, "")) or tape.next[row] == row + 1:
        return
    mapping = tape.kind[row] in MAPPINGS
    if depth + 1 < _NEAR and not tape.is_flat(row):
        children = (value for _, value in tape.pairs(row)) if mapping else tape.items(row)
        for child in children:
            if tape.next[child] > child + 1:
                yield from _near(tape, child, depth + 1, is_array)
    if mapping:
        yield row


def _end(tape: Tape, row: int) -> int:
    """Return where what follows the entries of a mapping begins."""
    if tape.kind[row] != MAPPING:
        return tape.end[row] - 1
    place = tape.end[row]
    found: re.Match[str] | None = _SPACE.match(tape.text, place)
    while found is not None:
        place = found.end()
        found = _COMMENT.match(tape.text, place) or (
            _SPACE.match(tape.text, place) if _is_space(tape, place) else None
        )
    return place


def _is_space(tape: Tape, place: int) -> bool:
    return tape.text[place : place + 1].isspace()


class CheckedBefore(NamedTuple):
    """A text that was checked.  ``read()`` returns it; ``entries``: those of one of its mappings.

    The text is read when it is needed, so that it is not in memory while a whole new text is parsed.
    """

    read: Callable[[], bytes]
    entries: Entries


class Rest(NamedTuple):
    """What is to be read of a changed text.

    ``old``: the entries of the text before.  The first ``first`` of them are the same now, and so are those from
    number ``last`` on, which begin ``shift`` bytes later.
    """

    shortened: Shortened
    old: Entries
    first: int
    last: int
    shift: int

    def join(self, read: Entries | None) -> Entries | None:
        """Return the entries of the whole text, given those that were ``read`` in the shortened one.

        None if these do not prove that the whole text is right: then read all of it.
        """
        if read is None or read.flow != self.old.flow:
            return None
        heads = self.old.offsets[: self.first]
        tails = array("Q", (place + self.shift for place in self.old.offsets[self.last :]))
        before, behind, found = self._kept(heads), self._kept(tails), list(read.offsets)
        start, stop = len(before), len(found) - len(behind)
        if start > stop or found[:start] != before or found[stop:] != behind:
            return None
        changed = read.hashes[start:stop]
        same = self.old.hashes[: self.first], self.old.hashes[self.last :]
        if not set(changed).isdisjoint(chain(*same)):  # perhaps a key that is there already
            return None
        missing = heads[-1] - before[-1] if start else 0
        middle = array("Q", (place + missing for place in found[start:stop]))
        return Entries(heads + middle + tails, same[0] + changed + same[1], read.flow)

    def _kept(self, places: Sequence[int]) -> list[int]:
        """Return where those of ``places`` that are not cut are in the shortened text."""
        low, kept = 0, list[int]()
        for start, stop, _ in self.shortened.cuts:
            first, behind = bisect_left(places, start), bisect_left(places, stop)
            kept += places[low:first]
            low = max(low, behind)
        kept += places[low:]
        return [place - self.shortened.missing(place) for place in kept]


def rest_to_read(text: bytes, before: CheckedBefore) -> Rest | None:
    """Return what is to be read of ``text``; None if it is too different from the text before."""
    offsets, old = before.entries.offsets, before.read()
    same = common_prefix(old, text) if old != text else offsets[0] + 1
    same_end = common_suffix(old, text, min(len(text), len(old)) - same)
    # The entries before this one end before the change.  One that ends where it begins may go on in it.
    first = max(bisect_left(offsets, same) - 1, 0) if same >= offsets[0] else -1
    last = bisect_left(offsets, len(old) - same_end)
    shift = len(text) - len(old)
    if first < 0 or last == len(offsets):
        return None
    if not before.entries.flow and _column(old, offsets[last]) != _column(text, offsets[last] + shift):
        return None
    indicators = find_indicators(text)
    heads = plain_runs(offsets[1:first], indicators)
    tails = plain_runs(array("Q", (place + shift for place in offsets[last + 1 :])), indicators)
    shortened = without(text, chain(heads, tails), flow=before.entries.flow)
    return Rest(shortened, before.entries, first, last, shift) if shortened.cuts else None


def _column(text: bytes, place: int) -> int:
    return place - text.rfind(b"\n", 0, place)
