"""Writes blocks in place: content, size within the allocation, growth of the last block.

Rules (docs/semantics.md, Blocks).  Before the first content write a checksum is set to
zero, durably: a crash then leaves "unchecked", never a wrong sum.  A size changes in memory
first and reaches the header at ``flush`` (close, fsync, finish), after the content is
durable.  Room is reserved with the journalled header before content is written there
(``allocation``).  ``finish`` returns what was reserved too much for the last block and writes the
checksums.  Content that was encoded elsewhere is put in place whole (``store``).

One thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from asdffs.document.blocks.allocation import Allocation
from asdffs.document.blocks.checksums import digest_of
from asdffs.document.blocks.encoding import Encoded
from asdffs.document.blocks.table import BlockTable
from asdffs.document.blocks.transaction import Transaction
from asdffs.document.progress import Progress
from asdffs.errors import DamagedBlockError, ReadOnlyError
from asdffs.format.block_header import BlockHeader
from asdffs.format.constants import NO_CHECKSUM
from asdffs.format.padding import Padding
from asdffs.scheduling import CHUNK, Scheduler

logger = logging.getLogger(__name__)


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
    """Changes to the blocks of one file.  ``checksums``: whether changed blocks get one again."""

    def __init__(
        self,
        transaction: Transaction,
        table: BlockTable,
        policy: Padding,
        *,
        scheduler: Scheduler,
        progress: Progress,
        checksums: bool = True,
    ) -> None:
        self._scheduler = scheduler
        self._transaction = transaction
        self._table = table
        self._room = Allocation(transaction, table, policy)
        self._progress = progress
        self._checksums = checksums
        self._edits: dict[int, _Edit] = {}
        self._appended: set[int] = set()

    @property
    def pending(self) -> bool:
        """Whether ``finish`` has something to do."""
        return bool(self._edits)

    @property
    def written(self) -> tuple[int, ...]:
        """The blocks that ``finish`` has something to do for."""
        return tuple(sorted(self._edits))

    def has_begun(self, number: int) -> bool:
        """Whether a change of the block is pending, and its header has no checksum: after a failed finish it may."""
        return number in self._edits and self._table.header(number).checksum == NO_CHECKSUM

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
        self._check_file_writable(number)
        if not header.streamed and self._room.start(number) + header.used_size > self._table.layout.size:
            raise DamagedBlockError("the file ends inside this block; it cannot be written", block=number)

    def write(self, number: int, offset: int, payload: bytes | memoryview) -> None:
        """Write ``payload`` at ``offset`` of the content; a gap before it reads as zeros.

        Raises ``ReadOnlyError``, ``NoRoomError``, ``DamagedBlockError`` or as ``Transaction``.
        """
        if not payload:
            return
        edit = self._begin(number)
        end = offset + len(payload)
        self._room.make_room(number, end)
        self._fill(number, edit.used, offset)
        try:
            self._transaction.write_content(self._room.start(number) + offset, payload)
        except OSError:
            if self._table.header(number).streamed:  # a part of it may be there, and is the block's
                self._note_stream()
                edit.used = len(self._table.content(number))
            edit.fresh = max(edit.fresh, end)
            raise
        self._grown(number, end)

    def truncate(self, number: int, size: int) -> None:
        """Set the content size; what is added reads as zeros.  Raises as ``write``."""
        if size == self.used(number):
            return
        edit = self._begin(number)
        if self._table.header(number).streamed:
            self._transaction.truncate_stream(self._room.start(number) + size)
            self._note_stream()
        elif size > edit.used:
            self._room.make_room(number, size)
            self._fill(number, edit.used, size)
        edit.used = size

    def flush(self, number: int, *, durable: bool) -> None:
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
            self._room.put(number, header.with_used(edit.used))
        if durable or resized:
            self._appended.discard(number)

    def flush_appended(self) -> None:
        """Make blocks that were appended durable: before a tree may refer to them.  Raises as ``Transaction``."""
        resized = [n for n in sorted(self._appended) if self.used(n) != self._table.header(n).used_size]
        if self._appended and not resized:
            self._transaction.check_unchanged()
            self._transaction.sync()
        for number in resized:
            self.flush(number, durable=True)
        self._appended.clear()

    def reserve(self, number: int, size: int) -> None:
        """Allocate ``size`` bytes, and keep them at the end.  Raises as ``Allocation.reserve``, ``OSError``."""
        self.check_writable(number)
        self.flush(number, durable=False)
        before = self._table.header(number).allocated_size
        self._room.reserve(number, size)
        try:
            if size > before:
                self._transaction.allocate(self._room.start(number) + before, size - before)
        except OSError:  # others that moved for it stay where they are
            self.return_room(number, before)
            raise
        if number in self._edits:
            edit = self._edits[number]
            edit.kept, edit.fresh = size, min(edit.fresh, size)

    def start(self, number: int) -> int:
        """Offset of the content, in bytes from the start of the file."""
        return self._room.start(number)

    def put_encoded(self, number: int, encoded: Encoded) -> int:
        """Overwrite the block with what was encoded, durably; the room to ``return_room`` to.

        Raises as ``Allocation.reserve``.
        """
        header, edit = self._table.header(number), self._edits.get(number)
        had = header.verifiable or (edit is not None and edit.checksum)
        checksum = encoded.digest if had and self._checksums else NO_CHECKSUM
        with self._progress.over("storing", encoded.payload.size, number) as step:
            self._room.put_encoded(number, encoded, checksum, step)
        self._forget(number)
        return edit.kept if edit is not None else self._table.header(number).allocated_size

    def return_room(self, number: int, kept: int) -> None:
        """Give back what the last block has beyond ``kept`` and does not use.  Raises as ``Transaction``."""
        header = self._table.header(number)
        allocated = max(header.used_size, kept)
        if self._room.is_last(number) and allocated < header.allocated_size:
            self._room.put(number, header._replace(allocated_size=allocated))

    def append(self, padding_byte: bytes, sizes: Sequence[tuple[int, int]] = ((0, 0),)) -> int:
        """Add blocks of zeros; the number of the first.  See, and raises as, ``Allocation.append``."""
        self._check_file_writable()
        last = self._edits.get(len(self._table) - 1)
        if last is not None:
            self.flush(len(self._table) - 1, durable=False)
            self.return_room(len(self._table) - 1, last.kept)
            last.fresh = min(last.fresh, self._table.header(len(self._table) - 1).allocated_size)
        number = self._room.append(padding_byte, sizes)
        summed = self._table.header(number).form.summed
        for place, (used, allocated) in enumerate(sizes, number):
            self._edits[place] = _Edit(used, used, allocated, checksum=self._checksums and summed)
            self._appended.add(place)
        self._table.pinned = True
        return number

    def clear(self, numbers: Sequence[int]) -> None:
        """Empty these blocks, which nobody refers to; what is allocated stays.  Raises as ``Transaction``."""
        self._check_file_writable()
        headers = {}
        for number in numbers:
            header = self._table.header(number)
            headers[number] = header.emptied()._replace(allocated_size=header.allocated_size, extra=header.extra)
        self._room.put_all(headers)
        for number in numbers:
            self._forget(number)

    def remove_last(self) -> None:
        """Remove the last block.  Raises as ``Allocation.remove_last``."""
        self._check_file_writable()
        number = len(self._table) - 1
        self._room.remove_last()
        self._forget(number)

    def _forget(self, number: int) -> None:
        """Nothing is pending for the block any more: who writes next begins anew, also who had begun meanwhile."""
        self._edits.pop(number, None)
        self._appended.discard(number)
        self._table.touch()

    def finish(self, *, interrupted: Callable[[], bool] = lambda: False) -> None:
        """Settle all blocks, return reserved room, write checksums.

        A block whose checksum was ``interrupted`` stays pending.  Raises as ``Transaction``, ``OSError``.
        """
        if not self._edits:
            return
        self._transaction.sync()
        headers: dict[int, BlockHeader] = {}
        done: list[int] = []
        for number, edit in list(self._edits.items()):
            checksum = self._digest(number, edit.used, interrupted) if edit.checksum else NO_CHECKSUM
            if not self._table.header(number).streamed:
                headers[number] = self._finished(number, edit, checksum or NO_CHECKSUM)
            if checksum is not None:
                done.append(number)
        self._put_finished(headers)
        for number in done:
            del self._edits[number]
        self._table.touch()  # who writes next begins anew
        self._appended.clear()

    def _finished(self, number: int, edit: _Edit, checksum: bytes) -> BlockHeader:
        """The header of a block when it is complete."""
        header = self._table.header(number)
        kept = min(edit.kept, header.allocated_size)  # what was claimed and never there was cut
        allocated = max(edit.used, kept) if self._room.is_last(number) else header.allocated_size
        edit.fresh = min(edit.fresh, allocated)
        return header.with_used(edit.used)._replace(allocated_size=allocated, checksum=checksum)

    def _put_finished(self, headers: dict[int, BlockHeader]) -> None:
        """All by one change of the file, but for the last block, which may give room back."""
        last = len(self._table) - 1
        before = {number: header for number, header in headers.items() if number != last}
        if before:
            self._room.put_all(before)
        if last in headers:
            self._room.put(last, headers[last])

    def _check_file_writable(self, number: int | None = None) -> None:
        if not self._transaction.mode.writable:
            raise ReadOnlyError("the file is mounted read-only", block=number)

    def _begin(self, number: int) -> _Edit:
        """The pending edit of a block that is about to change; its checksum is zero from here on."""
        header = self._table.header(number)
        self.check_writable(number)
        edit = self._edits.get(number)
        if edit is None:
            edit = _Edit(self.used(number), header.allocated_size, header.allocated_size, checksum=False)
        if header.checksum != NO_CHECKSUM and not header.streamed:
            self._room.put(number, header.without_checksum())
            edit.checksum = self._checksums and header.verifiable
        self._edits[number] = edit
        self._table.pinned = True
        return edit

    def _fill(self, number: int, start: int, stop: int) -> None:
        """Zeros in ``[start, stop)`` of the content, but not where it is fresh, nor past the end of the file."""
        if self._table.header(number).streamed:
            return
        stop = min(stop, self._edits[number].fresh)
        for place in range(start, stop, CHUNK):
            self._transaction.write_content(self._room.start(number) + place, bytes(min(CHUNK, stop - place)))

    def _grown(self, number: int, end: int) -> None:
        edit = self._edits[number]
        edit.used = max(edit.used, end)
        edit.fresh = max(edit.fresh, end)
        if self._table.header(number).streamed:
            self._note_stream()

    def _note_stream(self) -> None:
        size = self._transaction.backend.size()
        self._table.update(replace(self._table.layout, size=size, blocks_end=size))

    def _digest(self, number: int, size: int, interrupted: Callable[[], bool]) -> bytes | None:
        """MD5 of the content, or None when it was interrupted.  Nothing moves or changes meanwhile."""
        start, backend = self._room.start(number), self._transaction.backend
        with self._progress.over("checksum", size, number) as step, self._scheduler.waiting():
            return digest_of(lambda place, length: backend.read_at(start + place, length), size, interrupted, step)
