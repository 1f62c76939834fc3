"""One open file and its journal: in which mode it is, the steps of every change, and what happens if a step fails.

| mode      | reads                          | writes          | on a failure | on a conflict |
|-----------|--------------------------------|-----------------|--------------|---------------|
| READY     | the file                       | yes             | FAILED       | CONFLICT      |
| READ_ONLY | the file                       | ReadOnlyError   | FAILED       | CONFLICT      |
| CONFLICT  | the file as changed by another | StaleFileError  | FAILED       | CONFLICT      |
| FAILED    | the file as if recovered       | FailedFileError | FAILED       | FAILED        |

*Failure*: a sync, an undo or the retirement of a record failed.  The mode is FAILED for good, every later step
refuses, and the journal stays for recovery at the next open (invariant 7).  *Conflict*: another program changed the
file while a change of ours was pending (decision 11).  No other event changes the mode; to leave CONFLICT or FAILED,
close the file and open it again.

While a step waits for the disk, the main lock is released.  One change at a time, by the holder of the exclusive
lock.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from asdffs.errors import AsdffsError, FailedFileError, ReadOnlyError, StaleFileError
from asdffs.scheduling import Rank, RankedLock, Scheduler
from asdffs.storage.backend import Folder, MovableBackend, Signature

if TYPE_CHECKING:
    from asdffs.storage.journal import Journal
    from asdffs.storage.record import Record

logger = logging.getLogger(__name__)

#: The strategies of ``growth``, in the order in which they are tried.
STRATEGIES: Final = ("clone", "insert", "copy")
#: Try all of them.
AUTO: Final = "auto"


class Unsuitable(Exception):  # noqa: N818 - no error: the next strategy is tried
    """This strategy does not work for this file; it changed nothing."""


class FileMode:
    """The mode of the file at ``path``, by the table above.

    ``failure``: why nothing can be written any more; ``conflict``: what another program did to the file; each is
    empty as long as that did not happen.  ``events``: how often either did.
    """

    def __init__(self, path: str, *, writable: bool) -> None:
        self._path = path
        self.writable = writable
        self.events = 0
        self.failure = ""
        self.conflict = ""

    def note_failure(self, reason: str) -> FailedFileError:
        """Stop all writes because of ``reason``, and return the error to raise."""
        self.failure = f"{reason}; nothing more is written: unmount, and mount again to recover"
        self.events += 1
        return FailedFileError(self.failure, path=self._path)

    def note_conflict(self, sentence: str) -> None:
        """Stop all writes because another program changed the file."""
        self.conflict = sentence
        self.events += 1

    def check_writable(self) -> None:
        """Raise ``FailedFileError``, ``StaleFileError`` or ``ReadOnlyError`` in every mode but READY."""
        if self.failure or self.conflict or not self.writable:
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


class OpenFile:
    """One open file.

    ``journal`` is None if there is none: the file is read-only, or the user chose so.  ``signature``: the file
    as we last left it.  ``mode``: whether it may be written.  ``made``: the current change is in the file, even
    if a later step fails.  ``can_clone``: False once the file system has refused to.  ``replacing(path)`` is called
    before a new file gets the name of the old one, ``changed(path)`` after the first change.  ``moving``: held while
    bytes move within the file; readers wait for it.
    """

    def __init__(
        self,
        folder: Folder,
        backend: MovableBackend,
        journal: Journal | None,
        scheduler: Scheduler,
        mode: FileMode,
        replacing: Callable[[str], None],
        known: Signature,
        changed: Callable[[str], object],
    ) -> None:
        """``known``: the signature of the file when it was read."""
        self.folder = folder
        self.backend = backend
        self.journal = journal
        self.scheduler = scheduler
        self.replacing = replacing
        self.mode = mode
        self.signature = known
        self.moving = RankedLock(scheduler, Rank.MOVE)
        self.made = False
        self.can_clone = True
        self._told = False
        self._changed = changed

    @property
    def path(self) -> str:
        """The path of the file, for messages."""
        return self.folder.path(self.backend.name)

    def check_unchanged(self) -> None:
        """Raise ``StaleFileError`` unless the name leads to the file as we left it (invariant 1)."""
        self.mode.check_conflict()
        try:
            current = self.is_ours(self.folder.signature(self.backend.name))
        except FileNotFoundError as err:
            raise StaleFileError("the file was removed", path=self.path) from err
        if not current:
            raise self.stale()

    def is_ours(self, now: Signature) -> bool:
        """Return whether the file with the signature ``now`` has the content that we left.

        After a chmod or a link it still has, and the new signature is noted.
        """
        if now == self.signature:
            return True
        if not self.signature.is_same_content(now):
            return False
        self.signature = now
        return True

    def is_current(self) -> bool:
        """Return whether the name still leads to the file as we left it.  Raises ``OSError``."""
        try:
            return self.is_ours(self.folder.signature(self.backend.name))
        except FileNotFoundError:
            return False

    def note_signature(self) -> None:
        """Note the current signature: the last changes of the file were our own.  The first of them is told."""
        self.signature = self.backend.signature()
        if not self._told:
            self._told = True
            self._changed(self.path)

    def sync(self) -> None:
        """Return when all writes are durable.  Raises ``FailedFileError`` (invariant 7)."""
        self.mode.check_healthy()
        try:
            with self.scheduler.waiting():
                self.backend.sync()  # invariants 3, 7, 8, 9 and 11, as the caller says
        except OSError as err:
            raise self.fail(f"writing to the disk failed ({err.strerror})") from err

    def write_record(self, record: Record) -> None:
        """Make ``record`` durable (invariant 2), and check that the file is still ours (invariant 1).

        Raises ``StaleFileError`` or ``OSError``; there is no record then.  Raises ``FailedFileError`` after a
        failure.
        """
        self.mode.check_healthy()
        if self.journal is None:
            return
        try:
            with self.scheduler.waiting():
                self.journal.write(record)
            self.check_unchanged()
        except (OSError, StaleFileError):
            self.retire()  # it may be complete on the disk, and must not be replayed later
            raise

    def retire(self) -> None:
        """Erase the record durably.  Raises ``FailedFileError`` (invariant 7)."""
        if self.journal is None:
            return
        try:
            with self.scheduler.waiting():
                self.journal.retire()
        except OSError as err:
            raise self.fail(f"the journal could not be retired ({err.strerror})") from err

    def stale(self) -> StaleFileError:
        """Return the error to raise if another program changed the file."""
        return StaleFileError(
            "another program changed the file since it was read, so nothing was written; "
            "save your text in another place, then open the file again (unmount, and mount again)",
            path=self.path,
        )

    def conclude(self) -> None:
        """Erase the record of a change that is durable in the file.

        If that fails, the mode becomes FAILED and nothing is raised.
        """
        self.made = True
        with contextlib.suppress(FailedFileError):
            self.retire()

    @contextlib.contextmanager
    def interrupted(self) -> Iterator[None]:
        """Fail the file if an unexpected exception ends the block, because half of a change may be in it.

        Recovery then completes the change.  ``OSError`` and ``AsdffsError`` are refusals, so they only pass through.
        """
        self.made = False
        try:
            yield
        except (OSError, AsdffsError):
            raise
        except BaseException as err:  # half of the change may be in the file; raise again
            self.fail(f"a change was interrupted ({type(err).__name__})")
            raise

    def fail(self, reason: str) -> FailedFileError:
        """Stop all writes because of ``reason``, and return the error to raise."""
        failure = self.mode.note_failure(reason)
        logger.error("%s", failure)
        return failure
