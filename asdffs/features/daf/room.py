"""Allocates blocks for new files of a mounted store, and reuses blocks that nothing refers to any more.

A block is *dropped* when a commit of the store removed it from the tree.  It is *free* after it was emptied, and is
then used for new data that fits.  A block that somebody removed by editing the tree is not dropped, because such an
edit may be undone.  The caller holds the main lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from asdffs.document.block import Block
from asdffs.document.document import Document
from asdffs.errors import AsdffsError, DamagedBlockError
from asdffs.features.daf.files import PIECE, Content
from asdffs.storage.backend import read_bytes

#: A free block may have room for twice the new data and this many bytes more; a larger one is not used for it.
_SPARE: Final = 1 << 16


class New(NamedTuple):
    """Data to be put into a block; ``growing``: its file is often rewritten longer, so it gets spare room."""

    content: Content
    growing: bool

    @property
    def room(self) -> int:
        """Bytes to allocate for it."""
        return self.content.size + (self.content.size // 4 if self.growing else 0)


class BlockRoom:
    """Allocates blocks of ``document``.

    ``held`` in its methods: numbers of blocks that the tree does not refer to and open files still use.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self._free: set[int] | None = None
        self._dropped: set[int] = set()

    def referenced(self) -> set[int]:
        """Return the numbers of the blocks that the tree refers to.  Raises ``OSError``."""
        count = len(self._document.blocks)
        arrays = (branch.array for branch in self._document.outlines.outline().arrays)
        return {number for array in arrays if array is not None and (number := array.block_in(count)) is not None}

    def write(self, new: Sequence[New], held: set[int]) -> list[int]:
        """Write the data into free and new blocks, and return their numbers in the same order.

        Free blocks are durable on return; new ones become durable with the next commit.  Raises ``NoRoomError`` and
        ``OSError``, as ``Blocks.append_sized``; the blocks that it took are dropped then.
        """
        chosen: list[Block | None] = [self._fitting(one, held) for one in new]
        sizes = [(one.content.size, one.room) for one, block in zip(new, chosen, strict=True) if block is None]
        taken = {block.number for block in chosen if block is not None}
        try:
            added = iter(self._document.blocks.append_sized(sizes))
            blocks = [next(added) if block is None else block for block in chosen]
            taken |= {block.number for block in blocks}
            for one, block, old in zip(new, blocks, chosen, strict=True):
                _write(block, one.content)
                if old is not None:
                    block.flush(durable=True)
        except (AsdffsError, OSError):
            self._dropped |= taken
            raise
        return [block.number for block in blocks]

    def drop(self, numbers: set[int]) -> None:
        """Mark blocks that the store no longer uses as dropped."""
        self._dropped |= numbers

    def tidy(self, held: set[int]) -> None:
        """Empty dropped blocks, and remove free blocks at the end of the file.  Raises ``AsdffsError``, ``OSError``.

        Does nothing if a ``source`` in the tree counts blocks from the end, because removing one would change it.
        """
        document, blocks = self._document, self._document.blocks
        outline = document.outlines.outline()
        sources = [branch.array.source for branch in outline.arrays if branch.array is not None]
        if outline.root is None or any(isinstance(source, int) and source < 0 for source in sources):
            return
        kept = self.referenced() | held
        self._dropped -= self.referenced()
        ready = [number for number in sorted(self._dropped - kept) if number < len(blocks)]
        plain = [number for number in ready if not blocks[number].header.streamed]
        if plain:
            blocks.clear(plain)
        self._dropped.difference_update(ready)
        free = self._found_free() | set(plain)
        while len(blocks) and len(blocks) - 1 in free - kept and not blocks[len(blocks) - 1].size:
            blocks[len(blocks) - 1].remove()
        self._free = {number for number in free if number < len(blocks)}

    def _found_free(self) -> set[int]:
        """Return the free blocks; initially these are unreferenced empty blocks that have allocated room."""
        if self._free is None:
            self._free = {number for number, block in self._empty() if block.header.allocated_size}
            self._free -= self.referenced()
        return self._free

    def _empty(self) -> Iterator[tuple[int, Block]]:
        for number, block in enumerate(self._document.blocks):
            try:
                if not block.header.streamed and not block.size:
                    yield number, block
            except DamagedBlockError:
                continue

    def _fitting(self, one: New, held: set[int]) -> Block | None:
        """Take the smallest free block with enough room, and not much more; None if there is none."""
        blocks = self._document.blocks
        free = self._found_free() - held - self.referenced()
        empty = [blocks[number] for number in free if number < len(blocks) and not blocks[number].size]
        size = one.content.size
        fitting = [block for block in empty if size <= block.header.allocated_size <= 2 * size + _SPARE]
        block = min(fitting, key=lambda block: block.header.allocated_size, default=None)
        if block is not None:
            self._found_free().discard(block.number)
        return block


def _write(block: Block, content: Content) -> None:
    for offset in range(0, content.size, PIECE):
        block.write_at(offset, read_bytes(content.read(offset, PIECE)))
