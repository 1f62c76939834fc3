"""Modes of an open file: whether it may be read and written, and the events that change the mode.

| mode      | reads                          | writes          | on a failure | on a conflict |
|-----------|--------------------------------|-----------------|--------------|---------------|
| READY     | the file                       | yes             | FAILED       | CONFLICT      |
| READ_ONLY | the file                       | ReadOnlyError   | FAILED       | CONFLICT      |
| CONFLICT  | the file as changed by another | StaleFileError  | FAILED       | CONFLICT      |
| FAILED    | the file as if recovered       | FailedFileError | FAILED       | FAILED        |

*Failure*: a sync, an undo or the retirement of a record failed (invariant 7), so the journal stays for the next
open.  *Conflict*: another program changed the file while a change of ours was pending (decision 11).  No other
event changes the mode; to leave CONFLICT or FAILED, close the file and open it again.
"""

from __future__ import annotations

import enum
from typing import Final

from asdffs.errors import FailedFileError, ReadOnlyError, StaleFileError


class Mode(enum.Enum):
    """The modes of the table above."""

    READY = "ready"
    READ_ONLY = "read-only"
    CONFLICT = "conflict"
    FAILED = "failed"


class Event(enum.Enum):
    """The events that change the mode."""

    FAILURE = "failure"
    CONFLICT = "conflict"


#: The last two columns of the table above.
NEXT: Final = {
    (Mode.READY, Event.FAILURE): Mode.FAILED,
    (Mode.READY, Event.CONFLICT): Mode.CONFLICT,
    (Mode.READ_ONLY, Event.FAILURE): Mode.FAILED,
    (Mode.READ_ONLY, Event.CONFLICT): Mode.CONFLICT,
    (Mode.CONFLICT, Event.FAILURE): Mode.FAILED,
    (Mode.CONFLICT, Event.CONFLICT): Mode.CONFLICT,
    (Mode.FAILED, Event.FAILURE): Mode.FAILED,
    (Mode.FAILED, Event.CONFLICT): Mode.FAILED,
}


class FileMode:
    """The mode of the file at ``path``.

    ``failure``, ``conflict``: sentences that describe what happened, empty if it did not.
    """

    def __init__(self, path: str, *, writable: bool) -> None:
        self._path = path
        self.writable = writable
        self.mode = Mode.READY if writable else Mode.READ_ONLY
        self.failure = ""
        self.conflict = ""

    def note_failure(self, reason: str) -> FailedFileError:
        """Stop all writes because of ``reason``, and return the error to raise."""
        self.failure = f"{reason}; nothing more is written: unmount, and mount again to recover"
        self.mode = NEXT[self.mode, Event.FAILURE]
        return FailedFileError(self.failure, path=self._path)

    def note_conflict(self, sentence: str) -> None:
        """Stop all writes because another program changed the file."""
        self.conflict = sentence
        self.mode = NEXT[self.mode, Event.CONFLICT]

    def check_writable(self) -> None:
        """Raise ``FailedFileError``, ``StaleFileError`` or ``ReadOnlyError`` in every mode but READY."""
        if self.mode is Mode.READY:
            return
        self.check_healthy()
        self.check_conflict()
        raise ReadOnlyError("the file is open read-only", path=self._path)

    def check_healthy(self) -> None:
        """Raise ``FailedFileError`` after a failure."""
        if self.failure:
            raise FailedFileError(self.failure, path=self._path)

    def check_conflict(self) -> None:
        """Raise ``StaleFileError`` after a conflict."""
        if self.conflict:
            raise StaleFileError(self.conflict, path=self._path)
