"""What a mount has to tell its user: the last error, warnings, rejected drafts, the journal's story.

One per document; written by ``document`` and ``vfs``, rendered by ``views/status``; ``mount`` and ``cli/umount``
raise what it says at the end.
One thread.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

from asdffs.document.progress import Progress
from asdffs.errors import KeptEditsError, UnfinishedError

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Report:
    """Sentences for ``.asdffs/`` and for whoever unmounts.

    ``error``: the last refusal, empty after a save that succeeded.  ``warnings``: of the
    committed tree.  ``settled``: all that was typed or copied in is in the file or beside it,
    so that the spool may be emptied.  ``conflict``: of what was kept beside the file because
    another program changed it meanwhile.  ``rejected``: absolute paths of refused drafts in the
    spool.  ``history``: of trees that were committed, the oldest first.  ``kept``: of what was
    kept beside the file at the end.  ``unkept``: blocks of which a conflict copy
    could not be made yet.  ``failures``: what could not be finished.  ``mount``: facts
    about the serving process.  ``progress``: what is under way.
    """

    error: str = ""
    warnings: tuple[str, ...] = ()
    recovery: str = ""
    settled: bool = True
    draft: str = "clean"
    conflict: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    unkept: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    mount: dict[str, Any] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)

    def refuse(self, error: Exception) -> None:
        """Remember why something was refused, and log it."""
        self.error = str(error)
        logger.warning("refused: %s", error)


def raise_report(path: str, kept: list[str], failures: list[str]) -> None:
    """Raise what the end of a mount has to say: ``UnfinishedError``, ``KeptEditsError``, or nothing."""
    where = f"; kept: {', '.join(kept)}" if kept else ""
    if failures and not kept:
        raise UnfinishedError(f"the file could not be finished: {'; '.join(failures)}", path=path)
    if failures:
        raise KeptEditsError(f"some edits are not in the file: {'; '.join(failures)}{where}", path=path)
    if kept:
        raise KeptEditsError(f"some of what was saved is not in the file{where}", path=path)
