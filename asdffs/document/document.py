"""Document: one open ASDF file, and the only way the floors above touch it.

Users: ``views`` (reading, writing nodes), ``vfs`` (saves, finishing), ``cli/info``.  One
thread at a time, whoever has the turn (``asdffs.relief``).  Changes are exclusive: one that
waits for the disk lets others read, and a second change, or a reader of the text, queues.
Several documents may be open in one process; they share nothing.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from asdffs.codecs.base import Codec
from asdffs.dialects.base import Dialect
from asdffs.document.array_index import ArrayIndex
from asdffs.document.block_table import BlockTable
from asdffs.document.changes import Changes
from asdffs.document.contents import Care, Contents
from asdffs.document.report import Report
from asdffs.document.spool_room import SpoolRoom
from asdffs.document.transaction import Foreign, Transaction
from asdffs.document.tree_editor import TreeEditor
from asdffs.document.tree_fit import TreeFit
from asdffs.errors import AsdffsError, DamagedBlockError, InUseError, NoRoomError
from asdffs.format.block_header import BlockHeader
from asdffs.format.layout import Layout
from asdffs.format.padding import Padding
from asdffs.format.plan import Plan, plan_cut_tail, plan_index
from asdffs.format.scanner import drive, scan_layout
from asdffs.relief import Exclusive, Relief
from asdffs.storage.store import Extent, Folder, Signature, Store

logger = logging.getLogger(__name__)

__all__ = ["Document", "Foreign", "Parts"]

_FOREIGN_TAIL: Final = (
    "what follows the last block is no sound block and no index, and would be lost; 'asdffs check' says more"
)


@dataclass(slots=True)
class Parts:
    """What ``opening`` puts together for a document, and again after a foreign change."""

    transaction: Transaction
    layout: Layout
    dialect: Dialect


class Document:
    """One open file.  ``path`` is absolute, without symbolic links; ``room``: for decoded blocks."""

    def __init__(
        self,
        path: str,
        parts: Parts,
        codecs: dict[bytes, Codec],
        *,
        reopen: Callable[[Transaction], Parts],
        relief: Relief,
        policy: Padding,
        room: SpoolRoom,
        care: Care | None = None,
        strict: bool = False,
    ) -> None:
        self.path = path
        self.report = Report()
        self.relief = relief
        self.changes = Changes()
        self._change = Exclusive(relief)
        self._strict = strict
        self._codecs = codecs
        self._reopen = reopen
        self._policy = policy
        self._room = room
        self._care = care or Care()
        self._generation = 0
        self._note: dict[str, Any] = {}
        self._noted_growth = ""
        self._adopt(parts)
        self.arrays = ArrayIndex(self)
        self._fit = TreeFit(self)

    # -- what is there ----------------------------------------------------

    @property
    def layout(self) -> Layout:
        """What lies where now."""
        return self._table.layout

    @property
    def dialect(self) -> Dialect:
        """The generation of the format."""
        return self._dialect

    @property
    def writable(self) -> bool:
        """Whether the file may be changed."""
        return self._transaction.writable

    @property
    def tree(self) -> TreeEditor:
        """The committed text, for its size, arrays and version.  Change it with ``commit_tree``."""
        return self._tree

    @property
    def contents(self) -> Contents:
        """The contents of the blocks, for who writes whole files of them: stretches, codecs, encoding."""
        return self._contents

    def read_text(self, offset: int, length: int) -> bytes | Extent:
        """Bytes of the committed text, fewer at its end; not while it is being changed.  Raises ``OSError``."""
        with self._change.entered(patiently=True):
            return self._tree.read(offset, length)

    @property
    def block_count(self) -> int:
        """Number of blocks."""
        return len(self._table)

    @property
    def signature(self) -> Signature:
        """Of the file as it is now."""
        return self._transaction.store.signature()

    @property
    def known_signature(self) -> Signature:
        """Of the file as it was read, or left by a change of ours."""
        return self._transaction.known

    def settle_index(self) -> None:
        """Look at each header that can be read: an index that lies is found out, and numbers stay what they are."""
        for number in range(self.block_count):
            with contextlib.suppress(DamagedBlockError):
                self.block_header(number)

    def count_blocks(self) -> int:
        """Number of blocks of a file that is to be written anew: each header was read, and nothing follows the last.

        An index that lies is found out.  Raises ``DamagedBlockError``, or ``NoRoomError`` where bytes lie between
        blocks.
        """
        try:
            for number in range(self.block_count):
                self.block_header(number)
            self._table.check_all()
        except (DamagedBlockError, NoRoomError) as err:
            err.path = err.path or self.path
            raise
        if not self.layout.removable:
            raise DamagedBlockError(_FOREIGN_TAIL, path=self.path, offset=self.layout.blocks_end)
        return self.block_count

    def block_offset(self, number: int) -> int:
        """Offset of the block's magic, in bytes from the start of the file."""
        return self._table.offset(number)

    def block_header(self, number: int) -> BlockHeader:
        """The header as it is on disk.  Raises ``DamagedBlockError``."""
        return self._contents.header(number)

    def block_size(self, number: int) -> int:
        """Decoded size in bytes, pending changes included.  Raises ``DamagedBlockError``."""
        return self._contents.size(number)

    def block_obstacle(self, number: int) -> str:
        """Why a block can only be shown as it is stored, and not written; empty when it can be decoded."""
        return self._contents.obstacle(number)

    # -- reading and writing ----------------------------------------------

    def read_block(self, number: int, offset: int, length: int) -> bytes | Extent:
        """Decoded bytes of a block, fewer where it ends.  Raises ``DamagedBlockError``, ``OSError``."""
        return self._contents.read(number, offset, length)

    def read_stored(self, number: int, offset: int, length: int) -> bytes:
        """Bytes of a block as they are stored, fewer where it ends.  Raises ``DamagedBlockError``, ``OSError``."""
        return self._contents.read_stored(number, offset, length)

    def read_stored_extent(self, number: int, offset: int, length: int) -> bytes | Extent:
        """As ``read_stored``, or where the bytes are."""
        return self._contents.read_stored_extent(number, offset, length)

    def find_checksum_fault(self, number: int) -> str:
        """A sentence when a block's checksum is wrong, or empty.  Raises ``DamagedBlockError``, ``OSError``."""
        return self._contents.find_fault(number)

    def check_block_readable(self, number: int) -> None:
        """Raise ``DamagedBlockError`` when nothing of the block can be read."""
        self._contents.check_readable(number)

    def check_block_writable(self, number: int) -> None:
        """Raise ``ReadOnlyError`` or ``DamagedBlockError`` when the block cannot be written."""
        self._contents.check_writable(number)

    def write_block(self, number: int, offset: int, payload: bytes | memoryview) -> None:
        """Write content.  Raises as ``Contents.write``."""
        self._contents.write(number, offset, payload)
        self._note_growth()

    def truncate_block(self, number: int, size: int) -> None:
        """Set the size of the content.  Raises as ``Contents.write``."""
        self._contents.truncate(number, size)
        self._note_growth()

    def settle_block(self, number: int, *, durable: bool) -> None:
        """Have the file hold what was written; with ``durable`` sync.  Raises as ``Contents.settle``."""
        self._contents.settle(number, durable=durable)
        self._note_growth()

    def set_compression(self, number: int, name: str) -> None:
        """Store a block in the compression ``name``, durably.  Raises as ``Contents.set_compression``."""
        self._contents.set_compression(number, name)
        self._note_growth()

    def replace_block(self, number: int, size: int, read: Callable[[int, int], bytes]) -> None:
        """Have ``size`` bytes that ``read(offset, length)`` gives in a block, durably, all or none.

        Raises as ``Contents.replace``.
        """
        self._contents.replace(number, size, read)
        self._note_growth()

    def revert_block(self, number: int) -> None:
        """Forget what was written to a compressed block and is not stored."""
        self._contents.revert(number)

    def reserve_block(self, number: int, size: int) -> None:
        """Allocate ``size`` bytes for a block.  Raises as ``BlockEditor.reserve``."""
        self._contents.reserve(number, size)
        self._note_growth()

    def append_block(self) -> int:
        """Add an empty block behind the last one; its number.  Raises as ``BlockEditor.append``."""
        with self._change.entered():
            return self._contents.append(self._tree.padding_byte())

    def remove_block(self, number: int) -> None:
        """Remove the last block, to which nothing in the tree may refer.

        Raises ``InUseError`` with the reason, or as ``BlockEditor.remove_last``.
        """
        with self._contents.locked(number), self._change.entered():
            if number + 1 != self.block_count:
                raise InUseError("only the last block can be removed", block=number)
            self._fit.check_unreferenced(number)
            self._contents.remove_last()

    def commit_tree(self, draft: bytes) -> None:
        """Make ``draft`` the tree, durably.  Raises ``InvalidTreeError`` or as ``Transaction``."""
        with self._change.entered():
            self._contents.settle_appended()
            arrays = self._tree.commit(draft, self._fit.refuse if self._strict else None)
            self._note_growth()
            self._fit.warn(arrays)

    def rewrite(self, fill: Callable[[Folder, Store], None]) -> None:
        """Replace the file by the one that ``fill(folder, store)`` writes into an empty store; nothing may be
        pending.

        Whole or not at all, and durably; mode, owner and attributes stay.  Raises as ``Transaction.rewrite``.
        """
        with self._change.entered():
            self._transaction.rewrite(fill, self._adopt_rewritten)

    def _adopt_rewritten(self) -> None:
        """Also in the state FAILED: what is read from now on is the new file."""
        store = self._transaction.store
        layout = drive(scan_layout(store.size()), store.read_at)
        self._contents.close()
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
            self._contents.store_all()
        except (AsdffsError, OSError) as err:  # the rest is finished all the same
            failure = err
        with self._change.entered():
            self._finish()
        if failure is not None:
            raise failure

    def _finish(self) -> None:
        self._transaction.check_healthy()
        self._transaction.check_conflict()
        if not self._transaction.changed and not self._contents.pending:
            return
        self._transaction.check_unchanged()
        self._contents.finish()
        if self._table.moved and self.layout.index is None and self.may_have_index:
            self._write_index()
        self._table.moved = False

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
        return self._change.taken or self._contents.busy

    @property
    def pending(self) -> bool:
        """Whether blocks were written since the file was last finished, or cannot be any more."""
        return self._contents.pending or bool(self._transaction.failure)

    @property
    def written_blocks(self) -> tuple[int, ...]:
        """Numbers of the blocks that were written since the file was last finished."""
        return self._contents.written

    @property
    def unstored_blocks(self) -> tuple[int, ...]:
        """Numbers of the blocks of which the file has not what was written."""
        return self._contents.unstored

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
        self._contents.close()
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
        self._note = note
        self._transaction.note_owner({**note, "growth": self.growth})

    def _note_growth(self) -> None:
        if self._note and self.growth != self._noted_growth:
            self._noted_growth = self.growth
            with contextlib.suppress(OSError):  # the note is information for others, the change is not
                self.note_owner(self._note)

    def check_tree(self) -> None:
        """Look for sources and shapes that do not fit the blocks; into ``report.warnings``."""
        self._fit.warn(self._tree.arrays())

    def close(self) -> None:
        """Close the file as it is.  ``finish`` comes before."""
        self._contents.close()
        self._transaction.close()

    def read_raw(self, offset: int, length: int) -> bytes:
        """Bytes of the file, fewer at its end.  Raises ``OSError``."""
        return self._transaction.store.read_at(offset, max(0, min(length, self.layout.size - offset)))

    def repair_index(self) -> bool:
        """Write the block index where it is missing or wrong; whether it was.  Raises as ``Transaction``."""
        with self._change.entered():
            self._table.check_all()
            if self.layout.index is not None or not self.may_have_index:
                return False
            self._write_index()
            return True

    @property
    def may_have_index(self) -> bool:
        """Section Block index: not without blocks, not with a streamed one, nothing foreign in its place."""
        if not self.layout.offsets or not self.layout.removable:
            return False
        return not self._table.header(self.block_count - 1).streamed

    def _write_index(self) -> None:
        cut = plan_cut_tail(self.layout)
        self._commit(cut, self.layout.without_tail(cut.new_size))
        plan = plan_index(self.layout)
        self._commit(plan, self.layout.with_index(plan.new_size - plan.old_size))

    def _commit(self, plan: Plan, layout: Layout) -> None:
        self._transaction.commit(plan, lambda: self._table.update(layout))

    def _adopt(self, parts: Parts) -> None:
        self._transaction, self._dialect = parts.transaction, parts.dialect
        self._table = BlockTable(lambda: parts.transaction.store, parts.layout, self.changes)
        self._contents = Contents(
            parts.transaction,
            self._table,
            self._codecs,
            self._room,
            policy=self._policy,
            change=self._change,
            relief=self.relief,
            progress=self.report.progress,
            care=self._care,
            changes=self.changes,
        )
        self._generation += 1 << 32
        self._tree = TreeEditor(
            self._transaction,
            self._table,
            self._dialect,
            self._policy,
            relief=self.relief,
            version=self._generation,
            changes=self.changes,
        )
