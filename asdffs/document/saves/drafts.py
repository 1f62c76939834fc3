"""A text that is to become the tree: committed, or kept where nothing of it is lost.

The one way from what a person typed to the file: the tree that it replaces goes into the history first, a refused
text goes into ``rejected``, durably.  One thread at a time.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from contextlib import AbstractContextManager

from asdffs.document.document import Document
from asdffs.document.saves.history import History
from asdffs.errors import AsdffsError, InvalidTreeError

logger = logging.getLogger(__name__)


class Drafts:
    """Those of one document.  ``rejected``: an existing directory; each commit happens inside ``committing()``."""

    def __init__(
        self,
        document: Document,
        rejected: str,
        history: History,
        *,
        committing: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        self._document = document
        self._rejected = rejected
        self._history = history
        self._count = 0
        self._committing = committing

    def commit(self, text: bytes) -> None:
        """Make ``text`` the tree.  Raises ``InvalidTreeError`` or as ``Document.commit_tree``; it is kept then."""
        with self._committing():
            self._commit(text)

    def _commit(self, text: bytes) -> None:
        before = self._document.tree.text()
        changed = text != before
        if changed:
            with self._document.scheduler.waiting():  # of many megabytes it takes a while
                self._history.note(before)
        del before  # of many megabytes it would be held for as long as the new one is checked
        try:
            self._document.commit_tree(text)
        except (AsdffsError, OSError) as err:
            self._document.report.refuse(err)
            self.keep(text, invalid=isinstance(err, InvalidTreeError))
            raise
        self._document.report.note_saved(other=changed)

    def keep(self, text: bytes, *, invalid: bool = False) -> None:
        """Keep ``text``, durably, unless it is empty, the committed one, or kept already.

        ``invalid``: it could not be the tree of any file, so that a later save can put it right.
        Where that fails the text is still in the file it came from, which outlives us.
        """
        kept = self._document.report.rejected
        if not text or text == self._document.tree.text() or any(_read(path) == text for path in kept):
            return
        self._count += 1
        path = os.path.join(self._rejected, f"{self._count}.yaml")
        try:
            with open(path, "xb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError as err:
            logger.error("a refused draft could not be copied to %s (%s); it stays a draft", path, err.strerror)
            with contextlib.suppress(OSError):
                os.unlink(path)
            return
        kept.append(path)
        if invalid:
            self._document.report.invalid.add(path)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
