"""Changes of blocks in place: content, size within the allocation, growth of the last block.

Rules (docs/semantics.md, Blocks):

1. Before the first write of content the checksum is set to zero, durably.  So a crash leaves a block without a
   checksum, never one with a wrong one.
2. A size changes in memory first.  ``flush`` (at close, fsync and finish) writes it into the header, after the
   content is durable.
3. Room is allocated by a journalled change of the header before content is written there (``allocation``).
4. ``finish`` gives back excess room of the last block, and writes the checksums.
5. Encoded content overwrites the whole block in one step (``put_encoded``), or some pieces of it (``put_slots``).

Only one thread at a time changes blocks.  It holds the main lock and the lock ``change``; the short way of a write
(``reading:Window.write``) keeps the main lock, and goes on only while ``change`` is free.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from asdffs.document.blocks.codecs import digest_of
from asdffs.document.blocks.table import BlockTable
from asdffs.document.blocks.transaction import Transaction
from asdffs.document.report import Progress
from asdffs.errors import DamagedBlockError, ReadOnlyError
from asdffs.format.block_header import BlockHeader
from asdffs.format.constants import NO_CHECKSUM, STREAMED
from asdffs.format.layout import Padding
from asdffs.scheduling import CHUNK, Scheduler

if TYPE_CHECKING:  # who only reads allocates nothing
    from asdffs.document.blocks.allocation import Allocation, Encoded, NewSlot

logger = logging.getLogger(__name__)


class _Edit:
    """The pending change of one block.  All sizes are in bytes of content.

    ``used``: the size that readers see.  ``fresh``: from this offset on the allocation was reserved by us and never
    written, so it contains zeros.  ``kept``: the allocation that ``finish`` returns to.  ``checksum``: whether the
    block had a checksum and gets one again.  ``streamed``: the block ends with the file, and has no allocation.
    """

    def __init__(self, used: int, fresh: int, kept: int, *, checksum: bool, streamed: bool = False) -> None:
        self.used = used
        self.fresh = fresh
        self.kept = kept
        self.checksum = checksum
        self.streamed = streamed


class BlockEditor:
    """The editor of the blocks of one file.  ``checksums``: whether changed blocks get a checksum again."""

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
        self._policy = policy
        self._progress = progress
        self._checksums = checksums
        self._edits: dict[int, _Edit] = {}
        self._appended: set[int] = set()

    @functools.cached_property
    def _room(self) -> Allocation:
        from asdffs.document.blocks.allocation import Allocation

        return Allocation(self._transaction, self._table, self._policy)

    @property
    def written(self) -> tuple[int, ...]:
        """Numbers of the blocks that ``finish`` has to finish, in ascending order."""
        return tuple(sorted(self._edits))

    def has_begun(self, number: int) -> bool:
        """Return whether a change of the block is pending and its header has no checksum.

        Only then may a window write without further steps.  After a failed finish it may have one again.
        """
        return number in self._edits and self._table.header(number).checksum == NO_CHECKSUM

    def used(self, number: int) -> int:
        """Return the content size of an uncompressed block in bytes, pending changes included."""
        edit = self._edits.get(number)
        if edit is not None:
            return edit.used
        header = self._table.header(number)
        return len(self._table.content(number)) if header.flags & STREAMED else header.used_size

    def check_writable(self, number: int, header: BlockHeader) -> None:
        """Raise ``ReadOnlyError`` or ``DamagedBlockError`` if the block with this header cannot be written."""
        self._check_file_writable(number)
        end = self._table.start(number, header) + header.used_size
        if end > self._table.layout.size and not header.streamed:
            raise DamagedBlockError("the file ends inside this block; it cannot be written", block=number)

    def write(self, number: int, offset: int, payload: bytes | memoryview) -> None:
        """Write ``payload`` at ``offset`` of the content; a gap before it reads as zeros.

        The caller has checked that the block may be written.  Raises ``NoRoomError``, ``DamagedBlockError`` or as
        ``Transaction``.
        """
        if not payload:
            return
        edit, header, start = self._begin(number)
        end = offset + len(payload)
        if not edit.streamed:
            self._make_room(number, header, start, end)
            if offset > edit.used:
                self._fill(start, edit.used, min(offset, edit.fresh))
        try:
            self._transaction.write_content(start + offset, payload)
        except OSError:
            if edit.streamed:  # a part may be in the file, which belongs to the block
                self._note_stream()
                edit.used = len(self._table.content(number))
            edit.fresh = max(edit.fresh, end)
            raise
        edit.used = max(edit.used, end)
        edit.fresh = max(edit.fresh, end)
        if edit.streamed:
            self._note_stream()

    def truncate(self, number: int, size: int) -> None:
        """Set the content size in bytes; added bytes read as zeros.  Raises as ``write``."""
        if size == self.used(number):
            return
        edit, header, start = self._begin(number)
        if edit.streamed:
            self._transaction.truncate_stream(start + size)
            self._note_stream()
        elif size > edit.used:
            self._make_room(number, header, start, size)
            self._fill(start, edit.used, min(size, edit.fresh))
        edit.used = size

    def flush(self, number: int, *, durable: bool) -> None:
        """Write the size of block ``number`` into its header if it changed.

        With ``durable``, make the content durable as well.  Raises as ``Transaction``.
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
        """Make appended blocks durable, before a tree may refer to them.  Raises as ``Transaction``."""
        resized = [n for n in sorted(self._appended) if self.used(n) != self._table.header(n).used_size]
        if self._appended and not resized:
            self._transaction.check_unchanged()
            self._transaction.sync()
        for number in resized:
            self.flush(number, durable=True)
        self._appended.clear()

    def reserve(self, number: int, size: int) -> None:
        """Allocate ``size`` bytes, also on the disk; ``finish`` does not give them back.

        Raises ``ReadOnlyError``, ``DamagedBlockError``, ``OSError`` or as ``Allocation.reserve``.
        """
        self.check_writable(number, self._table.header(number))
        self.flush(number, durable=False)
        before = self._table.header(number).allocated_size
        self._room.reserve(number, size)
        try:
            if size > before:
                self._transaction.allocate(
                    self._table.start(number, self._table.header(number)) + before, size - before
                )
        except OSError:  # blocks that were moved for it are not moved back
            self.return_room(number, before)
            raise
        if number in self._edits:
            edit = self._edits[number]
            edit.kept, edit.fresh = size, min(edit.fresh, size)

    def has_checksum(self, number: int) -> bool:
        """Return whether the block has a checksum, or gets one when the file is finished."""
        edit = self._edits.get(number)
        return self._table.header(number).verifiable or (edit is not None and edit.checksum)

    def put_encoded(self, number: int, encoded: Encoded) -> int:
        """Overwrite the block with encoded content, durably.

        Return the allocation in bytes, for ``return_room``.  Raises as ``Allocation.put_encoded``.
        """
        edit, had = self._edits.get(number), self.has_checksum(number)
        checksum = encoded.digest if had and self._checksums else NO_CHECKSUM
        with self._progress.over("storing", encoded.payload.size, number) as step:
            self._room.put_encoded(number, encoded, checksum, step)
        self._forget(number)
        return edit.kept if edit is not None else self._table.header(number).allocated_size

    def put_slots(self, number: int, slots: Sequence[NewSlot]) -> None:
        """Overwrite parts of a compressed block, durably; ``finish`` writes its checksum.

        ``slots`` and errors: see ``Allocation.put_slots``.
        """
        self.check_writable(number, self._table.header(number))
        had = self.has_checksum(number)
        self._room.put_slots(number, slots)
        header = self._table.header(number)
        allocated = header.allocated_size
        self._edits[number] = _Edit(header.used_size, allocated, allocated, checksum=had and self._checksums)
        self._table.touch()

    def return_room(self, number: int, kept: int) -> None:
        """Free unused allocation of the last block beyond ``kept`` bytes.  Raises as ``Transaction``.

        Does nothing for other blocks.
        """
        header = self._table.header(number)
        allocated = max(header.used_size, kept)
        if self._room.is_last(number) and allocated < header.allocated_size:
            self._room.put(number, header._replace(allocated_size=allocated))

    def append(self, padding_byte: bytes, sizes: Sequence[tuple[int, int]]) -> int:
        """Append blocks of zeros and return the number of the first.  See ``Allocation.append``."""
        self._check_file_writable()
        last = self._edits.get(len(self._table) - 1)
        if last is not None:
            self.flush(len(self._table) - 1, durable=False)
            self.return_room(len(self._table) - 1, last.kept)
            last.fresh = min(last.fresh, self._table.header(len(self._table) - 1).allocated_size)
        number = self._room.append(padding_byte, sizes)
        summed = self._table.header(number).form.has_md5
        for place, (used, allocated) in enumerate(sizes, number):
            self._edits[place] = _Edit(used, used, allocated, checksum=self._checksums and summed)
            self._appended.add(place)
        self._table.pinned = True
        return number

    def clear(self, numbers: Sequence[int]) -> None:
        """Empty blocks to which the tree no longer refers; their allocations stay.  Raises as ``Transaction``."""
        self._check_file_writable()
        headers = {}
        for number in numbers:
            header = self._table.header(number)
            headers[number] = header.emptied()._replace(allocated_size=header.allocated_size, extra=header.extra)
        self._room.put_all(headers)
        for number in numbers:
            self._forget(number)

    def remove_last(self) -> None:
        """Remove the last block.  Raises ``ReadOnlyError`` or as ``Allocation.remove_last``."""
        self._check_file_writable()
        number = len(self._table) - 1
        self._room.remove_last()
        self._forget(number)

    def _forget(self, number: int) -> None:
        """Drop the pending change of the block.

        The new epoch of the table makes open windows invalid, so the next write begins a new change.
        """
        self._edits.pop(number, None)
        self._appended.discard(number)
        self._table.touch()

    def finish(self, *, interrupted: Callable[[], bool] = lambda: False) -> None:
        """Finish all changed blocks: write sizes and checksums, and give back excess room of the last block.

        Blocks whose checksum is not computed when ``interrupted()`` returns True stay pending.  Raises as
        ``Transaction``, ``OSError``.
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
        self._table.touch()  # makes open windows invalid, so the next write begins a new change
        self._appended.clear()

    def _finished(self, number: int, edit: _Edit, checksum: bytes) -> BlockHeader:
        """Return the header of a finished block."""
        header = self._table.header(number)
        kept = min(edit.kept, header.allocated_size)  # an allocation that the file never had was cut
        allocated = max(edit.used, kept) if self._room.is_last(number) else header.allocated_size
        edit.fresh = min(edit.fresh, allocated)
        used = header if header.compressed else header.with_used(edit.used)
        return used._replace(allocated_size=allocated, checksum=checksum)

    def _put_finished(self, headers: dict[int, BlockHeader]) -> None:
        """Write all headers in one change of the file, except for the last block, which may give room back."""
        last = len(self._table) - 1
        before = {number: header for number, header in headers.items() if number != last}
        if before:
            self._room.put_all(before)
        if last in headers:
            self._room.put(last, headers[last])

    def _check_file_writable(self, number: int | None = None) -> None:
        if not self._transaction.mode.writable:
            raise ReadOnlyError("the file is open only for reading", block=number)
        if self._transaction.embedded is not None:
            self._transaction.check_alone()

    def _begin(self, number: int) -> tuple[_Edit, BlockHeader, int]:
        """Return the pending change of a block that is about to be written, its header, and where its content is.

        Set its checksum in the file to zero.
        """
        header = self._table.header(number)
        edit = self._edits.get(number)
        if edit is None:
            allocated, streamed = header.allocated_size, header.streamed
            edit = _Edit(self.used(number), allocated, allocated, checksum=False, streamed=streamed)
        if header.checksum != NO_CHECKSUM and not edit.streamed:
            had = header.verifiable
            self._room.put(number, header.without_checksum())
            edit.checksum, header = self._checksums and had, self._table.header(number)
        self._edits[number] = edit
        self._table.pinned = True  # from here on, blocks keep their numbers, and this one its place
        return edit, header, self._table.start(number, header)

    def _make_room(self, number: int, header: BlockHeader, start: int, needed: int) -> None:
        """Have an allocation of at least ``needed`` bytes at ``start`` of the file.  Raises as ``Allocation``."""
        if needed > header.allocated_size or start + needed > self._table.layout.size:
            self._room.make_room(number, needed)

    def _fill(self, begin: int, start: int, stop: int) -> None:
        """Write zeros to ``[start, stop)`` of the content that begins at ``begin`` of the file.

        Fresh allocation already reads as zeros, and so does a gap at the end of a streamed block.
        """
        for place in range(start, stop, CHUNK):
            self._transaction.write_content(begin + place, bytes(min(CHUNK, stop - place)))

    def _note_stream(self) -> None:
        size = self._transaction.backend.size()
        self._table.update(self._table.layout._replace(size=size, blocks_end=size))

    def _digest(self, number: int, size: int, interrupted: Callable[[], bool]) -> bytes | None:
        """Return the MD5 of the content; None if it was interrupted.

        The caller makes sure that no blocks move or change meanwhile.
        """
        start, backend = self._table.start(number, self._table.header(number)), self._transaction.backend
        with self._progress.over("checksum", size, number) as step, self._scheduler.waiting():
            return digest_of(lambda place, length: backend.read_at(start + place, length), size, interrupted, step)
