"""What is kept in memory about the arrays of the committed tree: its outline, and computed elements.

The outline is read when it is first needed after a commit, so programs that only edit the text never wait for it.  An
array that a commit did not change keeps its stamp: a new comment in the tree does not make arrays newer.

The caller holds the main lock; other requests are served while the tree is read.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final

from asdffs.arrays.branch import Branch, Outline
from asdffs.arrays.datatypes import float_orders
from asdffs.document.changes import TREE, Changes
from asdffs.document.tree_editor import TreeEditor
from asdffs.errors import InvalidTreeError
from asdffs.scheduling import Rank, RankedLock, Scheduler
from asdffs.tree.paths import Path
from asdffs.tree.syntax import decoded

logger = logging.getLogger(__name__)

_EMPTY: Final = Outline("", None, ())


class Outlines:
    """The outline of the file at ``path``.

    ``tree()`` returns the editor of the committed text.  ``change``: the lock for changes of the file.
    """

    def __init__(
        self, path: str, tree: Callable[[], TreeEditor], *, scheduler: Scheduler, change: RankedLock, changes: Changes
    ) -> None:
        self._path = path
        self._tree = tree
        self._scheduler = scheduler
        self._change = change
        self._changes = changes
        self._reading = RankedLock(scheduler, Rank.OUTLINE)
        self._version = -1
        self._outline = _EMPTY

    def outline(self) -> Outline:
        """Return the outline of the committed tree; an empty one if it is not valid YAML.  Raises ``OSError``."""
        if self._version != self._tree().version:
            with self._reading:
                while self._version != self._tree().version:
                    self._read()
        return self._outline

    def branch(self, path: Path) -> Branch:
        """Return the mapping or sequence at ``path``.  Raises ``KeyError``, ``OSError``."""
        branch = self.outline().root
        if branch is None:
            raise KeyError(path)
        for key in path:
            branch = branch.children[key]
        return branch

    def byteorder_of(self, number: int, count: int) -> str:
        """Return the byteorder of the first array of floats in block ``number``, as the tree states it.

        ``count``: the number of blocks in the file.  ``big`` if the block has no such array.  Raises ``OSError``.
        """
        arrays = (branch.array for branch in self.outline().arrays if branch.array is not None)
        of_block = (array for array in arrays if array.block_in(count) == number)
        orders = [order for array in of_block for order in float_orders(array.datatype, array.byteorder)]
        return "little" if orders[:1] == ["little"] else "big"

    def _read(self) -> None:
        from asdffs.arrays.outline import outline_of

        with self._change.entered(patiently=True):
            tree = self._tree()
            text, version = tree.text(), tree.version
        try:
            with self._scheduler.waiting():
                characters = decoded(text)
                del text
            tape = tree.tape(characters, version)
            with self._scheduler.waiting():
                outline = outline_of(tape, tree.dialect, spans=False)
                del tape
                _stamp(outline, self._outline, self._changes.stamp(TREE))
        except InvalidTreeError as err:
            logger.warning("%s: arrays cannot be shown: %s", self._path, err)
            outline = _EMPTY
        with self._scheduler.waiting():  # freeing a large outline takes a while
            self._outline, old = outline, self._outline
            old.take_apart()
            del old
        self._version = version


def _stamp(new: Outline, old: Outline, now: int) -> None:
    """Copy the stamps of unchanged arrays from ``old`` to ``new``, and give all others the stamp ``now``."""
    known = {branch.path: branch for branch in old.arrays}
    for branch in new.arrays:
        before = known.get(branch.path)
        same = before is not None and _facts(old, before) == _facts(new, branch)
        branch.stamp = before.stamp if same and before is not None else now


def _facts(outline: Outline, branch: Branch) -> Any:
    """Return the facts that define an array, without its position in the text."""
    start, stop = branch.inline or (0, 0)
    array = branch.array._replace(line=0) if branch.array is not None else None
    return array, branch.scalars.get("mask"), outline.text[start:stop]


#: Bytes of memory for the computed elements of one file.
ROOM: Final = 64 << 20


class ElementCache:
    """Arrays of numpy by key; those that were not used for the longest time are dropped if there is no room.

    ``room``: bytes of memory.  The newest array stays even if it is larger.
    """

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._used = 0
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, key: Hashable) -> Any:
        """Return the array at ``key``; None if there is none any more."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: Hashable, array: Any) -> None:
        """Keep ``array``, a numpy array, at ``key``."""
        self._drop(key)
        self._kept[key] = array
        self._used += array.nbytes
        while self._used > self._room and len(self._kept) > 1:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: Hashable) -> None:
        found = self._kept.pop(key, None)
        self._used -= 0 if found is None else found.nbytes
