"""Positions and allocations of blocks: all changes of the file layout except those that a new tree needs.

Each method commits one or more plans, and each plan is atomic.  The last block grows at the end of the file.  Any
other block grows into a gap that is opened behind it.  The block index is removed before the first such change;
``document`` writes it again at the end.

One change at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from asdffs.document.blocks.steps import Step
from asdffs.document.blocks.table import BlockTable
from asdffs.document.blocks.transaction import Transaction
from asdffs.errors import DamagedBlockError, NameRefusedError, NoRoomError, NotPermittedError
from asdffs.format.block_header import BlockHeader
from asdffs.format.layout import Padding
from asdffs.format.plan import (
    plan_block_append,
    plan_block_growth,
    plan_block_headers,
    plan_block_removal,
    plan_block_slots,
    plan_cut_tail,
)
from asdffs.storage.sidecars import Payload


class Encoded(NamedTuple):
    """The encoded content of a block.

    ``payload``: the stored bytes; ``compression``: the field of the block header; ``size``: bytes of decoded content;
    ``digest``: the MD5 of the stored bytes.
    """

    payload: Payload
    compression: bytes
    size: int
    digest: bytes


class NewSlot(NamedTuple):
    """New bytes for the stored bytes ``[place, place + length)`` of a block; they may be longer."""

    place: int
    length: int
    stored: bytes

    @property
    def grown(self) -> int:
        """How many bytes it gets longer."""
        return len(self.stored) - self.length


class Allocation:
    """The allocations of the blocks of one file."""

    def __init__(self, transaction: Transaction, table: BlockTable, policy: Padding) -> None:
        self._transaction = transaction
        self._table = table
        self._policy = policy

    def is_last(self, number: int) -> bool:
        """Return whether block ``number`` is the last one."""
        return number + 1 == len(self._table)

    def put(self, number: int, header: BlockHeader) -> None:
        """Commit the header of block ``number``, and extend or cut the file to the end of a new allocation.

        If ``header`` does not change the allocation, but this ends behind the end of the file, it is cut: such an
        allocation may claim any size.  Raises ``DamagedBlockError`` or as ``Transaction``.
        """
        table = self._table
        old = table.header(number)
        if header.allocated_size == old.allocated_size:
            header = self._within_file(number, header)
        end = header.end(table.offset(number))
        moved = header.allocated_size != old.allocated_size or end > table.layout.size
        plan = plan_block_headers(
            table.layout, [(table.offset(number), old, header)], resize_to=end if moved else None
        )
        layout = table.layout._replace(size=plan.new_size, blocks_end=end) if moved else table.layout

        def adopt() -> None:
            table.put(number, header)
            table.update(layout)

        self._transaction.commit(plan, adopt)

    def _within_file(self, number: int, header: BlockHeader) -> BlockHeader:
        """Return ``header`` with the allocation cut to the file.  Raises ``DamagedBlockError`` if content is cut."""
        there = self._table.layout.size - self._table.start(number, header)
        if header.streamed or header.allocated_size <= there or not self.is_last(number):
            return header
        if there < header.used_size:
            raise DamagedBlockError("the file ends inside this block; it cannot be written", block=number)
        return header._replace(allocated_size=there)

    def make_room(self, number: int, needed: int) -> None:
        """Allocate at least ``needed`` bytes for block ``number``, and some more for later growth.

        Not for streamed blocks, which have no allocation.  Raises as ``reserve``.
        """
        header = self._table.header(number)
        if needed > header.allocated_size:
            self._allocate(number, header, self._policy.allocation(needed, header.allocated_size))
        elif self._table.start(number, header) + needed > self._table.layout.size:
            self.put(number, header._replace(allocated_size=needed))  # the file ends inside the slack

    def reserve(self, number: int, size: int) -> None:
        """Allocate ``size`` bytes for block ``number``: exactly for the last block, at least for any other.

        Raises ``NoRoomError`` with the block number, ``NotPermittedError`` for a streamed block or for less room than
        before in front of other blocks, ``NameRefusedError`` for less than the block uses, or as ``Transaction``.
        """
        header = self._table.header(number)
        if header.streamed:
            raise NotPermittedError("a streamed block has no allocation; it ends with the file", block=number)
        if size < header.used_size:
            raise NameRefusedError(f"the block uses {header.used_size} bytes; allocate as many or more", block=number)
        if size < header.allocated_size and not self.is_last(number):
            raise NotPermittedError("blocks follow this one; only the last gives room back in place", block=number)
        if size != header.allocated_size:
            self._allocate(number, header, size)

    def put_encoded(self, number: int, encoded: Encoded, checksum: bytes, step: Step) -> None:
        """Overwrite block ``number`` with encoded content; ``step(bytes)`` reports progress.

        Raises as ``reserve`` or as ``Transaction.fill``.
        """
        table, payload = self._table, encoded.payload
        if payload.size > table.header(number).allocated_size:
            self.reserve(number, payload.size)
        self.make_room(number, payload.size)
        old = table.header(number)
        new = old.with_used(payload.size)._replace(data_size=encoded.size)
        new = new._replace(compression=encoded.compression, checksum=checksum)
        plan = plan_block_headers(table.layout, [(table.offset(number), old, new)])
        self._transaction.fill(plan, payload, table.start(number, old), lambda: table.put(number, new), step)

    def put_slots(self, number: int, slots: Sequence[NewSlot]) -> None:
        """Replace parts of the stored bytes of block ``number``, durably; its checksum becomes "do not verify".

        At most one slot gets longer.  Raises ``NoRoomError``, ``DamagedBlockError`` or as ``Transaction``.
        """
        table, old = self._table, self._table.header(number)
        start = table.start(number, old)
        grown = sum(slot.grown for slot in slots)
        if grown:
            table.check_all()
        new = old._replace(used_size=old.used_size + grown, allocated_size=old.allocated_size + grown)
        new = new.without_checksum()
        placed = [(start + slot.place, slot.length, slot.stored) for slot in slots]
        plan = plan_block_slots(table.layout, number, old, new, placed)
        layout = table.layout.with_gap(number, grown, plan.new_size) if grown else table.layout

        def adopt() -> None:
            table.update(layout)
            table.put(number, new)

        self._transaction.commit(plan, adopt)

    def append(self, padding_byte: bytes, sizes: Sequence[tuple[int, int]]) -> int:
        """Append blocks of zeros behind the last one, and return the number of the first.

        ``sizes`` has the used and the allocated bytes of each block.  Raises ``NotPermittedError`` if the last block
        is streamed, ``NoRoomError``, or as ``Transaction``.
        """
        table = self._table
        number = len(table)
        if number and table.header(number - 1).streamed:
            raise NotPermittedError("the last block is streamed and ends with the file; none can follow it")
        if table.layout.first_block is not None:
            self._cut_tail()
            self._end_with_file(number - 1)
        empty = table.empty_header()
        headers = [empty.with_used(used)._replace(allocated_size=allocated) for used, allocated in sizes]
        plan, layout = plan_block_append(table.layout, headers, padding_byte, self._policy)

        def adopt() -> None:
            table.update(layout)
            for place, header in enumerate(headers, number):
                table.put(place, header)

        self._transaction.commit(plan, adopt)
        return number

    def put_all(self, headers: Mapping[int, BlockHeader]) -> None:
        """Commit several headers in one change.  Their allocations must be unchanged."""
        table = self._table
        changes = [(table.offset(number), table.header(number), header) for number, header in headers.items()]

        def adopt() -> None:
            for number, header in headers.items():
                table.put(number, header)

        self._transaction.commit(plan_block_headers(table.layout, changes), adopt)

    def _end_with_file(self, number: int) -> None:
        """Cut the allocation of the last block if it ends behind the end of the file."""
        if number >= 0 and self._table.layout.blocks_end > self._table.layout.size:
            self.put(number, self._table.header(number))

    def remove_last(self) -> None:
        """Remove the last block.  Raises ``NoRoomError``, or as ``Transaction``."""
        table = self._table
        number = len(table) - 1
        if not table.header(number).streamed:
            self._cut_tail()
        plan = plan_block_removal(table.layout)
        layout = table.layout.without_block()

        def adopt() -> None:
            table.update(layout)
            table.drop(number)

        self._transaction.commit(plan, adopt)

    def _allocate(self, number: int, header: BlockHeader, size: int) -> None:
        if not self.is_last(number):
            self._open_gap(number, header, size)
            return
        self._cut_tail()
        self.put(number, header._replace(allocated_size=size))

    def _open_gap(self, number: int, header: BlockHeader, size: int) -> None:
        """Move the blocks behind block ``number``, so that its allocation grows to at least ``size`` bytes.

        Raises ``NoRoomError`` with the block number, or as ``Transaction``.
        """
        table = self._table
        table.check_all()
        plan = plan_block_growth(table.layout, number, header, self._policy, size)
        shift = plan.checked_move.shift

        def adopt() -> None:
            table.update(table.layout.with_gap(number, shift, plan.new_size))
            table.put(number, header._replace(allocated_size=header.allocated_size + shift))

        try:
            self._transaction.commit(plan, adopt)
        except NoRoomError as err:
            err.block = number
            raise

    def _cut_tail(self) -> None:
        """Remove the block index and NULs behind the last block, before the layout changes."""
        self._table.check_all()
        table = self._table
        plan = plan_cut_tail(table.layout)
        cut = table.layout.without_tail(plan.new_size)
        self._transaction.commit(plan, lambda: table.update(cut))
