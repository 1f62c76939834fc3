"""Windows: the range of the ASDF file with the whole content of a block, for reads and writes without further checks.

A window is valid only until something about the block or the file changes.
"""

from __future__ import annotations

from asdffs.document.blocks.table import BlockTable
from asdffs.document.blocks.transaction import Transaction
from asdffs.document.changes import CONTENTS, Changes, content, stored
from asdffs.scheduling import RankedLock
from asdffs.storage.backend import Extent


class Window:
    """The content of block ``number``: ``size`` bytes from ``start`` on of the open file ``fd``.

    It is valid as long as the epoch of the table stays the same and the lock ``moving`` is free.  ``begun``: the
    block was written since the file was last finished, so its header has no checksum.
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
        """``lock``: the lock of the block; ``change``: the lock for changes of the file, moves of blocks included."""
        self._table = table
        self._epoch = table.epoch
        self._subjects = (content(number), stored(number), CONTENTS)
        self._lock = lock
        self._change = change
        self.fd = place.fd
        self.start = place.offset
        self.size = size
        self.moving = moving
        self.begun = begun

    def write(self, offset: int, payload: bytes | memoryview, transaction: Transaction, changes: Changes) -> int:
        """Write ``payload`` at ``offset`` of the content through ``transaction``; return the stamp of the change.

        Return 0 and write nothing if the slow path must be taken: the block was not written yet (its header may have
        a checksum), the window is outdated, the block would grow, or the block or the file is being changed.  Raises
        as ``Transaction.write_content``.
        """
        if not self.begun or self._table.epoch != self._epoch or offset + len(payload) > self.size:
            return 0
        if self._lock.taken or self._change.taken:
            return 0
        try:
            transaction.write_content(self.start + offset, payload)
        finally:  # a failed write may have written a part
            changes.note(*self._subjects)
        return changes.last
