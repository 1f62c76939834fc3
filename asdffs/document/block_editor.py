"""Writes blocks in place: content, size within the allocation, growth of the last block.

Rules (docs/semantics.md, Blocks).  Before the first content write a checksum is set to
zero, durably: a crash then leaves "unchecked", never a wrong sum.  A size changes in memory
first and reaches the header at ``settle`` (close, fsync, finish), after the content is
durable.  The last block grows by reserving room with the journalled header before content
is written there, any other by a gap behind it.  ``finish`` returns what was reserved too much for
the last block and writes the checksums.

Users: ``document``.  One thread.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from asdffs.document.block_table import BlockTable
from asdffs.document.transaction import Transaction
from asdffs.errors import DamagedBlockError, NoRoomError, ReadOnlyError
from asdffs.format.block_header import BlockHeader
from asdffs.format.constants import NO_CHECKSUM
from asdffs.format.padding import Padding
from asdffs.format.plan import plan_block_growth, plan_block_header, plan_cut_tail
from asdffs.relief import Relief

logger = logging.getLogger(__name__)

_PIECE = 1 << 20


@dataclass(slots=True)
class _Edit:
    """What is pending for one block.  Sizes in bytes of content.

    ``used``: as readers of the mount see it.  ``fresh``: from here on the allocation was
    reserved by us and never written, so it is zeros.  ``kept``: allocation to return to.
    ``checksum``: whether the block had one and gets one again.
    """

    used: int
    fresh: int
    kept: int
    checksum: bool


class BlockEditor:
    """Pending and committed changes to the blocks of one file."""

    def __init__(self, transaction: Transaction, table: BlockTable, policy: Padding, relief: Relief) -> None:
        self._relief = relief
        self._transaction = transaction
        self._table = table
        self._policy = policy
        self._edits: dict[int, _Edit] = {}

    @property
    def pending(self) -> bool:
        """Whether ``finish`` has something to do."""
        return bool(self._edits)

    @property
    def written(self) -> tuple[int, ...]:
        """The blocks that ``finish`` has something to do for."""
        return tuple(sorted(self._edits))

    def used(self, number: int) -> int:
        """Content size of an uncompressed block, pending changes included."""
        edit = self._edits.get(number)
        if edit is not None:
            return edit.used
        header = self._table.header(number)
        return len(self._table.content(number)) if header.streamed else header.used_size

    def check_writable(self, number: int) -> None:
        """Raise ``ReadOnlyError`` or ``DamagedBlockError`` when the block cannot be written."""
        header = self._table.header(number)
        if not self._transaction.writable:
            raise ReadOnlyError("the file is mounted read-only", block=number)
        if header.compressed:
            name = header.compression.decode("ascii", "replace")
            raise ReadOnlyError(f"the block is compressed ({name}); writing it is not supported yet", block=number)
        if not header.streamed and self._start(number) + header.used_size > self._table.layout.size:
            raise DamagedBlockError("the file ends inside this block; it cannot be written", block=number)

    def write(self, number: int, offset: int, payload: bytes | memoryview) -> None:
        """Write ``payload`` at ``offset`` of the content; a gap before it reads as zeros.

        Raises ``ReadOnlyError``, ``NoRoomError``, ``DamagedBlockError`` or as ``Transaction``.
        """
        if not payload:
            return
        edit = self._begin(number)
        end = offset + len(payload)
        self._make_room(number, end)
        self._fill(number, edit.used, offset)
        try:
            self._transaction.write_content(self._start(number) + offset, payload)
        except OSError:
            if self._table.header(number).streamed:  # a part of it may be there, and is the block's
                self._note_stream()
                edit.used = len(self._table.content(number))
            raise
        self._grown(number, end)

    def truncate(self, number: int, size: int) -> None:
        """Set the content size; what is added reads as zeros.  Raises as ``write``."""
        if size == self.used(number):
            return
        edit = self._begin(number)
        if self._table.header(number).streamed:
            self._transaction.truncate_stream(self._start(number) + size)
            self._note_stream()
        elif size > edit.used:
            self._make_room(number, size)
            self._fill(number, edit.used, size)
        edit.used = size

    def settle(self, number: int, *, durable: bool) -> None:
        """Write the size of block ``number`` into its header if it changed.

        With ``durable``, content is made durable as well.  Raises as ``Transaction``.
        """
        header = self._table.header(number)
        edit = self._edits.get(number)
        resized = edit is not None and not header.streamed and edit.used != header.used_size
        if edit is not None:
            self._transaction.check_unchanged()
        if durable or resized:
            self._transaction.sync()
        if edit is not None and resized:
            self._put(number, header.with_used(edit.used))

    def finish(self, *, interrupted: Callable[[], bool] = lambda: False) -> None:
        """Settle all blocks, return reserved room, write checksums.

        A block whose checksum was ``interrupted`` stays pending.  Raises as ``Transaction``, ``OSError``.
        """
        if not self._edits:
            return
        self._transaction.sync()
        for number, edit in list(self._edits.items()):
            header = self._table.header(number)
            checksum = self._digest(number, edit.used, interrupted) if edit.checksum else NO_CHECKSUM
            if not header.streamed:
                self._finish_block(number, edit, header, checksum or NO_CHECKSUM)
            if checksum is not None:
                del self._edits[number]
        self._table.pinned = bool(self._edits)

    def _finish_block(self, number: int, edit: _Edit, header: BlockHeader, checksum: bytes) -> None:
        last = number + 1 == len(self._table)
        allocated = max(edit.used, edit.kept) if last else header.allocated_size
        self._put(number, replace(header.with_used(edit.used), allocated_size=allocated, checksum=checksum))
        edit.fresh = min(edit.fresh, allocated)

    def _begin(self, number: int) -> _Edit:
        """The pending edit of a block that is about to change; its checksum is zero from here on."""
        header = self._table.header(number)
        self.check_writable(number)
        edit = self._edits.get(number)
        if edit is None:
            edit = _Edit(self.used(number), header.allocated_size, header.allocated_size, checksum=False)
        if header.checksum != NO_CHECKSUM and not header.streamed:
            self._put(number, header.without_checksum())
            edit.checksum = True
        self._edits[number] = edit
        self._table.pinned = True
        return edit

    def _make_room(self, number: int, needed: int) -> None:
        header = self._table.header(number)
        if header.streamed:
            return
        if needed <= header.allocated_size:
            if self._start(number) + needed > self._table.layout.size:
                self._put(number, header)  # the file ends inside the slack
            return
        if number + 1 < len(self._table):
            self._open_gap(number, header, needed)
            return
        self._cut_tail()
        allocated = self._policy.allocation(needed, header.allocated_size)
        self._put(number, replace(header, allocated_size=allocated))

    def _open_gap(self, number: int, header: BlockHeader, needed: int) -> None:
        """Move the blocks behind block ``number``.  Raises ``NoRoomError`` with its number, or as ``Transaction``."""
        table = self._table
        table.check_all()
        plan = plan_block_growth(table.layout, number, header, self._policy, needed)
        shift = plan.checked_move.shift

        def adopt() -> None:
            table.update(table.layout.with_gap(number, shift, plan.new_size))
            table.put(number, replace(header, allocated_size=header.allocated_size + shift))

        try:
            self._transaction.commit(plan, adopt)
        except NoRoomError as err:
            err.block = number
            raise

    def _cut_tail(self) -> None:
        """Remove the index and NULs behind the last block: the layout is about to change."""
        self._table.check_all()
        table = self._table
        plan = plan_cut_tail(table.layout)
        cut = table.layout.without_tail(plan.new_size)
        self._transaction.commit(plan, lambda: table.update(cut))

    def _put(self, number: int, header: BlockHeader) -> None:
        """Commit the header of block ``number``; the file is extended, or cut, to its allocation's end."""
        table = self._table
        old = table.header(number)
        end = table.offset(number) + header.full_size + header.allocated_size
        moved = header.allocated_size != old.allocated_size or end > table.layout.size
        plan = plan_block_header(table.layout, table.offset(number), old, header, resize_to=end if moved else None)
        layout = replace(table.layout, size=plan.new_size, blocks_end=end) if moved else table.layout

        def adopt() -> None:
            table.put(number, header)
            table.update(layout)

        self._transaction.commit(plan, adopt)

    def _start(self, number: int) -> int:
        return self._table.offset(number) + self._table.header(number).full_size

    def _fill(self, number: int, start: int, stop: int) -> None:
        """Zeros in ``[start, stop)`` of the content, but not where it is fresh, nor past the end of the file."""
        if self._table.header(number).streamed:
            return
        stop = min(stop, self._edits[number].fresh)
        for place in range(start, stop, _PIECE):
            self._transaction.write_content(self._start(number) + place, bytes(min(_PIECE, stop - place)))

    def _grown(self, number: int, end: int) -> None:
        edit = self._edits[number]
        edit.used = max(edit.used, end)
        edit.fresh = max(edit.fresh, end)
        if self._table.header(number).streamed:
            self._note_stream()

    def _note_stream(self) -> None:
        size = self._transaction.store.size()
        self._table.update(replace(self._table.layout, size=size, blocks_end=size))

    def _digest(self, number: int, size: int, interrupted: Callable[[], bool]) -> bytes | None:
        """MD5 of the content, or None when it was interrupted.  Nothing moves or changes meanwhile."""
        digest = hashlib.md5(usedforsecurity=False)
        start, store = self._start(number), self._transaction.store
        with self._relief.waiting():
            for place in range(0, size, _PIECE):
                if interrupted():
                    return None
                digest.update(store.read_at(start + place, min(_PIECE, size - place)))
        return digest.digest()
