"""Windows: where all of a block can be read and written, as long as nothing about it changes."""

from __future__ import annotations

from asdffs.document.blocks.table import BlockTable
from asdffs.document.blocks.transaction import Transaction
from asdffs.document.changes import Changes, content, stored
from asdffs.scheduling import RankedLock
from asdffs.storage.backend import Extent


class Window:
    """``size`` bytes from ``start`` on of the open file ``fd`` are the content of block ``number``.

    It holds as long as the table has the same epoch and nothing is ``moving``.  ``begun``: the block was written
    since the file was finished, so its header has no checksum.
    """

    __slots__ = ("_change", "_epoch", "_lock", "_subjects", "_table", "begun", "fd", "moving", "size", "start")

    def __init__(
        self,
        table: BlockTable,
        number: int,
        place: Extent,
        size: int,
        *,
        moving: RankedLock,
        lock: RankedLock,
        change: RankedLock,
        begun: bool,
    ) -> None:
        """``lock``: of the block; ``change``: held by whoever changes the file, and so by whoever moves blocks."""
        self._table = table
        self._epoch = table.epoch
        self._subjects = (content(number), stored(number))
        self._lock = lock
        self._change = change
        self.fd = place.fd
        self.start = place.offset
        self.size = size
        self.moving = moving
        self.begun = begun

    def write(self, offset: int, payload: bytes | memoryview, transaction: Transaction, changes: Changes) -> int:
        """Write content through ``transaction``; return the stamp of the change.

        0, and nothing is done, where the block must be asked: it was not written yet, it grows, it is being changed.
        Raises as ``Transaction.write_content``.
        """
        if not self.begun or self._table.epoch != self._epoch or offset + len(payload) > self.size:
            return 0
        if self._lock.taken or self._change.taken:
            return 0
        try:
            transaction.write_content(self.start + offset, payload)
        finally:  # a write that failed may have written something
            changes.note(*self._subjects)
        return changes.last
