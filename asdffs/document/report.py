"""What a mount has to tell its user: the last error, warnings, rejected drafts, the journal's story.

One per document; written by ``document`` and ``vfs``, rendered by ``views/status``; ``mount`` and ``cli/umount``
raise what it says at the end.
One thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from asdffs.document.progress import Progress
from asdffs.errors import KeptEditsError, UnfinishedError

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Report:
    """Sentences for ``.asdffs/`` and for whoever unmounts.

    ``tell(error)``: an error in the words that users read.  ``error``: the last refusal, empty after a save that
    succeeded.  ``warnings``: of the committed tree.  ``conflict``: of what was kept beside the file because another
    program changed it meanwhile.  ``rejected``: absolute paths of refused drafts in the spool.  ``history``: of trees
    that were committed, the oldest first.  ``kept``: of what was kept beside the file at the end.  ``unkept``: blocks
    of which a conflict copy could not be made yet.  ``failures``: what could not be finished.  ``mount``: facts about
    the serving process.  ``progress``: what is under way.
    """

    tell: Callable[[Exception], str] = str
    error: str = ""
    warnings: tuple[str, ...] = ()
    recovery: str = ""
    draft: str = "clean"
    conflict: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    unkept: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    mount: dict[str, Any] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)

    def note_saved(self) -> None:
        """A save succeeded: the last refusal is history."""
        self.error = ""

    def note_served_again(self, conflict: str) -> None:
        """The file can be read again after another program's change; ``conflict``: why it is not written."""
        self.error = conflict

    def note_warnings(self, warnings: tuple[str, ...]) -> None:
        """These are those of the committed tree."""
        self.warnings = warnings

    def note_kept(self, kept: list[str], failures: list[str]) -> None:
        """Files were kept beside the ASDF file, or could not be."""
        self.kept += kept
        self.failures += failures

    def note_draft(self, state: str) -> None:
        """The draft is in this state."""
        self.draft = state

    def note_mount(self, facts: dict[str, Any]) -> None:
        """These are facts about the serving process."""
        self.mount = facts

    def refuse(self, error: Exception) -> None:
        """Remember why something was refused, and log it."""
        self.error = self.tell(error)
        logger.warning("refused: %s", self.error)

    def fail(self, error: Exception) -> None:
        """The file could not be finished."""
        self.failures.append(self.tell(error))


def raise_report(path: str, kept: list[str], failures: list[str]) -> None:
    """Raise what the end of a mount has to say: ``UnfinishedError``, ``KeptEditsError``, or nothing."""
    where = f"; kept: {', '.join(kept)}" if kept else ""
    if failures and not kept:
        raise UnfinishedError(f"the file could not be finished: {'; '.join(failures)}", path=path)
    if failures:
        raise KeptEditsError(f"some edits are not in the file: {'; '.join(failures)}{where}", path=path)
    if kept:
        raise KeptEditsError(f"some of what was saved is not in the file{where}", path=path)
