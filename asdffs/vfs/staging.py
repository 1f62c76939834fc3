"""Staging: when a draft of the tree becomes the tree of the file (docs/semantics.md, Saving).

Which node is the tree is decided by node, never by path: ``node`` is the one that the
name ``tree.yaml`` leads to now, or None between an unlink and the create that follows.

| draft    | means                                               | left by                         |
|----------|-----------------------------------------------------|---------------------------------|
| CLEAN    | the node shows the committed text                   | a write -> DIRTY                |
| DIRTY    | written since the last judgement                    | judged -> CLEAN or REJECTED;  |
|          |                                                     | writer killed -> CUT_OFF        |
| REJECTED | judged invalid, or not committed; text kept in spool| a write -> DIRTY                |
| CUT_OFF  | its writer was killed in the middle                 | a write -> DIRTY                |

An empty draft is never judged: ``>`` and O_TRUNC make one before the first write.
A judgement may wait, and then others hold the main lock: whoever touches the tree's name, or the
node that is the tree or is about to be (``concerns``), first enters ``turn``.
One thread at a time.
"""

from __future__ import annotations

import contextlib
import enum
from contextlib import AbstractContextManager

from asdffs.document.document import Document
from asdffs.document.saves.drafts import Drafts
from asdffs.errors import AsdffsError, InvalidTreeError
from asdffs.scheduling import Rank, RankedLock
from asdffs.vfs.namespace import FileNode, Node
from asdffs.vfs.scratch import SpoolFile
from asdffs.views.tree_yaml import CommittedTree

#: The name of the draft in the mount, and of its file in the spool.
TREE = "tree.yaml"


class DraftState(enum.Enum):
    """State of the draft."""

    CLEAN = "clean"
    DIRTY = "dirty"
    REJECTED = "rejected"
    CUT_OFF = "cut off"


class Staging:
    """The draft of one document."""

    def __init__(self, document: Document, drafts: Drafts, node: FileNode) -> None:
        self._document = document
        self.drafts = drafts
        self._committed = CommittedTree(document)
        self.node: FileNode | None = node
        self.adopting: FileNode | None = None
        self.lock = RankedLock(document.scheduler, Rank.SAVE)
        self._state = DraftState.CLEAN

    @property
    def state(self) -> DraftState:
        """State of the draft."""
        return self._state

    @state.setter
    def state(self, state: DraftState) -> None:
        self._state = state
        self._document.report.note_draft(state.value)

    def concerns(self, node: Node) -> bool:
        """Whether a judgement under way may be about ``node``."""
        return node is self.node or node is self.adopting

    def guard(self, node: Node) -> AbstractContextManager[None]:
        """To be entered before ``node`` is changed."""
        return self.lock.entered() if self.concerns(node) else contextlib.nullcontext()

    def judge(self) -> None:
        """Commit the draft.  Raises ``InvalidTreeError`` or as ``Document.commit_tree``; the text is kept."""
        node = self.node
        if node is None or self.state is DraftState.CLEAN:
            return
        text = spooled(node).content()
        if not text:
            return
        try:
            self.drafts.commit(text)
        except (AsdffsError, OSError):
            self.state = DraftState.REJECTED
            raise
        spooled(node).give(self._committed, same=len(text) == self._document.tree.size)
        self.state = DraftState.CLEAN

    def adopt(self, node: FileNode) -> None:
        """``node`` is being renamed onto the tree: commit its text first.  Raises as ``judge``."""
        text = spooled(node).content()
        before = self._document.tree.text()
        self.adopting = node
        try:
            self.drafts.commit(text)
        finally:
            self.adopting = None
        self.leave(before, replaced=True)
        spooled(node).give(self._committed, same=len(text) == self._document.tree.size)
        spooled(node).rename(TREE)
        self.node, self.state = node, DraftState.CLEAN

    def leave(self, text: bytes | None = None, *, replaced: bool = False) -> None:
        """The name of the tree does not lead to ``node`` any more; it keeps its bytes as they were.

        ``text``: the text that was committed while it was the tree; default: the one of now.
        ``replaced``: it loses its name for good; where nobody has it open, its bytes are not needed.
        """
        node = self.node
        if node is None:
            return
        if self.state in (DraftState.DIRTY, DraftState.CUT_OFF):
            self.drafts.keep(spooled(node).content())
        if not replaced or node.opens or node.names > 1:
            spooled(node).take(self._document.tree.text() if text is None else text)
        self.node, self.state = None, DraftState.CLEAN

    def enter(self, node: FileNode) -> None:
        """``node`` gets the name of the tree without a save: a new file, or one whose renaming was refused."""
        self.node = node
        spooled(node).rename(TREE)
        if spooled(node).content() == self._document.tree.text():
            spooled(node).give(self._committed, same=True)
            self.state = DraftState.CLEAN
        else:
            self.state = DraftState.DIRTY

    def written(self) -> None:
        """The node of the tree was written or truncated."""
        self.state = DraftState.DIRTY

    def cut_off(self) -> None:
        """A writer of the draft was killed: it is kept, and not judged."""
        if self.state is DraftState.DIRTY:
            self.state = DraftState.CUT_OFF
            self._document.report.refuse(InvalidTreeError("the program that was saving the tree was killed"))

    def unsaved(self) -> list[str]:
        """Path of the draft's spool file, if there is a draft."""
        if self.node is None or self.state is DraftState.CLEAN or not spooled(self.node).spooled:
            return []
        return [spooled(self.node).path]


def spooled(node: FileNode) -> SpoolFile:
    """The spool file of a draft or scratch node."""
    if not isinstance(node.file, SpoolFile):
        raise TypeError("only drafts and scratch are spooled")
    return node.file
