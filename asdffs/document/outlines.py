"""The outline of the committed tree, read when somebody first asks for it after a commit.

Who only edits the text never pays for it.  An array that a commit did not concern keeps its stamp: one more comment
in the tree makes no array newer.  The caller holds the main lock; others are served while the tree is read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from asdffs.document.changes import TREE, Changes
from asdffs.document.tree_editor import TreeEditor
from asdffs.errors import InvalidTreeError
from asdffs.scheduling import Rank, RankedLock, Scheduler
from asdffs.tree.branch import Branch, Outline
from asdffs.tree.events import Path
from asdffs.tree.ndarrays import float_orders
from asdffs.tree.outline import read_outline

logger = logging.getLogger(__name__)

_EMPTY: Final = Outline("", None, ())


class Outlines:
    """The outline of the file at ``path``.

    ``tree``: returns the editor of the committed text; ``change``: held by whoever changes the file.
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
        """Return the outline of the committed tree; an empty one if that is not valid YAML.  Raises ``OSError``."""
        if self._version != self._tree().version:
            with self._reading.entered():
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
        """Return the byteorder that the tree gives block ``number`` of ``count``: that of its first array of floats.

        Raises ``OSError``.
        """
        arrays = (branch.array for branch in self.outline().arrays if branch.array is not None)
        orders = [order for array in arrays if array.block_in(count) == number for order in float_orders(array)]
        return "little" if orders[:1] == ["little"] else "big"

    def _read(self) -> None:
        with self._change.entered(patiently=True):
            tree = self._tree()
            text, version = tree.text(), tree.version
        try:
            with self._scheduler.waiting():
                outline = read_outline(text, tree.dialect, spans=False)
                _stamp(outline, self._outline, self._changes.stamp(TREE))
        except InvalidTreeError as err:
            logger.warning("%s: arrays cannot be shown: %s", self._path, err)
            outline = Outline(text.decode("utf-8", "surrogateescape"), None, ())
        with self._scheduler.waiting():  # to give a large one back takes a while
            self._outline, old = outline, self._outline
            _take_apart(old)
            del old
        self._version = version


def _stamp(new: Outline, old: Outline, now: int) -> None:
    """Arrays that are what they were keep their stamps; all others have ``now``."""
    known = {branch.path: branch for branch in old.arrays}
    for branch in new.arrays:
        before = known.get(branch.path)
        same = before is not None and _facts(old, before) == _facts(new, branch)
        branch.stamp = before.stamp if same and before is not None else now


def _take_apart(outline: Outline) -> None:
    """Have its branches go when nobody uses them, and not when the garbage collector finds their circles."""
    for branch in outline.arrays:
        if len(branch.above) == 1:
            branch.above = ()


def _facts(outline: Outline, branch: Branch) -> Any:
    """What makes an array what it is: not where it is written."""
    start, stop = branch.inline or (0, 0)
    array = branch.array._replace(line=0) if branch.array is not None else None
    return array, branch.scalars.get("mask"), outline.text[start:stop]
