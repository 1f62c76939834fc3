"""Transactions: every change of an ASDF file goes through this module.

Definitions:

* *plan*: the bytes that must change (``format/plan``)
* *in place*: a plan without a move; it is journalled
* *growth*: a plan with a move; ``storage/growth`` chooses the strategy
* *fill*: a plan together with new content of a block, which is in a file of its own, the *payload*
* *content*: bytes of a block within its allocation.  They are written without the journal, because the file is valid
  with the old and with the new bytes
* *signature*: (device, inode, size, mtime, ctime) of the file as we last left it
* *record*: the description of a pending change in the journal

Invariants.  Comments at each sync and each record, here, in ``steps`` and in ``storage``, name those that it serves.

 1. The signature is checked before any change, and again when its record is durable.  A change by another program is
    never overwritten.
 2. A change of existing bytes, in place or by a move, is durable in the journal before the first byte of the file
    changes.
 3. The journal is retired only after the changed bytes, or the restored old ones, are durable.
 4. A change that fails half-way is undone before the journal is retired.
 5. A growth by a new file writes nothing into the old file.  The whole new file is durable before it gets the name.
 6. Content is written only inside the allocation that the durable header states.
 7. After a failed sync, undo or retirement the mode is FAILED and nothing is written any more.  The journal stays for
    recovery at the next open.
 8. Before the file system opens a gap, every byte of the file is on the disk, and the record has the disk addresses.
    Recovery finds out by the addresses which bytes have moved.
 9. Bytes are durable in their new place before their old place is overwritten.  The gap is closed only after the
    writes into it were durably undone.
10. A payload and its name are durable before the record that names it, and stay until the record is retired.
11. The size that a record states is durable: after an append to a stream the file is synced first.

Without a journal (the user's choice) invariants 2 to 4 hold only if the process is not killed.

``storage/open_file`` has the modes of the file and the transitions between them.

One change at a time: ``Document`` makes sure of it, under the exclusive lock of the file.  The main lock is released
while a change waits for a sync, and while bytes move; a write of content keeps it.
"""

from __future__ import annotations

import contextlib
import enum
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from asdffs import interrupts
from asdffs.document.blocks.locks import Pins
from asdffs.errors import NotPermittedError, StorageError
from asdffs.scheduling import Scheduler
from asdffs.storage.backend import (
    Folder,
    MovableBackend,
    ReadBackend,
    ReadFolder,
    Signature,
    WindowBackend,
    WriteBackend,
)
from asdffs.storage.open_file import AUTO, FileMode, OpenFile, Unsuitable

if TYPE_CHECKING:  # who only reads changes nothing
    from asdffs.document.blocks.steps import Step
    from asdffs.format.container import Embedded
    from asdffs.format.plan import Plan
    from asdffs.storage.journal import Journal
    from asdffs.storage.sidecars import Payload

logger = logging.getLogger(__name__)


class Foreign(enum.Enum):
    """The change that another program made to the file."""

    NO = "nothing"
    CHANGED = "changed in place"
    REPLACED = "replaced by another file"
    REMOVED = "removed"


class ChangePolicy(NamedTuple):
    """The policy for changes of a file.

    ``writable``: whether changes are allowed; ``growth``: a strategy of ``storage/growth``, or ``auto``.
    ``replacing(path)`` is called before a new file, now at ``path``, gets the name of the old one.  ``noting(note)``
    gets each note about the owner.  ``changed(path)`` is called after the first change.
    """

    writable: bool = True
    growth: str = AUTO
    replacing: Callable[[str], None] = lambda path: None
    noting: Callable[[dict[str, Any]], None] = lambda note: None
    changed: Callable[[str], object] = lambda path: None


