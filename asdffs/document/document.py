"""Document: one open ASDF file, and the only way the floors above, and programs, touch it.

Users: ``views`` (reading, writing nodes), ``vfs`` (saves, finishing), ``cli``, and programs through ``asdffs.open``,
for which ``tree_text``, ``blocks``, ``arrays`` and ``commit`` are meant (docs/python.md).  One thread at a time,
whoever has the turn (``asdffs.relief``); calls of a program's threads take turns.  Changes are exclusive: one that
waits for the disk lets others read, and a second change, or a reader of the text, queues.  Several documents may be
open in one process; they share nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from asdffs.codecs.base import Codec
from asdffs.dialects.base import Dialect
from asdffs.document.arrays.array_index import ArrayIndex
from asdffs.document.blocks.block import Blocks
from asdffs.document.blocks.contents import Care, Contents
from asdffs.document.blocks.pins import Pins
from asdffs.document.blocks.spool_room import SpoolRoom
from asdffs.document.blocks.table import BlockTable
from asdffs.document.blocks.transaction import Foreign, Transaction
from asdffs.document.changes import Changes
from asdffs.document.for_programs import ForPrograms
from asdffs.document.neighbours import Neighbours
from asdffs.document.report import Report
from asdffs.document.schema import check_schemas
from asdffs.document.tree_editor import TreeEditor
from asdffs.document.tree_fit import TreeFit
from asdffs.errors import AsdffsError, DamagedBlockError, NoRoomError, TreeChangedError
from asdffs.format.constants import INDEX_TOKEN
from asdffs.format.layout import Layout
from asdffs.format.padding import Padding
from asdffs.format.plan import Plan, plan_cut_tail, plan_index
from asdffs.format.scanner import drive, scan_layout
from asdffs.relief import Exclusive, Relief
from asdffs.storage.store import Extent, Folder, Signature, Store
from asdffs.tree.events import AbandonedError
from asdffs.tree.ndarrays import Ndarray

logger = logging.getLogger(__name__)

__all__ = ["Document", "Foreign", "Parts"]


@dataclass(slots=True)
class Parts:
    """What ``opening`` puts together for a document, and again after a foreign change."""

    transaction: Transaction
    layout: Layout
    dialect: Dialect


class Document(ForPrograms):
    """One open file.  ``path`` is absolute, without symbolic links; ``room``: for decoded blocks.

    ``blocks``, ``arrays``: what is in it; ``neighbours``: other files that it leads to; ``contents``, ``table``,
    ``fit``, ``change``: for the parts of this floor.
    """

    def __init__(
        self,
        path: str,
        parts: Parts,
        codecs: Mapping[bytes, Codec],
        *,
        reopen: Callable[[Transaction], Parts],
        open_other: Callable[[str], Document],
        relief: Relief,
        policy: Padding,
        room: SpoolRoom,
        care: Care | None = None,
        strict: bool = False,
        schema: bool = False,
    ) -> None:
        super().__init__()
        self.path = path
        self.report = Report()
        self.relief = relief
        self.changes = Changes()
        self.change = Exclusive(relief)
        self._strict = strict
        self._schema = schema
        self._codecs = codecs
        self._reopen = reopen
        self._policy = policy
        self._room = room
        self._care = care or Care()
        self._generation = 0
        self._adopt(parts)
        self.blocks = Blocks(self)
        self.count_at_open = len(self.table)
        self.arrays = ArrayIndex(self)
        self.neighbours = Neighbours(self, open_other, relief)
        self.fit = TreeFit(self)

    # -- what is there ----------------------------------------------------

    @property
    def layout(self) -> Layout:
        """What lies where now."""
        return self.table.layout

    @property
    def dialect(self) -> Dialect:
        """The generation of the format."""
        return self._dialect

    @property
    def writable(self) -> bool:
        """Whether the file may be changed."""
        return self._transaction.writable

    @property
    def pins(self) -> Pins:
        """What programs have mapped."""
        return self._transaction.pins

    @property
    def tree(self) -> TreeEditor:
        """The committed text, for its size, arrays and version.  Change it with ``commit_tree``."""
        return self._tree

    def read_text(self, offset: int, length: int) -> bytes | Extent:
        """Bytes of the committed text, fewer at its end; not while it is being changed.  Raises ``OSError``."""
        with self.change.entered(patiently=True):
            return self._tree.read(offset, length)

    @property
    def signature(self) -> Signature:
        """Of the file as it is now."""
        return self._transaction.store.signature()

    @property
    def known_signature(self) -> Signature:
        """Of the file as it was read, or left by a change of ours."""
        return self._transaction.known

    def settle_index(self) -> None:
        """Find out now whether the index lies: numbers of blocks stay what they are from here on."""
        self.table.settle()

    def count_blocks(self, *, force: bool = False) -> int:
        """Number of blocks of a file that is to be written anew.  Raises as ``BlockTable.check_whole``."""
        try:
            self.table.check_whole(force=force)
        except (DamagedBlockError, NoRoomError) as err:
            err.path = err.path or self.path
            raise
        return len(self.blocks)

    def commit_tree(self, draft: bytes, *, over: int | None = None) -> None:
        """Make ``draft`` the tree, durably.  Raises ``InvalidTreeError`` or as ``Transaction``.

        ``over``: the version of the text that it was made of; raises ``TreeChangedError`` when there is another.
        """
        with self.change.entered():
            if over is not None and over != self._tree.version:
                raise TreeChangedError("the tree was changed meanwhile", path=self.path)
            self.contents.settle_appended()
            arrays = self._tree.commit(draft, lambda arrays: self._refuse(draft, arrays))
            self.fit.warn(arrays)
        self.contents.reorder()

    def _refuse(self, draft: bytes, arrays: tuple[Ndarray, ...]) -> None:
        """Raise ``InvalidTreeError`` for what the user wants refused."""
        if self._strict:
            self.fit.refuse(arrays)
        if self._schema:
            with self.relief.waiting():
                check_schemas(draft)

    def rewrite(self, fill: Callable[[Folder, Store], None]) -> None:
        """Replace the file by the one that ``fill(folder, store)`` writes into an empty store.

        Nothing may be pending.  Whole or not at all, and durably; mode, owner and attributes stay.  Raises as
        ``Transaction.rewrite``.
        """
        with self.change.entered():
            self._transaction.rewrite(fill, self._adopt_rewritten)

    def _adopt_rewritten(self) -> None:
        """Also in the state FAILED: what is read from now on is the new file."""
        store = self._transaction.store
        layout = drive(scan_layout(store.size(), lambda header: self._dialect.rules), store.read_at)
        self.contents.close()
        self._adopt(Parts(self._transaction, layout, self._dialect))
        self.changes.note_all()

    # -- ending -----------------------------------------------------------

    def finish(self) -> None:
        """Make the file complete: sizes, checksums, index, all durable.  Nothing is written if nothing changed.

        A checksum is given up when somebody waits to change the file; the next finish computes it.
        Raises as ``Transaction``, ``OSError``.
        """
        failure: AsdffsError | OSError | None = None
        try:
            self.contents.store_all()
        except (AsdffsError, OSError) as err:  # the rest is finished all the same
            failure = err
        with self.change.entered():
            self._finish()
        if failure is not None:
            raise failure

    def _finish(self) -> None:
        self._transaction.check_healthy()
        self._transaction.check_conflict()
        if not self._transaction.changed and not self.contents.pending:
            return
        self._transaction.check_unchanged()
        self.contents.finish()
        if (self.table.moved or self._index_is_wrong()) and self.layout.index is None and self.may_have_index:
            self._write_index()
        self.table.moved = False

    def descriptor(self) -> int:
        """The open file's descriptor; another one after a growth by a new file."""
        found = self._transaction.store.extent(0, 0)
        return found.fd if isinstance(found, Extent) else -1

    def foreign(self) -> Foreign:
        """Whether another program changed the file, as far as its signature tells.  Raises ``OSError``."""
        return self._transaction.foreign()

    @property
    def failed(self) -> bool:
        """Whether nothing is written any more, and the journal stays for whoever opens the file next."""
        return bool(self._transaction.failure)

    @property
    def busy(self) -> bool:
        """Whether something is under way that a change of the file must wait for."""
        return self.change.taken or self.contents.busy

    @property
    def pending(self) -> bool:
        """Whether blocks were written since the file was last finished, or cannot be any more."""
        return self.contents.pending or bool(self._transaction.failure)

    @property
    def written_blocks(self) -> tuple[int, ...]:
        """Numbers of the blocks that were written since the file was last finished."""
        return self.contents.written

    @property
    def unstored_blocks(self) -> tuple[int, ...]:
        """Numbers of the blocks of which the file has not what was written."""
        return self.contents.unstored

    @property
    def conflict(self) -> str:
        """Why nothing is written any more: another program changed the file meanwhile; empty unless so."""
        return self._transaction.conflict

    @conflict.setter
    def conflict(self, sentence: str) -> None:
        self._transaction.conflict = sentence

    def read_again(self) -> None:
        """Read the file as another program left it.  Raises ``OSError`` and as ``open_document``."""
        conflict = self.conflict
        parts = self._reopen(self._transaction)
        self.contents.close()
        self._adopt(parts)
        self.changes.note_all()
        self.conflict = conflict
        logger.info("%s was changed by another program; read again", self.path)

    @property
    def generation(self) -> int:
        """Another number when the file was read again, as another program left it."""
        return self._generation

    @property
    def growth(self) -> str:
        """By which strategy of ``storage/gap`` blocks were moved last; empty when they were not."""
        return self._transaction.grown_by

    def note_owner(self, note: dict[str, Any]) -> None:
        """Tell others, through the journal's note, who holds the file.  Raises ``OSError``."""
        self._transaction.note_owner(note)

    def check_tree(self) -> None:
        """Look for sources and shapes that do not fit the blocks; into ``report.warnings``.

        Others are served meanwhile; when one of them changes the tree, the change has it looked at.
        """
        tree, version = self._tree, self._tree.version
        text = tree.text()
        with self.report.progress.over("looking at the tree", len(text)), self.relief.waiting():
            try:
                arrays = tree.arrays_of(text, lambda: self._tree.version == version and not self.relief.stopping)
            except AbandonedError:
                return
        if self._tree.version == version:
            self.fit.warn(arrays)

    def close(self) -> None:
        """Close the file as it is; ``finish`` comes before.  Harmless a second time, and in a fork of the process."""
        with self.relief.entered():
            if self._closed:
                return
            self._closed = True
            self.neighbours.close(self)
            self.contents.close()
            if self.is_opener:
                self._transaction.close()
            else:
                self._transaction.leave()

    def read_raw(self, offset: int, length: int) -> bytes:
        """Bytes of the file, fewer at its end.  Raises ``OSError``."""
        return self._transaction.store.read_at(offset, max(0, min(length, self.layout.size - offset)))

    def repair_index(self) -> bool:
        """Write the block index where it is missing or wrong; whether it was.  Raises as ``Transaction``."""
        with self.change.entered():
            self.table.settle()
            if self.layout.index is not None or not self.may_have_index:
                return False
            self.table.check_all()
            self._write_index()
            return True

    @property
    def may_have_index(self) -> bool:
        """Section Block index: not without blocks, with a streamed one, behind something foreign, or in a draft."""
        layout = self.layout
        if not layout.offsets or not layout.removable or layout.truncated or not self._dialect.indexed:
            return False
        try:
            return not self.table.header(len(self.blocks) - 1).streamed
        except DamagedBlockError:  # nobody knows what it was
            return False

    def _index_is_wrong(self) -> bool:
        """Whether something that is no valid index, but was to be one, follows the last block."""
        tail = self.read_raw(min(self.layout.blocks_end, self.layout.size), len(INDEX_TOKEN))
        return self.layout.index is None and tail == INDEX_TOKEN

    def _write_index(self) -> None:
        cut = plan_cut_tail(self.layout)
        self._commit(cut, self.layout.without_tail(cut.new_size))
        plan = plan_index(self.layout)
        self._commit(plan, self.layout.with_index(plan.new_size - plan.old_size))

    def _commit(self, plan: Plan, layout: Layout) -> None:
        self._transaction.commit(plan, lambda: self.table.update(layout))

    def _adopt(self, parts: Parts) -> None:
        self._transaction, self._dialect = parts.transaction, parts.dialect
        self.table = BlockTable(lambda: parts.transaction.store, parts.layout, self.changes)
        self.contents = Contents(
            parts.transaction,
            self.table,
            self._codecs,
            self._room,
            policy=self._policy,
            change=self.change,
            relief=self.relief,
            progress=self.report.progress,
            care=self._care,
            changes=self.changes,
            order=lambda number: self.arrays.byteorder_of(number),
        )
        self._generation += 1 << 32
        self._tree = TreeEditor(
            self._transaction,
            self.table,
            self._dialect,
            self._policy,
            relief=self.relief,
            version=self._generation,
            changes=self.changes,
        )
