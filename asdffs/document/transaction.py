"""The one module that changes the file.

Definitions.  *Plan*: what must change (``format/plan``).  *In place*: a plan without a
move; it is journalled.  *Content*: bytes of a block within its allocation; they are
written through, because old or new they are a legal file.  *Signature*: (device, inode,
size, mtime, ctime) of the file as we last left it.

Invariants
 1. Before any change the signature is checked; a foreign change is never overwritten.
 2. An in-place change is in the journal, durable, before the first byte of the file changes.
 3. The journal is retired only after the changed bytes are durable.
 4. A change that fails half-way is undone before the journal is retired.
 5. A growth writes nothing into the file: the whole new file is durable before it gets the name.
 6. Content is written only inside what the durable header allocates.
 7. After a failed sync, undo or retire the state is FAILED and nothing is written any more;
    the journal stays for recovery at the next open.

| state  | reads | commit, write_content | left by                                      |
|--------|-------|-----------------------|----------------------------------------------|
| READY  | yes   | yes                   | a failed sync, undo or retire -> FAILED      |
| FAILED | yes   | FailedFileError       | never (close and open again)                 |

While it waits for the disk others have the turn (``relief``); one change at a time, which
``Document`` sees to.  Users: ``tree_editor``, ``block_editor``, ``document``; under the exclusive lock.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from asdffs.errors import FailedFileError, ReadOnlyError, StaleFileError
from asdffs.format.plan import Plan
from asdffs.relief import Alone, Relief
from asdffs.storage.gap import open_gap
from asdffs.storage.journal import Journal, Record, make_record
from asdffs.storage.recovery import apply, undo
from asdffs.storage.store import Folder, Signature, Store

logger = logging.getLogger(__name__)


class Transaction:
    """All changes of one open file.  ``journal`` is None for a file opened read-only."""

    def __init__(self, folder: Folder, store: Store, journal: Journal | None, relief: Relief | None = None) -> None:
        self._folder = folder
        self._relief = relief or Alone()
        self._store = store
        self._journal = journal
        self._signature = store.signature()
        self._failure = ""
        self._replaced: Store | None = None
        self.changed = False

    @property
    def store(self) -> Store:
        """The open file; another one after a growth."""
        return self._store

    @property
    def writable(self) -> bool:
        """Whether changes are possible at all."""
        return self._journal is not None

    @property
    def failure(self) -> str:
        """Why the state is FAILED; empty in READY."""
        return self._failure

    def commit(self, plan: Plan) -> None:
        """Carry out ``plan``, whole or not at all, and durably.

        After a plan that moves blocks the caller updates its offsets, then calls
        ``release_replaced`` and ``check_healthy``: the new file has the name even when that could not be
        made durable.
        Raises ``StaleFileError``, ``FailedFileError``, ``NoRoomError``, ``ReadOnlyError`` or
        ``OSError``; after each but FAILED the file is as it was.
        """
        if plan.empty:
            return
        journal = self._check_ready()
        self.check_unchanged()
        if plan.old_size != self._store.size():
            raise self._stale()
        if plan.move is not None:
            self._replace(plan)
        else:
            self._in_place(journal, plan)
        self._note_change()
        logger.info("committed %d bytes, size %d -> %d", plan.written, plan.old_size, plan.new_size)

    def write_content(self, offset: int, payload: bytes | memoryview) -> None:
        """Write bytes of a block at ``offset`` of the file, inside its allocation (invariant 6).

        Not durable before ``sync``.  Raises as ``commit`` does; a part may be written then.
        """
        self._check_ready()
        self.check_unchanged()
        try:
            self._store.write_at(offset, payload)
        finally:
            self._note_change()

    def truncate_stream(self, size: int) -> None:
        """Set the size of a file that ends with a streamed block.  Raises as ``commit`` does."""
        self._check_ready()
        self.check_unchanged()
        self._store.truncate(size)
        self._note_change()

    def release_replaced(self) -> None:
        """Give up the file that a growth replaced: its last close frees its blocks, which takes a while."""
        replaced, self._replaced = self._replaced, None
        if replaced is not None:
            with self._relief.waiting():
                replaced.close()

    def sync(self) -> None:
        """Return when all content is durable.  Raises ``FailedFileError`` when that failed (invariant 7)."""
        self.check_healthy()
        try:
            with self._relief.waiting():
                self._store.sync()
        except OSError as err:
            raise self._fail(f"writing to the disk failed ({err.strerror})") from err

    def check_healthy(self) -> None:
        """Raise ``FailedFileError`` in the state FAILED."""
        if self._failure:
            raise FailedFileError(self._failure, path=self._path)

    def is_foreign(self) -> bool:
        """Whether the name leads to a file that is not as we left it; not when the name is gone."""
        try:
            return not self._is_ours(self._folder.signature(self._store.name))
        except FileNotFoundError:
            return False

    def check_unchanged(self) -> None:
        """Raise ``StaleFileError`` unless the file is as we left it (invariant 1)."""
        try:
            current = self._is_ours(self._folder.signature(self._store.name))
        except FileNotFoundError as err:
            raise StaleFileError("the file was removed under the mount", path=self._path) from err
        if not current:
            raise self._stale()

    def note_owner(self, note: dict[str, Any]) -> None:
        """Write the owner note, if there is a journal.  Raises ``OSError``."""
        if self._journal is not None:
            self._journal.note_owner(note)

    def hand_over(self, store: Store) -> Transaction:
        """The same file as another program left it, in ``store``; this object is done with."""
        if store is not self._store:
            self._store.close()
        new = Transaction(self._folder, store, self._journal, self._relief)
        self._journal = None
        return new

    def close(self) -> None:
        """Remove the journal (kept when FAILED) and close the file, which unlocks it."""
        if self._journal is not None:
            if self._failure:
                self._journal.close()
            else:
                self._journal.discard()
        self._journal = None
        self.release_replaced()
        self._store.close()

    @property
    def _path(self) -> str:
        return self._folder.path(self._store.name)

    def _check_ready(self) -> Journal:
        self.check_healthy()
        if self._journal is None:
            raise ReadOnlyError("the file is open read-only", path=self._path)
        return self._journal

    def _in_place(self, journal: Journal, plan: Plan) -> None:
        record = make_record(self._store, plan)
        self._write_journal(journal, record)  # invariant 2
        try:
            apply(self._store, record.images, record.new_size)
        except OSError:
            self._undo(journal, record)  # invariant 4
            raise
        self.sync()  # invariant 3: before retire
        self._retire(journal)

    def _write_journal(self, journal: Journal, record: Record) -> None:
        try:
            with self._relief.waiting():
                journal.write(record)
        except OSError:
            self._retire(journal)  # the record may be whole on the disk: it must not be replayed later
            raise

    def _undo(self, journal: Journal, record: Record) -> None:
        try:
            undo(self._store, record.images, record.old_size)
        except OSError as err:
            raise self._fail(f"a change failed half-way and could not be undone ({err.strerror})") from err
        self.sync()
        self._retire(journal)
        self._note_change()

    def _retire(self, journal: Journal) -> None:
        try:
            with self._relief.waiting():
                journal.retire()
        except OSError as err:
            raise self._fail(f"the journal could not be retired ({err.strerror})") from err

    def _replace(self, plan: Plan) -> None:
        """Until the caller knows the new offsets nobody else may have the turn: the old store serves to the end."""
        failure = None
        with self._relief.waiting():
            new = open_gap(self._folder, self._store, plan, self._signature)  # invariant 5
            try:
                self._folder.sync()
            except OSError as err:
                failure = err
        self._replaced, self._store = self._store, new
        if failure is not None:
            self._fail(f"the new copy's name could not be made durable ({failure.strerror})")

    def _is_ours(self, now: Signature) -> bool:
        """A new ctime alone is a chmod or a link: ours still, from now on with that ctime."""
        if replace(now, ctime_ns=self._signature.ctime_ns) != self._signature:
            return False
        self._signature = now
        return True

    def _note_change(self) -> None:
        self.changed = True
        self._signature = self._store.signature()

    def _stale(self) -> StaleFileError:
        return StaleFileError(
            "another program changed the file since it was read; nothing was written over it: "
            "save your text elsewhere, unmount, and mount again",
            path=self._path,
        )

    def _fail(self, reason: str) -> FailedFileError:
        self._failure = f"{reason}; nothing more is written: unmount, and mount again to recover"
        logger.error("%s: %s", self._path, self._failure)
        return FailedFileError(self._failure, path=self._path)
