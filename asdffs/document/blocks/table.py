"""The blocks of a file: their headers, read when touched.

Opening a file with a valid index reads two headers; every other entry of the index, and
that the block does not reach into the next, is checked here when it is first asked for.  When
the index lies, the blocks are found by skipping along instead (section Block index), unless
that finds fewer: then a block is damaged, and the index still leads to the others.
One thread.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from asdffs.document.changes import BLOCKS, Changes, stored
from asdffs.errors import DamagedBlockError, NoRoomError, Remedy
from asdffs.format.block_header import BlockHeader, new_header
from asdffs.format.layout import Layout
from asdffs.format.scanner import drive, scan_block_header, scan_blocks
from asdffs.format.span import Span
from asdffs.scheduling import CHUNK
from asdffs.storage.backend import Backend

logger = logging.getLogger(__name__)

_FOREIGN_TAIL: Final = "what follows the last block is no sound block and no index, and would be lost"
_FOREIGN_GAP: Final = "bytes of no block lie between this one and the next, and would be lost"
_GAP: Final = "unused bytes follow this block, so blocks cannot be moved"
_CUT_OFF: Final = (
    "the file ends inside this block: it was cut, so nothing is moved or added; get the whole file, for example by "
    "downloading it again"
)


class BlockTable:
    """Headers of the blocks of ``layout`` in the file that ``store`` tells.

    ``layout`` may change when the index lies, but not while blocks are ``pinned``: changes that
    are pending know them by number.  ``epoch``: another number after anything that may tell where a block lies, or
    how long it is; ``touch`` is called by who changes that before a header says so.
    """

    def __init__(self, backend: Callable[[], Backend], layout: Layout, changes: Changes) -> None:
        self._backend = backend
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
        """The header of block ``number``.

        Raises ``DamagedBlockError``, also when the file has no such block (any more).
        """
        known = self._headers.get(number)
        if known is not None:
            return known
        if not 0 <= number < len(self):
            raise DamagedBlockError(f"the file has {len(self)} blocks", block=number)
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
        """Offset of the block's magic, in bytes from the start of the file."""
        return self.layout.offsets[number]

    def content(self, number: int) -> Span:
        """The used bytes of the block in the file, as far as the file has them."""
        header = self.header(number)
        start = min(self.offset(number) + header.full_size, self.layout.size)
        stop = self.layout.size if header.streamed else start + header.used_size
        return Span(start, min(stop, self.layout.size))

    def check_all(self) -> None:
        """Check every entry of the index: before the first change of the layout.

        Raises ``DamagedBlockError``, or ``NoRoomError`` when bytes lie between blocks: only the
        index leads to what follows them, and a change of layout removes the index.  A block that contradicts itself
        may move if it is clear where it ends; one that the file cuts off may not: nobody knows what is missing.
        """
        for number in range(len(self)):
            end = self._sure_end(number)
            if number + 1 < len(self):
                self._sure_end(number + 1)  # may find that the index is wrong, and the blocks without it
            if self.layout.index is not None and number + 1 < len(self) and end != self.offset(number + 1):
                raise NoRoomError(_GAP, block=number, remedy=Remedy.CLOSE_GAP)
        self.check_not_cut()

    def check_not_cut(self) -> None:
        """Raise ``NoRoomError`` when the content of the last block goes on behind the end of the file."""
        last = len(self) - 1
        with contextlib.suppress(DamagedBlockError):
            header = self.header(last) if self.layout.truncated else None
            if header is not None and self.offset(last) + header.full_size + header.used_size > self.layout.size:
                raise NoRoomError(_CUT_OFF, block=last, offset=self.layout.size)

    def _sure_end(self, number: int) -> int:
        """Where the block ends.  Raises ``DamagedBlockError`` when nothing says."""
        try:
            return self._end(number, self.header(number))
        except DamagedBlockError as err:
            if err.end is None:
                raise
            return err.end

    def verify_index(self) -> None:
        """Look at each header that can be read: an index that lies is found out."""
        for number in range(len(self)):
            with contextlib.suppress(DamagedBlockError):
                self.header(number)

    def check_whole(self, *, force: bool = False) -> None:
        """Check that the blocks are all there is: every header can be read, and only an index follows the last.

        NULs between blocks hold nothing.  ``force``: bytes of no block may be lost.  Raises ``DamagedBlockError``.
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
            if self._backend().read_at(offset, min(CHUNK, stop - offset)).strip(b"\0"):
                raise DamagedBlockError(_FOREIGN_GAP, block=number, offset=start, remedy=Remedy.FORCE_DROP)

    def empty_header(self) -> BlockHeader:
        """The header of a block that is added: of the same form as the last one.  Raises ``DamagedBlockError``."""
        return self.header(len(self) - 1).emptied() if len(self) else new_header(self.layout.rules)

    def update(self, layout: Layout) -> None:
        """The layout changed by a change of ours: the headers stay what they are.

        ``moved`` remembers that the end of the blocks or of the file did, until the index is right again.
        """
        self.moved = self.moved or (layout.blocks_end, layout.size) != (self.layout.blocks_end, self.layout.size)
        self.layout = layout
        self.touch()

    def touch(self) -> None:
        """See ``epoch``."""
        self.epoch += 1

    def put(self, number: int, header: BlockHeader) -> None:
        """The header of block ``number`` was written."""
        self._headers[number] = header
        self.touch()
        self._changes.note(stored(number))

    def drop(self, number: int) -> None:
        """Block ``number`` was removed."""
        self._headers.pop(number, None)
        self.touch()
        self._changes.note_content(number)
        self._changes.note(BLOCKS)

    def _end(self, number: int, header: BlockHeader) -> int:
        return self.offset(number) + header.full_size + header.allocated_size

    def _read(self, number: int) -> BlockHeader:
        """Read a header; a block must not reach into the next one."""
        header = drive(scan_block_header(self.offset(number), self.layout.rules), self._backend().read_at)
        last = header.streamed or number + 1 == len(self)
        if not last and self._end(number, header) > self.offset(number + 1):
            raise DamagedBlockError(
                f"it ends at {self._end(number, header)}, and the next begins at {self.offset(number + 1)}",
                offset=self.offset(number),
            )
        if not last and self.layout.index is not None:
            self._check_followed(number, self._end(number, header))
        return header

    def _check_followed(self, number: int, end: int) -> None:
        """Raise ``DamagedBlockError`` when a block follows this one that the index leaves out."""
        if end < self.offset(number + 1) and self._backend().read_at(end, 4) in self.layout.rules.magics:
            raise DamagedBlockError("the index leaves out the block that follows this one", offset=end)

    def _walk_instead(self, reason: DamagedBlockError) -> bool:
        """An entry of the index is wrong: use what skipping along finds, if it is not less."""
        if self.layout.index is None or self._index_is_better or self.pinned:
            return False
        walk = drive(
            scan_blocks(self.layout.size, self.layout.offsets[0], self.layout.rules), self._backend().read_at
        )
        same = walk.offsets == tuple(self.layout.offsets)
        if same or walk.trouble is not None or len(walk.offsets) < len(self):
            self._index_is_better = True
            return False
        logger.warning("the block index is wrong (%s); the blocks were found by skipping along", reason)
        self.touch()
        self.layout = replace(
            self.layout, offsets=walk.offsets, blocks_end=walk.end, index=None, removable=walk.removable
        )
        self._headers = {number: header for number, header in enumerate(walk.headers) if header is not None}
        return True
