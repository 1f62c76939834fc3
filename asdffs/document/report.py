"""What a mount has to tell its user: the last error, warnings, rejected drafts, the journal's story.

One per document; written by ``document`` and ``vfs``, rendered by ``views/status``; ``mount`` and ``cli/umount``
raise what it says at the end.
One thread.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from asdffs.document.progress import Progress
from asdffs.errors import KeptEditsError, UnfinishedError

logger = logging.getLogger(__name__)


#: How many paths, or directories, a sentence names.
_NAMED: Final = 3


class Outcome(NamedTuple):
    """What the end of a mount has to say.

    ``kept``: paths of what was saved and is not in the file; ``failures``: sentences, what could not be finished or
    kept; ``superseded``: paths of refused saves that a later save has put right, kept all the same.
    """

    kept: list[str]
    failures: list[str]
    superseded: list[str]

    @property
    def note(self) -> str:
        """A sentence about what was put right, or empty."""
        where = told_places(self.superseded)
        return f"a save that was refused, and corrected later, is kept: {where}" if where else ""


@dataclass(slots=True)
class Report:
    """Sentences for ``.asdffs/`` and for whoever unmounts.

    ``tell(error)``: an error in the words that users read. ``error``: the last refusal, empty after a save that
    succeeded. ``warnings``: of the committed tree. ``conflict``: of what was kept beside the file because another
    program changed it meanwhile. ``rejected``: absolute paths of refused drafts in the spool. ``history``: of
    trees that were committed, the oldest first. ``kept``: of what was kept beside the file at the end;
    ``invalid``: those of ``rejected`` that no file could have as its tree; ``corrected``: those of ``rejected``
    that a later save replaced; ``superseded``: where these were kept. ``unkept``: blocks of which a conflict copy
    could not be made yet. ``failures``: what could not be finished. ``mount``: facts about the serving process.
    ``progress``: what is under way.
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
    invalid: set[str] = field(default_factory=set)
    corrected: set[str] = field(default_factory=set)
    superseded: list[str] = field(default_factory=list)
    unkept: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    mount: dict[str, Any] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)

    def note_saved(self, *, other: bool) -> None:
        """A save succeeded: the last refusal is history.

        ``other``: it is another tree than before, so it puts right what was invalid.  A program that only puts the
        old tree back corrects nothing.
        """
        self.error = ""
        if other:
            self.corrected |= self.invalid

    def note_served_again(self, conflict: str) -> None:
        """The file can be read again after another program's change; ``conflict``: why it is not written."""
        self.error = conflict

    def note_warnings(self, warnings: tuple[str, ...]) -> None:
        """These are those of the committed tree."""
        self.warnings = warnings

    def note_kept(self, kept: list[str], failures: list[str], superseded: Sequence[str] = ()) -> None:
        """Files were kept beside the ASDF file, or could not be."""
        self.kept += kept
        self.failures += failures
        self.superseded += superseded

    @property
    def outcome(self) -> Outcome:
        """What the end has to say."""
        return Outcome(self.kept, self.failures, self.superseded)

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


def raise_outcome(path: str, outcome: Outcome) -> None:
    """Raise what the end of a mount has to say: ``UnfinishedError``, ``KeptEditsError``, or nothing."""
    failures, where = "; ".join(outcome.failures), told_places(outcome.kept)
    if failures and not where:
        raise UnfinishedError(f"the file could not be finished: {failures}", path=path)
    if failures:
        raise KeptEditsError(f"some edits are not in the file: {failures}; kept: {where}", path=path)
    if where:
        raise KeptEditsError(f"some of what was saved is not in the file; kept: {where}", path=path)


def told_places(paths: Sequence[str]) -> str:
    """Return where files are, for a message: each path if they are few, else how many are in which directory."""
    if len(paths) <= _NAMED:
        return ", ".join(paths)
    counts = Counter(map(os.path.dirname, paths))
    if len(counts) > _NAMED:  # a whole tree of directories
        counts = Counter({os.path.commonpath(paths): len(paths)})
    return ", ".join(f"{count} file{'s' * (count > 1)} in {folder}" for folder, count in counts.items())
