"""The table of the blocks of a file, with their headers.  A header is read when it is first needed.

Opening a file with a valid block index reads only two headers.  The table checks each other entry of the index at the
first access of the block, and also that the block does not reach into the next one.  If the index is wrong, the table
finds the blocks without it, by going from each block to the next (section Block index).  If that finds fewer blocks,
one of them is damaged; then the table keeps the index, which still leads to the others.

The caller holds the main lock.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Final

from asdffs.document.blocks.locks import await_free
from asdffs.document.blocks.transaction import Transaction
from asdffs.document.changes import BLOCKS, Changes, stored
from asdffs.errors import DamagedBlockError, NoRoomError, Remedy
from asdffs.format.block_header import BlockHeader, new_header
from asdffs.format.block_scan import drive, scan_block_header, scan_blocks
from asdffs.format.layout import Layout, Span
from asdffs.scheduling import CHUNK

logger = logging.getLogger(__name__)

_FOREIGN_TAIL: Final = "the data after the last block is neither a valid block nor an index, and would be lost"
_FOREIGN_GAP: Final = "the bytes between this block and the next belong to no block, and would be lost"
_GAP: Final = "unused bytes follow this block, so blocks cannot be moved"
_CUT_OFF: Final = (
    "the file ends inside this block: it was cut, so nothing is moved or added; get the whole file, for example by "
    "downloading it again"
)


class BlockTable:
    """The headers and positions of the blocks in ``layout`` of the file that ``transaction`` changes.

    ``layout`` may change when the index turns out to be wrong, but not while ``pinned`` is set: pending changes
    identify blocks by number.

    ``epoch`` increases whenever the position or size of a block may have changed, also after each write by
    ``BlockStore``.  Code that changes these before it writes a header calls ``touch``.
    """

    def __init__(self, transaction: Transaction, layout: Layout, changes: Changes) -> None:
        self._transaction = transaction
        self._changes = changes
        self.layout = layout
        self.pinned = False
        self.moved = False
        self.epoch = 0
        self._index_is_better = False
        self._headers: dict[int, BlockHeader] = {}

    def __len__(self) -> int:
        return len(self.layout.offsets)

    def header(self, number: int) -> BlockHeader:
        """Return the header of block ``number``.  Wait while blocks move, if it must be read from the file.

        Raises ``DamagedBlockError``, also if the file has no such block (any more).
        """
        known = self._headers.get(number)
        if known is not None:
            return known
        if not 0 <= number < len(self):
            raise DamagedBlockError(f"the file has {len(self)} blocks", block=number)
        await_free(self._transaction.moving)
        try:
            header = self._read(number)
        except DamagedBlockError as err:
            if self._walk_instead(err):
                return self.header(number)
            err.block = number
            raise
        self._headers[number] = header
        return header

    def offset(self, number: int) -> int:
        """Return the offset of the magic of the block, in bytes from the start of the file."""
        return self.layout.offsets[number]

    def start(self, number: int, header: BlockHeader) -> int:
        """Return the offset of the content of the block with this header."""
        return self.layout.offsets[number] + header.full_size

    def content(self, number: int) -> Span:
        """Return the span of the used bytes of the block in the file, cut at the end of the file."""
        header, size = self.header(number), self.layout.size
        start = min(self.start(number, header), size)
        return Span(start, size if header.streamed else min(start + header.used_size, size))

    def check_all(self) -> None:
        """Check every entry of the index, before the first change of the layout.

        Raises ``DamagedBlockError``, or ``NoRoomError`` if bytes lie between blocks: only the index leads to the
        blocks behind them, and a change of the layout removes the index.  A block with a contradictory header may
        move if its end is known.  A block that is cut off by the end of the file may not: the missing part is
        unknown.
        """
        for number in range(len(self)):
            end = self._sure_end(number)
            if number + 1 < len(self):
                self._sure_end(number + 1)  # may find that the index is wrong, and replace the layout
            if self.layout.index is not None and number + 1 < len(self) and end != self.offset(number + 1):
                raise NoRoomError(_GAP, block=number, remedy=Remedy.CLOSE_GAP)
        cut = self.cut_block
        if cut is not None:
            raise NoRoomError(_CUT_OFF, block=cut, offset=self.layout.size)

    @property
    def cut_block(self) -> int | None:
        """The number of the block inside whose content the file ends; None if the file is not truncated."""
        last = len(self) - 1
        with contextlib.suppress(DamagedBlockError):
            header = self.header(last) if self.layout.truncated else None
            if header is not None and self.offset(last) + header.full_size + header.used_size > self.layout.size:
                return last
        return None

    @property
    def truncation(self) -> str:
        """A sentence about a truncated file, for users; empty if it is not truncated."""
        cut = self.cut_block
        return "" if cut is None else f"the file is truncated: it ends at {self.layout.size}, inside block {cut}"

    def _sure_end(self, number: int) -> int:
        """Return the end of the block as an offset in the file.  Raises ``DamagedBlockError`` if it is unknown."""
        try:
            return self._end(number, self.header(number))
        except DamagedBlockError as err:
            if err.end is None:
                raise
            return err.end

    def verify_index(self) -> None:
        """Read all headers now, so that the numbers of blocks do not change later.  Damaged blocks raise nothing."""
        for number in range(len(self)):
            with contextlib.suppress(DamagedBlockError):
                self.header(number)

    def check_whole(self, *, force: bool = False) -> None:
        """Check that every header can be read and all bytes belong to a block.

        NULs between blocks, and an index behind the last one, are allowed.  ``force``: allow other bytes as well;
        they will be lost.  Raises ``DamagedBlockError``.
        """
        for number in range(len(self)):
            self.header(number)
        if force:
            return
        for number in range(len(self) - 1):
            self._check_gap(self._end(number, self.header(number)), self.offset(number + 1), number)
        if not self.layout.removable:
            raise DamagedBlockError(_FOREIGN_TAIL, offset=self.layout.blocks_end, remedy=Remedy.DROP_TAIL)

    def _check_gap(self, start: int, stop: int, number: int) -> None:
        for offset in range(start, stop, CHUNK):
            if self._transaction.backend.read_at(offset, min(CHUNK, stop - offset)).strip(b"\0"):
                raise DamagedBlockError(_FOREIGN_GAP, block=number, offset=start, remedy=Remedy.FORCE_DROP)

    def empty_header(self) -> BlockHeader:
        """Return the header of a new empty block, in the form of the last block.  Raises ``DamagedBlockError``."""
        return self.header(len(self) - 1).emptied() if len(self) else new_header(self.layout.rules)

    def update(self, layout: Layout) -> None:
        """Adopt the layout after a change of our own; the headers stay valid.

        Set ``moved`` if the end of the blocks or of the file changed.  It stays set until the index is right again.
        """
        self.moved = self.moved or (layout.blocks_end, layout.size) != (self.layout.blocks_end, self.layout.size)
        self.layout = layout
        self.touch()

    def touch(self) -> None:
        """Increase ``epoch``."""
        self.epoch += 1

    def put(self, number: int, header: BlockHeader) -> None:
        """Note that the header of block ``number`` was written."""
        self._headers[number] = header
        self.touch()
        self._changes.note(stored(number))

    def drop(self, number: int) -> None:
        """Note that block ``number`` was removed."""
        self._headers.pop(number, None)
        self.touch()
        self._changes.note_content(number)
        self._changes.note(BLOCKS)

    def _end(self, number: int, header: BlockHeader) -> int:
        return header.end(self.offset(number))

    def _read(self, number: int) -> BlockHeader:
        """Read a header.  Raises ``DamagedBlockError``, also if the block reaches into the next one."""
        start = self.offset(number)
        header = drive(scan_block_header(start, self.layout.rules), self._transaction.backend.read_at)
        if header.streamed:
            return header
        if number + 1 == len(self):
            room = max(header.used_size, self.layout.blocks_end - start - header.full_size)
            return header._replace(allocated_size=min(header.allocated_size, room))  # no more than the scan gave it
        end, following = self._end(number, header), self.offset(number + 1)
        if end > following:
            raise DamagedBlockError(f"it ends at {end}, but the next begins at {following}", offset=start)
        if end < following and self.layout.index is not None:
            self._check_followed(end)
        return header

    def _check_followed(self, end: int) -> None:
        """Raise ``DamagedBlockError`` if the index leaves out a block that begins at ``end``."""
        if self._transaction.backend.read_at(end, 4) in self.layout.rules.magics:
            raise DamagedBlockError("the index leaves out the block that follows this one", offset=end)

    def _walk_instead(self, reason: DamagedBlockError) -> bool:
        """Replace a wrong index by the blocks found without it; return whether this was done.

        It is not done if fewer blocks are found, or while blocks are pinned.
        """
        if self.layout.index is None or self._index_is_better or self.pinned:
            return False
        walk = drive(
            scan_blocks(self.layout.size, self.layout.offsets[0], self.layout.rules),
            self._transaction.backend.read_at,
        )
        same = walk.offsets == tuple(self.layout.offsets)
        if same or walk.trouble is not None or len(walk.offsets) < len(self):
            self._index_is_better = True
            return False
        logger.warning("the block index is wrong (%s); the blocks were found without it", reason)
        self.touch()
        self.layout = self.layout._replace(
            offsets=walk.offsets, blocks_end=walk.end, index=None, removable=walk.removable
        )
        self._headers = {number: header for number, header in enumerate(walk.headers) if header is not None}
        return True
