"""Every change of the file goes through here.

Definitions.  *Plan*: what must change (``format/plan``).  *In place*: a plan without a
move; it is journalled.  *Growth*: a plan with a move; ``storage/gap`` chooses how.  *Fill*:
a plan with the new content of a block, which a *payload* holds, a file of its own.  *Content*:
bytes of a block within its allocation; they are written through, because old or new they are a
legal file.  *Signature*: (device, inode, size, mtime, ctime) of the file as we last left it.
*Record*: what the journal holds of a pending change.

Invariants; each sync and each record here, in ``steps`` and in ``storage`` names those that it serves
 1. Before any change, and again once its record is durable, the signature is checked; a foreign
    change is never overwritten.
 2. A change of existing bytes, in place or by moving them, is in the journal, durable, before the
    first byte of the file changes.
 3. The journal is retired only after the changed bytes, or the old ones again, are durable.
 4. A change that fails half-way is undone before the journal is retired.
 5. A growth by a new file writes nothing into the old one: the whole new file is durable before it
    gets the name.
 6. Content is written only inside what the durable header allocates.
 7. After a failed sync, undo or retire the state is FAILED and nothing is written any more; the
    journal stays for recovery at the next open.
 8. Before the file system opens a gap every byte of the file is on the disk, and its record holds
    where: recovery tells by the addresses what has moved.
 9. Bytes are durable in their new place before anything is written where they were, and the gap
    is closed only after what was written into it is durably undone.
10. A piece of a shift is in the journal, durable, before it is written over the bytes behind it,
    and durable there before the next piece is.
11. The size that a record names is durable: a stream that was appended to is synced before.
12. A payload and its name are durable before the record that names it, and stay until it is retired.

``storage/file_mode`` has the modes of the file, and what leads from one to another.

Without a journal (the user's choice) invariants 2 to 4 hold as long as nothing is killed.
While it waits for the disk others hold the main lock (``scheduler``); one change at a time, which
``Document`` sees to, under the exclusive lock.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from asdffs import interrupts
from asdffs.document.blocks.foreign import Foreign, foreign_change_of
from asdffs.document.blocks.pins import Pins
from asdffs.document.blocks.steps import Step, fill, in_place, show_recovered
from asdffs.errors import StorageError
from asdffs.format.plan import Plan
from asdffs.scheduling import RankedLock, Scheduler, SingleThread
from asdffs.storage.backend import Backend, Folder, Signature
from asdffs.storage.file_mode import FileMode
from asdffs.storage.gap import AUTO, open_gap
from asdffs.storage.journal import Journal
from asdffs.storage.open_file import OpenFile
from asdffs.storage.payload import Payload, create_payload
from asdffs.storage.replace import rewrite
from asdffs.storage.strategy import Unsuitable

logger = logging.getLogger(__name__)

#: Strategies that make a new file.
_REPLACING: Final = ("clone", "copy")


class ChangePolicy(NamedTuple):
    """How changes are made.  ``growth``: a strategy of ``gap``, or ``auto``; ``writable``: whether at all.

    ``replacing(path)``: a new file, now at ``path``, is about to get the name of the old one.
    """

    writable: bool = True
    growth: str = AUTO
    replacing: Callable[[str], None] = lambda path: None


class Transaction:
    """All changes of one open file.  ``journal`` is None for one that is only read, or by the user's choice.

    ``pins``: of blocks that a program has mapped, which do not move meanwhile.
    """

    def __init__(
        self,
        folder: Folder,
        backend: Backend,
        journal: Journal | None,
        scheduler: Scheduler | None = None,
        policy: ChangePolicy | None = None,
        known: Signature | None = None,
        mode: FileMode | None = None,
    ) -> None:
        """``known``: the signature of what was read of it; None: of what it is now.  ``mode``: which it is in."""
        self._policy = policy or ChangePolicy(writable=journal is not None)
        self.mode = mode or FileMode(folder.path(backend.name), writable=self._policy.writable)
        scheduler = scheduler or SingleThread()
        self._file = OpenFile(folder, backend, journal, scheduler, self.mode, self._policy.replacing, known)
        self.changed = False
        self._resized = False
        self.grown_by = ""
        self.pins = Pins()
        self._note: dict[str, Any] = {}
        self._noted = ""

    @property
    def backend(self) -> Backend:
        """The open file; another one after a growth."""
        return self._file.backend

    @property
    def known(self) -> Signature:
        """Of the file as we last left it."""
        return self._file.signature

    @property
    def moving(self) -> RankedLock:
        """Taken while blocks move within the file: who reads them waits."""
        return self._file.moving

    def commit(self, plan: Plan, adopt: Callable[[], None]) -> None:
        """Carry out ``plan``, whole or not at all, and durably.

        ``adopt`` is called when the file is the new one, before anybody else holds the main lock; also when a
        sync then fails, because recovery will make it so.  Raises ``StaleFileError``,
        ``FailedFileError``, ``NoRoomError``, ``ReadOnlyError`` or ``OSError``; unless ``adopt`` was
        called the file is as it was.
        """
        if plan.empty:
            adopt()
            return
        if plan.move is not None:
            self.pins.check_all()
        self._carry_out(plan, lambda: in_place(self._file, plan) if plan.move is None else self._grow(plan), adopt)

    def fill(self, plan: Plan, payload: Payload, offset: int, adopt: Callable[[], None], step: Step) -> None:
        """Write ``payload`` at ``offset`` of the file, inside its new size, and carry out ``plan``, as ``commit``.

        ``step(bytes)`` is told how it goes on.  The caller discards the payload.
        """
        self._carry_out(plan, lambda: fill(self._file, plan, payload, offset, step), adopt)

    def _carry_out(self, plan: Plan, work: Callable[[], Backend | None], adopt: Callable[[], None]) -> None:
        """``work`` may return a store that a new file replaced."""
        self.mode.check_writable()
        self._file.check_unchanged()  # invariant 1
        if plan.old_size != self.backend.size():
            raise self._file.stale()
        if self._resized:
            self.sync()  # invariant 11
        try:
            with self._file.interrupted(), interrupts.whole():
                replaced = work()
        except BaseException:  # an interrupt as well: what is read from now on is whole, and it goes on
            self.changed = True
            if self._file.made:
                adopt()
            else:
                show_recovered(self._file, adopt)
            raise
        adopt()
        self.changed = True
        stale = not self._file.is_current()
        if replaced is not None:  # its last close frees its blocks, which takes a while
            with self._file.scheduler.waiting():
                replaced.close()
        self.mode.check_healthy()
        if stale:  # it is in the file that was open, which another program changed or replaced meanwhile
            raise self._file.stale()
        self._note_growth()
        logger.info("committed %d bytes, size %d -> %d", plan.written, plan.old_size, plan.new_size)

    def rewrite(self, fill: Callable[[Folder, Backend], None], adopt: Callable[[], None]) -> None:
        """Replace the whole file by what ``fill`` writes, as ``commit``.  Raises ``StorageError`` where it cannot be.

        ``fill`` may raise anything; the file is as it was then.
        """
        self.pins.check_all()
        self.mode.check_writable()
        self._file.check_unchanged()  # invariant 1
        file, before = self._file, self._file.backend
        try:
            file.backend = rewrite(file, lambda new: fill(file.folder, new))
        except Unsuitable as err:
            raise StorageError(f"cannot be replaced ({err}); write another file", path=self._file.path) from err
        self._file.note_signature()
        self.changed = True
        before.close()
        adopt()
        self.mode.check_healthy()

    def write_content(self, offset: int, payload: bytes | memoryview) -> None:
        """Write bytes of a block at ``offset`` of the file, inside its allocation (invariant 6).

        Not durable before ``sync``.  Raises as ``commit`` does; a part may be written then.
        """
        self.mode.check_writable()
        self._file.check_unchanged()  # invariant 1
        file, size = self._file, self._file.signature.size
        try:
            file.backend.write_at(offset, payload)
        finally:
            self._note_change()
            self._resized = self._resized or file.signature.size != size

    def allocate(self, offset: int, length: int) -> None:
        """Reserve room on the disk inside the file.  Raises as ``commit`` does."""
        self.mode.check_writable()
        self._file.check_unchanged()  # invariant 1
        with self._file.scheduler.waiting():
            self._reserve(offset, length)

    def _reserve(self, offset: int, length: int) -> None:
        """Also where it fails the file has another mtime, and may have some of the room."""
        try:
            if length:
                self.backend.allocate(offset, length)
        finally:
            self._note_change()

    def truncate_stream(self, size: int) -> None:
        """Set the size of a file that ends with a streamed block.  Raises as ``commit`` does."""
        self.mode.check_writable()
        self._file.check_unchanged()  # invariant 1
        self.backend.truncate(size)
        self._resized = True
        self._note_change()

    def sync(self) -> None:
        """Return when all content is durable.  Raises ``FailedFileError`` when that failed (invariant 7)."""
        self._file.sync()  # invariants 6 and 11
        self._resized = False

    def foreign(self) -> Foreign:
        """What the name leads to now, compared with the file as we left it.  Raises ``OSError``."""
        return foreign_change_of(self._file)

    def check_unchanged(self) -> None:
        """Raise ``StaleFileError`` unless the file is as we left it (invariant 1)."""
        self._file.check_unchanged()

    def note_owner(self, note: dict[str, Any]) -> None:
        """Write the owner note, if there is a journal, also when blocks move another way.  Raises ``OSError``."""
        self._note, self._noted = note, self.grown_by
        if self._file.journal is not None:
            self._file.journal.note_owner({**note, "growth": self.grown_by})

    def _note_growth(self) -> None:
        if self._note and self.grown_by != self._noted:
            with contextlib.suppress(OSError):  # the note is information for others, the change is not
                self.note_owner(self._note)

    def reserve(self, size: int) -> None:
        """Have room in the journal for changes of ``size`` bytes.  Raises ``OSError``."""
        if self._file.journal is not None:
            self._file.journal.reserve(size)

    def hand_over(self, backend: Backend, known: Signature) -> Transaction:
        """The same file as another program left it, in ``store``; this object is done with.

        ``known``: its signature when it was read.  What programs have mapped is of the old file, and holds up
        nobody any more.

        Raises ``FailedFileError``: the journal stays, and whoever opens the file next needs it.
        """
        self.mode.check_healthy()
        if backend is not self.backend:
            self.backend.close()
        new = Transaction(
            self._file.folder, backend, self._file.journal, self._file.scheduler, self._policy, known, self.mode
        )
        new._note = self._note
        self._file.journal = None
        return new

    def leave(self) -> None:
        """Close the file and nothing more: in a process that was forked from the one that opened it."""
        self.backend.close()

    def close(self) -> None:
        """Remove the journal (kept when FAILED) and close the file, which unlocks it."""
        journal, self._file.journal = self._file.journal, None
        if journal is not None:
            if self.mode.failure:
                journal.close()
            else:
                journal.discard()
        self.backend.close()

    def create_payload(self, spool: str | None) -> Payload:
        """An empty payload; without a journal in ``spool``, without a name.  Raises ``OSError``."""
        file = self._file
        return create_payload(file.folder, file.backend.name, spool=spool, named=file.journal is not None)

    def _grow(self, plan: Plan) -> Backend | None:
        """The store that a new file replaced, if one did."""
        before = self._file.backend
        opened = open_gap(self._file, plan, self._policy.growth)
        self._file.backend = opened.backend
        if opened.strategy in _REPLACING:
            self._file.note_signature()
        self.grown_by = opened.strategy
        return before if opened.strategy in _REPLACING else None

    def _note_change(self) -> None:
        self.changed = True
        self._file.note_signature()
