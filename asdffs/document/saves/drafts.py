"""Commits drafts of the tree, and keeps the refused ones, so that no text of a user is lost.

Every saved draft takes this way.  The tree that it replaces goes into the history first.  A refused draft is copied
durably into ``rejected``.  The caller holds the main lock; one thread at a time.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final

from asdffs.document.document import Document
from asdffs.document.saves.history import History
from asdffs.errors import AsdffsError, InvalidTreeError, NoRoomError, StaleFileError

#: More lines than these are not compared one by one: all of them count as changed.
_MOST: Final = 2000


def corrects(before: bytes, refused: bytes, saved: bytes) -> bool:
    """Return whether ``saved`` changes any of the lines that ``refused`` would have changed.

    ``before``: the tree that both would replace.  A save that changes other lines corrects nothing: what somebody
    typed into the refused text would be lost without a word.
    """
    lines = before.splitlines()
    wanted = _changed(lines, refused.splitlines())
    done = _changed(lines, saved.splitlines())
    return any(_overlap(one, two) for one in wanted for two in done)


def _changed(old: Sequence[bytes], new: Sequence[bytes]) -> list[tuple[int, int]]:
    """Return the ranges of lines of ``old`` that are not in ``new``; an empty range is where lines are added."""
    least = min(len(old), len(new))
    start = next((n for n in range(least) if old[n] != new[n]), least)
    end = next((n for n in range(least - start) if old[-1 - n] != new[-1 - n]), least - start)
    i, j = len(old) - end, len(new) - end
    if max(i, j) - start > _MOST:
        return [(start, i)]
    from difflib import SequenceMatcher  # few saves are refused

    codes = SequenceMatcher(None, old[start:i], new[start:j]).get_opcodes()
    return [(start + first, start + last) for tag, first, last, _, _ in codes if tag != "equal"]


def _overlap(one: tuple[int, int], two: tuple[int, int]) -> bool:
    """Return whether two ranges of lines have a line in common, or one of them is empty and touches the other."""
    if one[0] == one[1] or two[0] == two[1]:
        return one[0] <= two[1] and two[0] <= one[1]
    return one[0] < two[1] and two[0] < one[1]


logger = logging.getLogger(__name__)


class Drafts:
    """The drafts of one document.

    ``rejected``: an existing directory for refused drafts.  Each commit runs inside the context ``committing()``.
    """

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

    def commit(self, text: bytes, *, keep_stale: bool = True) -> None:
        """Make ``text`` the tree.  Raises as ``Document.commit_tree``; then the text is kept.

        ``keep_stale``: also after a ``StaleFileError``; without it the caller has the text in a file, and keeps that.
        """
        with self._committing():
            self._commit(text, keep_stale=keep_stale)

    def _commit(self, text: bytes, *, keep_stale: bool) -> None:
        before = self._document.tree.text()
        changed = text != before
        if changed:
            with self._document.scheduler.waiting():  # writing many megabytes takes a while
                self._history.note(before)
        report = self._document.report
        refused = [path for path in report.correctable if path not in report.corrected] if changed else []
        if not refused:
            before = b""  # it may have many megabytes, which are not needed while the new text is checked
        try:
            self._document.commit_tree(text)
        except (AsdffsError, OSError) as err:
            report.refuse(err)
            if keep_stale or not isinstance(err, StaleFileError):
                self.keep(text, correctable=isinstance(err, (InvalidTreeError, NoRoomError)))
            raise
        report.note_saved([path for path in refused if _is_corrected(path, before, text)])

    def keep(self, text: bytes, *, correctable: bool = False) -> bool:
        """Keep ``text`` durably, unless it is empty, the committed one, or kept already; return whether that worked.

        ``correctable``: the program that saved it was told so, and a save that changes the same lines counts as the
        correction: the text is not valid, or there was no room for it in the file.  If the copy fails, this is
        logged; the text is still in the spool file of the draft, which outlives the process.
        """
        kept = self._document.report.rejected
        if not text or text == self._document.tree.text():
            return True
        if (same := next((path for path in kept if _read(path) == text), None)) is not None:
            self._document.report.corrected.discard(same)
            return True
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
            return False
        kept.append(path)
        if correctable:
            self._document.report.correctable.add(path)
        return True


def _is_corrected(path: str, before: bytes, text: bytes) -> bool:
    """Return whether ``text``, which is saved, corrects the refused text at ``path``; False if it cannot be read."""
    from asdffs.document.saves.drafts import corrects  # few saves are refused

    try:
        return corrects(before, _read(path), text)
    except OSError as err:
        logger.warning("a refused draft cannot be read (%s: %s), so it counts as not corrected", path, err.strerror)
        return False


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