class Transaction:
    """All changes of one open file.

    ``journal`` is None if the file is only read, or by the user's choice.  ``known``: the signature of the file as it
    was read.  ``embedded``: where the ASDF file is, if it is inside another file.  ``mode``: the mode of the file, a
    new one by default.

    ``pins``: the blocks that this program has mapped; they must not move.  ``moving``: the lock that is taken while
    blocks move within the file; readers of blocks wait for it.  ``changed``: whether the file was changed
    since it was last finished.
    ``grown_by``: the last growth strategy.
    """

    def __init__(
        self,
        folder: ReadFolder,
        backend: ReadBackend,
        journal: Journal | None,
        scheduler: Scheduler,
        policy: ChangePolicy,
        known: Signature,
        embedded: Embedded | None = None,
        mode: FileMode | None = None,
    ) -> None:
        self.folder = folder
        self.embedded = embedded
        self._policy = policy
        self.mode = mode or FileMode(folder.path(backend.name), writable=policy.writable)
        # of a file that is only read these have less, but ``mode`` refuses every change before it reaches them
        place, file = cast(Folder, folder), cast(MovableBackend, backend)
        self._file = OpenFile(place, file, journal, scheduler, self.mode, policy.replacing, known, policy.changed)
        self.moving = self._file.moving
        self.changed = False
        self._resized = False
        self.grown_by = ""
        self.pins = Pins()
        self._note: dict[str, Any] = {}
        self._noted: dict[str, Any] = {}

    @property
    def backend(self) -> ReadBackend:
        """The open ASDF file, perhaps inside another file.  Another one after a change of its size."""
        whole, found = self._file.backend, self.embedded
        return whole if found is None else WindowBackend(whole, found.start, found.size)

    @property
    def whole(self) -> ReadBackend:
        """The open file.  Another one after a growth by a new file."""
        return self._file.backend

    @property
    def known(self) -> Signature:
        """The signature of the file as we last left it."""
        return self._file.signature

    def commit(self, plan: Plan, adopt: Callable[[], None]) -> None:
        """Carry out ``plan`` atomically and durably.

        ``adopt`` is called when the file has the new state, before another thread can take the main lock.  It is also
        called if a sync fails after that, because recovery will complete the change.

        Raises ``StaleFileError``, ``FailedFileError``, ``NoRoomError``, ``InUseError``, ``ReadOnlyError`` or
        ``OSError``.  If ``adopt`` was not called, the file has the old state.
        """
        if plan.empty:
            adopt()
            return
        self.mode.check_writable()
        if self.embedded is not None and plan.old_size != self.embedded.size:
            raise self._file.stale()
        whole, after = (plan, None) if self.embedded is None else self.embedded.enclose(plan, self.whole.read_at)
        if whole.move is not None:
            self.pins.check_all()

        def adopt_all() -> None:
            self.embedded = after
            adopt()

        from asdffs.document.blocks.steps import in_place

        self._carry_out(
            whole, lambda: in_place(self._file, whole) if whole.move is None else self._grow(whole), adopt_all
        )

    def fill(self, plan: Plan, payload: Payload, offset: int, adopt: Callable[[], None], step: Step) -> None:
        """Write ``payload`` at ``offset`` of the file, inside its new size, and carry out ``plan``, as ``commit``.

        ``step(bytes)`` is called after each part of the payload.  The caller discards the payload.
        """
        from asdffs.document.blocks.steps import fill

        self.check_alone()
        self.mode.check_writable()
        self._carry_out(plan, lambda: fill(self._file, plan, payload, offset, step), adopt)

    def _carry_out(self, plan: Plan, work: Callable[[], ReadBackend | None], adopt: Callable[[], None]) -> None:
        """Call ``work`` to change the file, then ``adopt``.

        ``work`` returns the backend of the old file if a new file has replaced it.
        """
        from asdffs.document.blocks.steps import show_recovered  # while files can be opened

        self._file.check_unchanged()  # invariant 1
        if plan.old_size != self.known.size:
            raise self._file.stale()
        if self._resized:
            self.sync()  # invariant 11
        try:
            with self._file.interrupted(), interrupts.whole():
                replaced = work()
        except BaseException:  # also an interrupt: make reads see a whole state, old or new, then raise
            self.changed = True
            if self._file.made:
                adopt()
            else:
                show_recovered(self._file, adopt)
            raise
        adopt()
        self.changed = True
        stale = not self._file.is_current()
        if replaced is not None:  # the last close frees its disk blocks, which takes a while
            with self._file.scheduler.waiting():
                replaced.close()
        self.mode.check_healthy()
        if stale:  # the change is in the open file, but another program changed or replaced that
            raise self._file.stale()
        self._note_growth()
        sizes = plan.written, plan.old_size, plan.new_size
        logger.info("%s: committed %d bytes, size %d -> %d", self._file.path, *sizes)

    def rewrite(self, fill: Callable[[Folder, WriteBackend], None], adopt: Callable[[], None]) -> None:
        """Replace the whole file by a new one that ``fill(folder, backend)`` writes, as ``commit``.

        If ``fill`` raises anything, the file is unchanged.  Raises ``StorageError`` if the file cannot be replaced.
        """
        from asdffs.storage.growth import rewrite

        self.check_alone()
        self.pins.check_all()
        file, before = self._check_content(), self._file.backend
        try:
            file.backend = rewrite(file, lambda new: fill(file.folder, new))
        except Unsuitable as err:
            raise StorageError(
                f"cannot be replaced, because {err}; write to another file", path=self._file.path
            ) from err
        self._file.note_signature()
        self.changed = True
        before.close()
        adopt()
        self.mode.check_healthy()

    def write_content(self, offset: int, payload: bytes | memoryview) -> None:
        """Write bytes of a block at ``offset`` of the file, inside its allocation (invariant 6).

        They are durable only after ``sync``.  Raises as ``commit``; then a part may be written.
        """
        file = self._check_content()
        size = file.signature.size
        try:
            file.backend.write_at(offset, payload)
        finally:
            self.changed = True
            file.note_signature()
            self._resized = self._resized or file.signature.size != size

    def allocate(self, offset: int, length: int) -> None:
        """Reserve disk space for ``length`` bytes at ``offset`` of the file.  Raises as ``commit``."""
        from asdffs.document.blocks.steps import reserve

        file = self._check_content()
        self.changed = True
        with file.scheduler.waiting():
            reserve(file, offset, length)

    def truncate_stream(self, size: int) -> None:
        """Set the size of a file that ends with a streamed block, in bytes.  Raises as ``commit``."""
        self._check_content().backend.truncate(size)
        self.changed = self._resized = True
        self._file.note_signature()

    def _check_content(self) -> OpenFile:
        """Return the file if bytes outside of the text may be changed now (invariant 1).  Raises as ``commit``."""
        if self.embedded is not None:
            self.check_alone()
        self.mode.check_writable()
        self._file.check_unchanged()
        return self._file

    def sync(self) -> None:
        """Return when all content is durable.  Raises ``FailedFileError`` if that fails (invariant 7)."""
        self._file.sync()  # invariants 6 and 11
        self._resized = False

    def foreign(self) -> Foreign:
        """Return the change that another program made to the file since we last left it, by its signature.

        Raises ``OSError``, but not if the file is missing.
        """
        file = self._file
        try:
            now = file.folder.signature(file.backend.name)
        except FileNotFoundError:
            return Foreign.REMOVED
        if file.is_ours(now):
            return Foreign.NO
        return Foreign.CHANGED if now.inode == file.signature.inode else Foreign.REPLACED

    def check_unchanged(self) -> None:
        """Raise ``StaleFileError`` unless the file is as we left it (invariant 1)."""
        self._file.check_unchanged()

    def note_owner(self, note: dict[str, Any]) -> None:
        """Write the owner note into the journal, if there is one, and where the settings say.  Raises ``OSError``.

        The note includes the growth strategy and the inode, so it is written again when these change.
        """
        file = {"device": self.known.device, "inode": self.known.inode}
        self._note, self._noted = note, {**note, "growth": self.grown_by, **file}
        if self._file.journal is not None:
            self._file.journal.note_owner(self._noted)
        self._policy.noting(self._noted)

    def _note_growth(self) -> None:
        now = self.grown_by, self.known.inode
        if self._note and now != (self._noted["growth"], self._noted["inode"]):
            with contextlib.suppress(OSError):  # the change must not fail because of a note for other programs
                self.note_owner(self._note)

    def hand_over(self, backend: ReadBackend, known: Signature, embedded: Embedded | None = None) -> Transaction:
        """Return a transaction for the file as another program left it; do not use this object afterwards.

        ``backend``: the open file; ``known``: its signature when it was read; ``embedded``: as for the class.  The
        new transaction has no pins, because existing mappings show the old file.

        Raises ``FailedFileError`` in the mode FAILED: the journal must stay for recovery at the next open.
        """
        self.mode.check_healthy()
        if backend is not self.whole:
            self.whole.close()
        file = self._file
        new = Transaction(
            file.folder, backend, file.journal, file.scheduler, self._policy, known, embedded, self.mode
        )
        self._file.journal = None
        if self._note:
            with contextlib.suppress(OSError):  # as in ``_note_growth``
                new.note_owner(self._note)
        return new

    def close(self, *, forked: bool = False) -> None:
        """Remove the journal, except in the mode FAILED, and close the file, which releases its lock.

        ``forked``: only close the file, in a process forked from the one that opened it.
        """
        journal, self._file.journal = self._file.journal, None
        if journal is not None and not forked:
            if self.mode.failure:
                journal.close()
            else:
                journal.discard()
        self.backend.close()

    def create_payload(self, spool: str) -> Payload:
        """Create an empty payload.  Without a journal it is in the directory ``spool``, and has no name.

        Raises ``OSError``.
        """
        from asdffs.storage.sidecars import PAYLOAD_SUFFIX, Payload, create_temporary, create_unnamed

        folder, name = self._file.folder, self._file.backend.name
        if self._file.journal is None:
            return create_unnamed(spool)
        return Payload(folder, create_temporary(folder, name, PAYLOAD_SUFFIX), named=True)

    def check_alone(self) -> None:
        """Raise ``NotPermittedError`` if the ASDF file is inside another file: only its text can be changed."""
        if self.embedded is not None:
            kind = self.embedded.kind
            raise NotPermittedError(f"the ASDF file is inside a {kind} file, where only its tree can be changed")

    def _grow(self, plan: Plan) -> ReadBackend | None:
        """Carry out a plan with a move.  Return the backend of the old file if a new file has replaced it."""
        from asdffs.storage.growth import open_gap

        before = self._file.backend
        self._file.backend, self.grown_by = open_gap(self._file, plan, self._policy.growth)
        if self._file.backend is before:
            return None
        self._file.note_signature()
        return before
