"""One open file and its journal: the steps that every change is made of, and what failed.

Guarantee: once a sync, an undo or the retirement of a record has failed, the mode is FAILED for good, and every
later step refuses; the journal stays for recovery (invariant 7).  While a step waits for the disk others have the
turn.  One change at a time, by the holder of the exclusive lock.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

from asdffs.errors import AsdffsError, FailedFileError, StaleFileError
from asdffs.scheduling import Rank, RankedLock, Scheduler
from asdffs.storage.backend import Backend, Folder, Signature
from asdffs.storage.file_mode import FileMode
from asdffs.storage.journal import Journal
from asdffs.storage.record import Record

logger = logging.getLogger(__name__)


class OpenFile:
    """``journal`` is None where there is none: for reading only, or by the user's choice.

    ``signature``: the file as we last left it.  ``mode``: whether it may be written.  ``made``: the change under way
    is in the file, whatever comes.  ``replacing(path)`` is called before a new file gets the name of the old one.
    ``moving``: taken while bytes move within the file; who reads them waits for it.
    """

    def __init__(
        self,
        folder: Folder,
        backend: Backend,
        journal: Journal | None,
        scheduler: Scheduler,
        mode: FileMode,
        replacing: Callable[[str], None],
        known: Signature | None = None,
    ) -> None:
        """``known``: the signature of what was read of it; None: of what it is now."""
        self.folder = folder
        self.backend = backend
        self.journal = journal
        self.scheduler = scheduler
        self.replacing = replacing
        self.mode = mode
        self.signature = known or backend.signature()
        self.moving = RankedLock(scheduler, Rank.MOVE)
        self.made = False

    @property
    def path(self) -> str:
        """Of the file, for messages."""
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
        """Whether it has the content that we left; after a chmod or a link it does, from now on with that ctime."""
        if now == self.signature:
            return True
        if not self.signature.is_same_content(now):
            return False
        self.signature = now
        return True

    def is_current(self) -> bool:
        """Whether the name still leads to the file as we noted it.  Raises ``OSError``."""
        try:
            return self.is_ours(self.folder.signature(self.backend.name))
        except FileNotFoundError:
            return False

    def note_signature(self) -> None:
        """What the file looks like now is our own doing."""
        self.signature = self.backend.signature()

    def sync(self) -> None:
        """Return when what was written is durable.  Raises ``FailedFileError`` (invariant 7)."""
        self.mode.check_healthy()
        try:
            with self.scheduler.waiting():
                self.backend.sync()  # invariants 3, 7, 8, 9 and 11, as the caller says
        except OSError as err:
            raise self.fail(f"writing to the disk failed ({err.strerror})") from err

    def write_record(self, record: Record) -> None:
        """Make ``record`` durable (invariant 2), and see that the file is still ours (invariant 1).

        Raises ``StaleFileError`` or ``OSError``; there is no record then.
        """
        self.mode.check_healthy()
        if self.journal is None:
            return
        try:
            with self.scheduler.waiting():
                self.journal.write(record)
            self.check_unchanged()
        except (OSError, StaleFileError):
            self.retire()  # it may be whole on the disk: it must not be replayed later
            raise

    def retire(self) -> None:
        """Forget the record, durably.  Raises ``FailedFileError`` (invariant 7)."""
        if self.journal is None:
            return
        try:
            with self.scheduler.waiting():
                self.journal.retire()
        except OSError as err:
            raise self.fail(f"the journal could not be retired ({err.strerror})") from err

    def stale(self) -> StaleFileError:
        """What to raise when another program changed the file."""
        return StaleFileError(
            "another program changed the file since it was read; nothing was written over it: "
            "keep your text elsewhere, and open the file again (unmount, and mount again)",
            path=self.path,
        )

    def conclude(self) -> None:
        """The change is in the file, durably: forget its record; where that fails nothing more is written."""
        self.made = True
        with contextlib.suppress(FailedFileError):
            self.retire()

    @contextlib.contextmanager
    def interrupted(self) -> Iterator[None]:
        """What ends otherwise than by a refusal may have left half of a change: fail, so that it is recovered."""
        self.made = False
        try:
            yield
        except (OSError, AsdffsError):
            raise
        except BaseException as err:  # whatever it was: half of the change may be there, and it goes on
            self.fail(f"a change was interrupted ({type(err).__name__})")
            raise

    def fail(self, reason: str) -> FailedFileError:
        """Nothing more is written, for ``reason``; what to raise."""
        failure = self.mode.note_failure(reason)
        logger.error("%s", failure)
        return failure
