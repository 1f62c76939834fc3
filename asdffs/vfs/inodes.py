"""The items of a mount that the kernel knows, by number, until it forgets them.

The kernel names every file by a number that an earlier answer gave.  It counts the answers that gave the number, and
says later how many of them it has forgotten.  A number is never used for anything else afterwards.  The caller holds
the main lock.
"""

from __future__ import annotations

import itertools
import time
from collections import defaultdict, deque
from typing import Any, Final

#: The number of the root, which the kernel knows from the start.
ROOT: Final = 1
#: The ``home`` of an item that is not found again.
LOST: Final = 0
#: So many items of documents stay in memory, 2 to 4 KB each; of more, those that nobody needs are made again.
_MOST: Final = 10_000
#: How many old items are looked at whenever a new one comes.
_LOOKS: Final = 3
#: How long an item stays at least after the kernel got its attributes, in seconds: longer than the kernel keeps them.
_STAYS: Final = 1.0


class Item:
    """Something in a mount that the kernel may know.  ``inode``: by this number; 0: it does not.

    ``heavy``: whether it takes much memory.
    """

    __slots__ = ("inode",)

    heavy = False

    inode: int

    @property
    def path(self) -> str:
        """The path in its area, such as ``/blocks/0000.bin``; empty for the root."""
        raise NotImplementedError


class Place:
    """An item in its area, which is the part of the mount that answers for it (``areas``).

    ``directory``: that of the document in an archive; empty outside of documents.  ``since``: when the kernel last
    got its attributes, by ``time.monotonic``.
    """

    __slots__ = ("area", "directory", "item", "since")

    def __init__(self, area: Any, item: Any, directory: str = "") -> None:
        self.area = area
        self.item = item
        self.directory = directory
        self.since = 0.0


class Inode(Place):
    """A place that the kernel knows.  ``lookups``: how many answers gave its ``number``.

    ``cached``: size and mtime of the file at its last open.

    An item that was put away, so that ``item`` is None, is found again at ``path`` in its document.  ``home``: the
    inode number of that document's root, or ``LOST``.  ``shape``: the document's ``Changes.shape``; if that is
    another one by then, the item is not found.  After the document was closed it is 0, with which each document
    begins.  None: the item is found whatever the shape is.
    """

    __slots__ = ("cached", "home", "lookups", "number", "path", "shape")

    def __init__(self, area: Any, item: Any, directory: str, number: int) -> None:
        self.area = area
        self.item = item
        self.directory = directory
        self.number = number
        self.since = 0.0
        self.lookups = 0
        self.cached: tuple[int, int] | None = None
        self.home = 0
        self.path = ""
        self.shape: int | None = None

    def put_away(self, path: str, home: int, shape: int | None) -> None:
        """Give up the item, which is found again at ``path``."""
        self.item, self.path, self.home, self.shape = None, path, home, shape


class Inodes:
    """The table.  ``root``: the place that the kernel knows from the start.

    ``known``: the inodes by number; only this class changes it.
    """

    def __init__(self, root: Place) -> None:
        root.item.inode = ROOT
        self.known = {ROOT: Inode(root.area, root.item, "", ROOT)}
        self._heavy: deque[Inode] = deque()
        self._of: defaultdict[str, dict[int, Inode]] = defaultdict(dict)
        self._numbers = itertools.count(ROOT + 1)

    def give(self, place: Place, item: Item, *, alone: bool = False) -> int:
        """Return the number of an item in the area of ``place``, for an answer, which counts.

        ``alone``: no other request is under way, so old items may be put away.
        """
        number = item.inode
        inode = self.known.get(number) if number else None
        if inode is None:
            number = item.inode = next(self._numbers)
            inode = self.known[number] = Inode(place.area, item, place.directory, number)
            if place.directory:
                self._of[place.directory][number] = inode
            if item.heavy:
                self._heavy.append(inode)
        if alone and len(self._heavy) > _MOST:
            self._put_some_away()
        inode.lookups += 1
        inode.since = time.monotonic()
        return number

    def _put_some_away(self) -> None:
        for _ in range(_LOOKS):
            inode = self._heavy.popleft()
            if inode.item is None:
                continue
            just_seen = inode.since > time.monotonic() - _STAYS  # so the kernel must be told of changes
            if just_seen or not inode.area.put_away(inode):
                self._heavy.append(inode)

    def found_again(self, inode: Inode, area: Any, item: Item) -> None:
        """Record that ``inode`` has an item again."""
        inode.area, inode.item, item.inode = area, item, inode.number
        self._heavy.append(inode)

    def become(self, old: Item, new: Item) -> None:
        """Let the number of ``old`` be that of ``new``, which took its place: the kernel goes on with that number."""
        inode = self.known.get(old.inode) if old.inode else None
        if inode is not None:
            inode.item, new.inode, old.inode = new, old.inode, 0

    def forget(self, number: int, count: int) -> Inode | None:
        """Record that the kernel forgot ``count`` answers; return the inode if it does not know its item any more."""
        inode = self.known.get(number)
        if inode is None or number == ROOT:
            return None
        inode.lookups -= count
        if inode.lookups > 0:
            return None
        del self.known[number]
        if inode.directory:
            self._left(inode)
        if inode.item is None or inode.item.inode != number:
            return None
        inode.item.inode = 0
        return inode

    def of(self, directory: str) -> list[Inode]:
        """Return the inodes of the document of ``directory``."""
        return list(self._of[directory].values()) if directory in self._of else []

    def _left(self, inode: Inode) -> None:
        known = self._of[inode.directory]
        known.pop(inode.number, None)
        if not known:
            del self._of[inode.directory]
