"""Pages of a map beside other writers of the same bytes: what of a page was stored, and what is merely old.

The kernel writes a map's pages whole.  A page that was fetched before another view changed some of its bytes brings
the old ones back, unless it is known that they are old: so each change beside another open writer is remembered
with the bytes before it, and for each view when its pages were fetched.  A byte of a page that equals what was
there when the page was fetched, and has been changed since, was not stored through the map.

User: ``stores``.  Offsets of blocks and of files in bytes.  One thread at a time, whoever has the turn.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from asdffs.vfs.namespace import FileNode, Node

_PAGE: Final = 4096
#: Changes that are remembered; bytes of all of them.
_MOST: Final = 4000
_MOST_BYTES: Final = 32 << 20
#: Pages of a file that are; then all count as fetched now.
_MOST_PAGES: Final = 100_000


class _Change(NamedTuple):
    """Change ``number`` of a block from ``start`` on, and the bytes before it."""

    number: int
    block: int
    start: int
    before: bytes


@dataclass(slots=True)
class _Fetched:
    """When pages of a file were fetched, by the number of the last change then; ``others``: those not listed."""

    others: int
    pages: dict[int, int] = field(default_factory=dict)


class Merger:
    """The changes of one mount that pages of maps may be older than."""

    def __init__(self) -> None:
        self._count = 0
        self._size = 0
        self._changes: deque[_Change] = deque()
        self._fetched: WeakKeyDictionary[Node, _Fetched] = WeakKeyDictionary()

    def watch(self, nodes: Iterable[Node]) -> None:
        """From now on it is remembered when pages of these are fetched."""
        for node in nodes:
            self._fetched.setdefault(node, _Fetched(self._count))

    def is_watched(self, node: Node) -> bool:
        """Whether it is remembered when pages of it are fetched: another writer was beside it once."""
        return node in self._fetched

    def fetch(self, node: Node, offset: int, length: int) -> None:
        """The kernel is given bytes of a file.  Cheap for one that is not watched."""
        known = self._fetched.get(node) if self._fetched else None
        if known is None:
            return
        if len(known.pages) > _MOST_PAGES:
            self._fetched[node] = known = _Fetched(self._count)
        pages = range(offset // _PAGE, -(-(offset + length) // _PAGE))
        known.pages.update(dict.fromkeys(pages, self._count))

    def change(self, node: FileNode, offset: int, before: bytes) -> None:
        """These bytes of a file, which were ``before``, are about to be others."""
        window = node.file.window()
        if window is None:
            return
        self._count += 1
        self._changes.append(_Change(self._count, window[0], window[1] + offset, before))
        self._size += len(before)
        while len(self._changes) > _MOST or self._size > _MOST_BYTES:
            self._size -= len(self._changes.popleft().before)

    def merge(self, node: FileNode, offset: int, page: bytes, now: bytes) -> bytes:
        """What to write of ``page``, which the kernel has of a file from ``offset`` on: there is ``now``."""
        window, known = node.file.window(), self._fetched.get(node)
        if window is None or known is None or len(page) != len(now) or page == now:
            return page
        merged = bytearray(page)
        start = window[1] + offset
        for change in self._changes:
            first, last = max(start, change.start), min(start + len(page), change.start + len(change.before))
            if change.block == window[0] and first < last:
                old = change.before[first - change.start : last - change.start]
                older = functools.partial(_is_older, known, offset, change.number)
                _keep(merged, now, old, first - start, older)
        return bytes(merged)


def _is_older(known: _Fetched, offset: int, number: int, place: int) -> bool:
    """Whether the page at ``place`` from ``offset`` was fetched before change ``number``."""
    return known.pages.get((offset + place) // _PAGE, known.others) < number


def _keep(merged: bytearray, now: bytes, old: bytes, at: int, is_older: Callable[[int], bool]) -> None:
    """Where a page has what was there before a change, and is older than the change, keep what is there now."""
    for place, byte in enumerate(old, at):
        if merged[place] == byte != now[place] and is_older(place):
            merged[place] = now[place]
