"""Checks a changed text of a large tree without reading the entries that did not change.

Known are the entries of one large mapping of the last text: the tree itself, or a mapping near its root.  They are
read one after the other, so what PyYAML says of an entry does not depend on the entries before it, if it begins as an
entry.  Entries at the start and at the end of the mapping that are the same as in the last text, and have no tag,
anchor or alias, are left out (``plain_entries``).  What is before and behind the mapping is read, and so are the
entries next to the change, which must begin where they did, in the same column.  So nothing in the change, such as a
quote without its end, reaches into the entries behind it.  Pure.  All offsets are in bytes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

from asdffs.format.difference import common_prefix, common_suffix
from asdffs.tree.collected import Entries
from asdffs.tree.plain_entries import Shortened, find_indicators, plain_runs, without


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
        if read is None:
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
        return Entries(heads + middle + tails, same[0] + changed + same[1])

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
    same = common_prefix(old, text) if old != text else offsets[0]
    same_end = common_suffix(old, text, min(len(text), len(old)) - same)
    first = bisect_right(offsets, same) - 1  # the entries before this one end before the change
    last = bisect_left(offsets, len(old) - same_end)
    shift = len(text) - len(old)
    if first < 0 or last == len(offsets):
        return None
    if _column(old, offsets[last]) != _column(text, offsets[last] + shift):
        return None
    indicators = find_indicators(text)
    heads = plain_runs(offsets[1:first], indicators)
    tails = plain_runs(array("Q", (place + shift for place in offsets[last + 1 :])), indicators)
    shortened = without(text, chain(heads, tails))
    return Rest(shortened, before.entries, first, last, shift) if shortened.cuts else None


def _column(text: bytes, place: int) -> int:
    return place - text.rfind(b"\n", 0, place)
