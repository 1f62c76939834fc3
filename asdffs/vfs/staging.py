"""Staging: decides when a draft of the tree is committed to the file (docs/semantics.md, Saving).

The tree is identified by its node, never by a path.  ``node`` is the one that the name ``tree.yaml`` leads to now, or
None between an unlink and the create that follows.

| draft    | meaning                                                        | next state                          |
|----------|----------------------------------------------------------------|-------------------------------------|
| CLEAN    | the node shows the committed text                              | written -> DIRTY                    |
| DIRTY    | written since the last check                                   | checked -> CLEAN or REJECTED;       |
|          |                                                                | writer killed -> CUT_OFF            |
| REJECTED | checked, and invalid or not committed; the spool has the text  | written -> DIRTY                    |
| CUT_OFF  | a writer was killed in the middle                              | written -> DIRTY                    |

``commit_draft`` checks a draft, and commits it if it is valid.  An empty draft stays, because ``>`` and O_TRUNC make
one before the first write.

A draft is based on the version of the file on which the oldest descriptor that wrote it was opened.  A file that gets
the name is based on the last version in which a program opened the tree to read it.  If another program changed the
file since, that save is refused; the text is kept, and the node shows the tree of the other program.

The caller holds the main lock.  A commit releases it for a while.  So every request that changes the tree's name, or
a node that is the tree or is about to become it (``concerns``), first enters ``lock``.
"""

from __future__ import annotations

import contextlib
import enum
from contextlib import AbstractContextManager

from asdffs.document.document import Document
from asdffs.document.saves.drafts import Drafts
from asdffs.errors import AsdffsError, InvalidTreeError, StaleFileError
from asdffs.scheduling import Rank, RankedLock
from asdffs.vfs.namespace import FileNode, Node
from asdffs.vfs.scratch import SpoolFile
from asdffs.views.status import CommittedTree

#: Name of the draft in the mount and of its file in the spool.
TREE = "tree.yaml"


class DraftState(enum.Enum):
    """The state of the draft; the table of this module describes each."""

    CLEAN = "clean"
    DIRTY = "dirty"
    REJECTED = "rejected"
    CUT_OFF = "cut off"


class Staging:
    """The draft of one document's tree."""

    def __init__(self, document: Document, drafts: Drafts, node: FileNode) -> None:
        self._document = document
        self.drafts = drafts
        self._committed = CommittedTree(document)
        self.node: FileNode | None = node
        self.adopting: FileNode | None = None
        self.lock = RankedLock(document.scheduler, Rank.SAVE)
        self._state = DraftState.CLEAN
        self.base = document.generation
        self._seen: int | None = None

    @property
    def state(self) -> DraftState:
        """The state of the draft."""
        return self._state

    @state.setter
    def state(self, state: DraftState) -> None:
        self._state = state
        self._document.report.draft = state.value

    def concerns(self, node: Node) -> bool:
        """Return whether a commit under way may be about ``node``."""
        return node is self.node or node is self.adopting

    def guard(self, node: Node) -> AbstractContextManager[None]:
        """Return a context to enter before ``node`` is changed: the lock if a commit may be about it."""
        return self.lock.entered() if self.concerns(node) else contextlib.nullcontext()

    def commit_draft(self) -> None:
        """Check and commit the draft.  Does nothing if it is clean or empty.

        Raises ``InvalidTreeError``, ``StaleFileError``, and as ``Document.commit_tree``; the text is kept then.
        """
        node = self.node
        if node is None or self.state is DraftState.CLEAN:
            return
        text = spooled(node).content()
        if not text:
            return
        try:
            self._check_base(text, self.base)
            self.drafts.commit(text)
        except (AsdffsError, OSError) as err:
            self.state = DraftState.REJECTED
            if isinstance(err, _OutdatedError) and err.kept:  # else who opens the tree next would save it after all
                spooled(node).give(self._committed, same=False)
                self.state = DraftState.CLEAN
            raise
        spooled(node).give(self._committed, same=len(text) == self._document.tree.size)
        self.state = DraftState.CLEAN

    def adopt(self, node: FileNode) -> None:
        """Commit the text of ``node``, which is about to be renamed onto the tree.  Raises as ``commit_draft``."""
        text = spooled(node).content()
        self._check_base(text, self._seen_or_now)
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
        """Separate the node from the name of the tree.  The node keeps the bytes that it shows.

        ``text``: the text that was committed while it was the tree; None means the current one.  ``replaced``: the
        node loses this name for good, so its bytes are only needed if it is open or has another name.
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
        """Give ``node``, a new file, the name of the tree without a commit."""
        self.node, self.base = node, self._seen_or_now
        spooled(node).rename(TREE)
        if spooled(node).content() == self._document.tree.text():
            spooled(node).give(self._committed, same=True)
            self.state = DraftState.CLEAN
        else:
            self.state = DraftState.DIRTY

    def seen(self) -> None:
        """Record that a program opened the tree to read it."""
        self._seen = self._document.generation

    @property
    def _seen_or_now(self) -> int:
        return self._document.generation if self._seen is None else self._seen

    def written(self, base: int) -> None:
        """Record that the node of the tree was written or truncated through a handle of the generation ``base``."""
        begun = self.state is not DraftState.CLEAN and self.node is not None and self.node.file.size()
        self.base = min(self.base, base) if begun else base
        self.state = DraftState.DIRTY

    def _check_base(self, text: bytes, base: int) -> None:
        """Raise ``_OutdatedError``, and keep ``text``, if another program changed the file after ``base``."""
        document = self._document
        if base == document.generation or document.mode.conflict or text == document.tree.text():
            return
        error = _OutdatedError(kept=self.drafts.keep(text), path=document.path)
        document.report.refuse(error)
        raise error

    def cut_off(self) -> None:
        """Record that a writer of the draft was killed: the draft is kept but not committed."""
        if self.state is DraftState.DIRTY:
            self.state = DraftState.CUT_OFF
            self._document.report.refuse(InvalidTreeError("the program that was saving the tree was killed"))

    def unsaved(self) -> list[str]:
        """Return the path of the draft's spool file, or an empty list if there is no draft."""
        if self.node is None or self.state is DraftState.CLEAN or not spooled(self.node).spooled:
            return []
        return [spooled(self.node).path]


class _OutdatedError(StaleFileError):
    """A save is based on an older version of the file.  ``kept``: whether its text was copied."""

    def __init__(self, *, kept: bool, path: str) -> None:
        sentence = (
            f"another program changed the file after this text was read; read {TREE} again, and repeat the edit"
        )
        super().__init__(sentence, path=path)
        self.kept = kept


def spooled(node: FileNode) -> SpoolFile:
    """Return the spool file of a draft or scratch node.  Raises ``TypeError`` for other nodes."""
    if not isinstance(node.file, SpoolFile):
        raise TypeError("only drafts and scratch are spooled")
    return node.file
