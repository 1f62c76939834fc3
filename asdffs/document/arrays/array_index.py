"""The arrays of the committed tree, found by their path, and since when each is what it is.

The outline is read when somebody first asks after a commit; nobody pays for it who only edits.  An array that a
commit did not concern keeps its stamp: a comment more in the tree makes no array newer.  Users: ``views``,
through ``Document.arrays``.  One thread at a time has the turn; others are served while the tree is read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from asdffs.document.arrays.array import Array, Mask
from asdffs.document.changes import TREE
from asdffs.document.turn import in_turn
from asdffs.errors import InvalidTreeError
from asdffs.relief import Exclusive
from asdffs.storage.store import read_bytes
from asdffs.tree.branch import Branch, Outline
from asdffs.tree.events import Path
from asdffs.tree.key_names import name_of
from asdffs.tree.ndarrays import float_orders
from asdffs.tree.outline import read_outline

if TYPE_CHECKING:
    from asdffs.document.document import Document

logger = logging.getLogger(__name__)

_ALL: Final = 1 << 62
_EMPTY: Final = Outline("", None, ())
_MASK: Final = "mask"


class ArrayIndex(Mapping[str, Array]):
    """The arrays of ``document``, by their place in the tree as it is now: ``"roman/data"``, ``"stack/0"``.

    Keys are the names that the mount has in ``arrays/``, without ``.npy``: ``listing`` says how odd keys are written;
    a mask that is a value is at ``.../mask``.  An alias and a ``$ref``, also to another file, lead to what they mean,
    and are not listed.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self._reading = Exclusive(document.relief)
        self._version = -1
        self._outline = _EMPTY
        self._facts: dict[Path, tuple[Any, int]] = {}

    @in_turn
    def __getitem__(self, path: str) -> Array:
        """The array at ``path``, live.  Raises ``KeyError``, ``OSError``."""
        document, keys, mask = self._keys(path)
        return (Mask if mask else Array)(document, document.neighbours.finder(document, keys))

    @in_turn
    def __iter__(self) -> Iterator[str]:
        return iter(["/".join(map(name_of, branch.path)) for branch in self.outline().arrays])

    @in_turn
    def __len__(self) -> int:
        return len(self.outline().arrays)

    def _keys(self, path: str) -> tuple[Document, Path, bool]:
        """Of the branch that ``path`` leads to, the file it is in, and whether its mask is meant."""
        if self.outline().root is None:
            raise KeyError(path)
        branch, names = self.branch(()), path.split("/") if path else []
        document, keys = self._document, tuple[str | int, ...]()
        for number, name in enumerate(names):
            last = number + 1 == len(names)
            if last and name == _MASK and branch.array is not None and _MASK in branch.scalars:
                return document, keys, True
            key = next((key for key in branch.children if name_of(key) == name), None)
            if key is None:
                raise KeyError(path)
            branch, keys = branch.children[key], (*keys, key)
            if branch.elsewhere is not None:
                found = document.neighbours.branch(branch.elsewhere, document)
                if found is None:
                    raise KeyError(path)
                (document, branch), keys = found, found[1].path
        if branch.array is None:
            raise KeyError(path)
        return document, keys, False

    def outline(self) -> Outline:
        """The outline of the committed tree; empty when that is not valid YAML.  Raises ``OSError``."""
        if self._version != self._document.tree.version:
            with self._reading.entered():
                while self._version != self._document.tree.version:
                    self._read()
        return self._outline

    def byteorder_of(self, number: int) -> str:
        """The byteorder that the tree gives block ``number``: of its first array of floats.  Raises ``OSError``."""
        count = len(self._document.table)
        arrays = (branch.array for branch in self.outline().arrays if branch.array is not None)
        orders = [order for array in arrays if array.block_in(count) == number for order in float_orders(array)]
        return "little" if orders[:1] == ["little"] else "big"

    def branch(self, path: Path) -> Branch:
        """The mapping or sequence at ``path``.  Raises ``KeyError``, ``OSError``."""
        branch = self.outline().root
        if branch is None:
            raise KeyError(path)
        for key in path:
            branch = branch.children[key]
        return branch

    def _read(self) -> None:
        document = self._document
        text = read_bytes(document.read_text(0, _ALL))
        version = document.tree.version
        try:
            with document.relief.waiting():
                outline = read_outline(text, document.dialect)
        except InvalidTreeError as err:
            logger.warning("%s: arrays cannot be shown: %s", document.path, err)
            outline = Outline(text.decode("utf-8", "surrogateescape"), None, ())
        self._stamp(outline)
        self._outline, self._version = outline, version

    def _stamp(self, outline: Outline) -> None:
        now = self._document.changes.stamp(TREE)
        known, self._facts = self._facts, {}
        for branch in outline.arrays:
            facts = _facts(outline, branch)
            before = known.get(branch.path)
            branch.stamp = before[1] if before is not None and before[0] == facts else now
            self._facts[branch.path] = facts, branch.stamp


def _facts(outline: Outline, branch: Branch) -> Any:
    """What makes an array what it is: not where it is written."""
    start, stop = branch.inline or (0, 0)
    array = branch.array._replace(line=0) if branch.array is not None else None
    return array, branch.scalars.get("mask"), hash(outline.text[start:stop])
