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
from typing import Any

from asdffs.codecs.base import Codec
from asdffs.dialects.base import Dialect
from asdffs.document.arrays import Ndarray
from asdffs.document.block_editor import BlockEditor
from asdffs.document.block_table import BlockTable
from asdffs.document.decoding import DecodedBlock
from asdffs.document.report import Report
from asdffs.document.transaction import Foreign, Transaction
from asdffs.document.tree_editor import TreeEditor
from asdffs.document.validation import find_warnings
from asdffs.errors import DamagedBlockError, InvalidTreeError, NotSupportedError
from asdffs.format.block_header import BlockHeader
from asdffs.format.layout import Layout
from asdffs.format.padding import Padding
from asdffs.format.plan import Plan, plan_cut_tail, plan_index
from asdffs.relief import Exclusive, Relief
from asdffs.storage.store import Extent, Signature

logger = logging.getLogger(__name__)

__all__ = ["Document", "Foreign", "Parts"]


@dataclass(slots=True)
class Parts:
    """What ``opening`` puts together for a document, and again after a foreign change."""

    transaction: Transaction
    layout: Layout
    dialect: Dialect


class Document:
    """One open file.  ``path`` is absolute, without symbolic links; ``spool`` a directory or None."""

    def __init__(
        self,
        path: str,
        parts: Parts,
        codecs: dict[bytes, Codec],
        *,
        reopen: Callable[[Transaction], Parts],
        relief: Relief,
        policy: Padding,
        spool: str | None = None,
        strict: bool = False,
    ) -> None:
        self.path = path
        self.report = Report()
        self.relief = relief
        self._change = Exclusive(relief)
        self._strict = strict
        self._codecs = codecs
        self._reopen = reopen
        self._policy = policy
        self._spool = spool
        self._decoded: dict[int, DecodedBlock] = {}
        self._generation = 0
        self._note: dict[str, Any] = {}
        self._noted_growth = ""
        self._adopt(parts)

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

    def block_offset(self, number: int) -> int:
        """Offset of the block's magic, in bytes from the start of the file."""
        return self._table.offset(number)

    def block_header(self, number: int) -> BlockHeader:
        """The header as it is on disk.  Raises ``DamagedBlockError``."""
        self._await_move()
        return self._table.header(number)

    def block_size(self, number: int) -> int:
        """Decoded size in bytes, pending changes included.  Raises ``DamagedBlockError``."""
        self._await_move()
        header = self._table.header(number)
        return header.data_size if header.compressed else self._blocks.used(number)

    # -- reading and writing ----------------------------------------------

    def read_block(self, number: int, offset: int, length: int) -> bytes | Extent:
        """Decoded bytes of a block, fewer where it ends.  Raises ``DamagedBlockError``, ``OSError``."""
        self._await_move()
        header = self._table.header(number)
        length = max(0, min(length, self.block_size(number) - offset))
        if header.compressed:
            return self._decoder(number, header).read(offset, length)
        start = self._table.offset(number) + header.full_size + offset
        if start + length > self.layout.size:
            raise DamagedBlockError("the file ends inside this block", block=number, offset=self.layout.size)
        return self._transaction.store.extent(start, length)

    def check_block_writable(self, number: int) -> None:
        """Raise ``ReadOnlyError`` or ``DamagedBlockError`` when the block cannot be written."""
        self._await_move()
        self._blocks.check_writable(number)

    def write_block(self, number: int, offset: int, payload: bytes | memoryview) -> None:
        """Write content.  Raises as ``BlockEditor.write``."""
        with self._change.entered():
            self._blocks.write(number, offset, payload)
            self._note_growth()

    def truncate_block(self, number: int, size: int) -> None:
        """Set the size of the content.  Raises as ``BlockEditor.write``."""
        with self._change.entered():
            self._blocks.truncate(number, size)
            self._note_growth()

    def settle_block(self, number: int, *, durable: bool) -> None:
        """Bring the size into the header; with ``durable`` sync.  Raises as ``Transaction``."""
        with self._change.entered():
            self._blocks.settle(number, durable=durable)

    def commit_tree(self, draft: bytes) -> None:
        """Make ``draft`` the tree, durably.  Raises ``InvalidTreeError`` or as ``Transaction``."""
        with self._change.entered():
            arrays = self._tree.commit(draft, self._refuse if self._strict else None)
            self._note_growth()
            self._warn(arrays)

    # -- ending -----------------------------------------------------------

    def finish(self) -> None:
        """Make the file complete: sizes, checksums, index, all durable.  Nothing is written if nothing changed.

        A checksum is given up when somebody waits to change the file; the next finish computes it.
        Raises as ``Transaction``, ``OSError``.
        """
        with self._change.entered():
            self._finish()

    def _finish(self) -> None:
        self._transaction.check_healthy()
        self._transaction.check_conflict()
        if not self._transaction.changed and not self._blocks.pending:
            return
        self._transaction.check_unchanged()
        self._blocks.finish(interrupted=lambda: self._change.wanted)
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
    def busy(self) -> bool:
        """Whether something is under way that a change of the file must wait for."""
        return self._change.taken or any(decoded.busy for decoded in self._decoded.values())

    @property
    def pending(self) -> bool:
        """Whether blocks were written since the file was last finished, or cannot be any more."""
        return self._blocks.pending or bool(self._transaction.failure)

    @property
    def written_blocks(self) -> tuple[int, ...]:
        """Numbers of the blocks that were written since the file was last finished."""
        return self._blocks.written

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
        self._forget()
        self._adopt(parts)
        self.conflict = conflict
        logger.info("%s was changed by another program; read again", self.path)

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
        self._warn(self._tree.arrays())

    def close(self) -> None:
        """Close the file as it is.  ``finish`` comes before."""
        self._forget()
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
        self._table = BlockTable(lambda: parts.transaction.store, parts.layout)
        self._blocks = BlockEditor(self._transaction, self._table, self._policy, self.relief)
        self._generation += 1 << 32
        self._tree = TreeEditor(
            self._transaction,
            self._table,
            self._dialect,
            self._policy,
            relief=self.relief,
            version=self._generation,
        )

    def _await_move(self) -> None:
        """While blocks move within the file nobody reads them: they are neither at the old nor at the new offsets."""
        if self._transaction.moving.taken:
            with self._transaction.moving.entered(patiently=True):
                pass

    def _forget(self) -> None:
        for decoded in self._decoded.values():
            decoded.close()
        self._decoded.clear()

    def _decoder(self, number: int, header: BlockHeader) -> DecodedBlock:
        known = self._decoded.get(number)
        if known is not None:
            return known
        codec = self._codecs.get(header.compression)
        if codec is None:
            name = header.compression.decode("ascii", "replace")
            raise NotSupportedError(f"the compression {name!r} is not known; the block cannot be read", block=number)
        decoded = DecodedBlock(
            lambda offset, length: self.read_stored(number, offset, length),
            header.data_size,
            codec,
            number,
            spool=self._spool,
            relief=self.relief,
        )
        return self._decoded.setdefault(number, decoded)

    def read_stored(self, number: int, offset: int, length: int) -> bytes:
        """Bytes of a block as they are stored, fewer where it ends.  Raises ``DamagedBlockError``, ``OSError``."""
        self._await_move()
        span = self._table.content(number).clip(offset, length)
        return self._transaction.store.read_at(span.start, len(span)) if span else b""

    def _refuse(self, arrays: tuple[Ndarray, ...]) -> None:
        """With ``strict``: what would be a warning."""
        warnings = self._find_warnings(arrays)
        if warnings:
            raise InvalidTreeError("; ".join(warnings))

    def _find_warnings(self, arrays: tuple[Ndarray, ...]) -> tuple[str, ...]:
        with self.relief.waiting():
            return find_warnings(arrays, self.block_count, self._size_or_none)

    def _warn(self, arrays: tuple[Ndarray, ...]) -> None:
        self.report.warnings = self._find_warnings(arrays)
        for warning in self.report.warnings:
            logger.warning("%s: %s", self.path, warning)

    def _size_or_none(self, number: int) -> int | None:
        with self.relief.resumed():
            try:
                return self.block_size(number)
            except (DamagedBlockError, OSError):
                return None
