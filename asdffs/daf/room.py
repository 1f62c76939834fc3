"""The blocks of a mounted store: where new bytes go, and what becomes of blocks that nothing refers to any more.

A block is *dropped* when the tree has it no more, and *free* when it was emptied after that: then it is used again
by what fits it.  Only blocks that a commit of the store took out of the tree are dropped: who edits the tree may undo
that.
The caller holds the main lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from asdffs.daf.files import PIECE, Content
from asdffs.document.block import Block
from asdffs.document.document import Document
from asdffs.errors import AsdffsError, DamagedBlockError
from asdffs.storage.backend import read_bytes

#: Bytes that a free block may have to spare, besides as much as is stored into it.
_SPARE: Final = 1 << 16


class New(NamedTuple):
    """Bytes that are to have a block; ``growing``: such files are written anew and longer, again and again."""

    content: Content
    growing: bool

    @property
    def room(self) -> int:
        """What is allocated for it, in bytes."""
        return self.content.size + (self.content.size // 4 if self.growing else 0)


class BlockRoom:
    """The blocks of ``document``.  What is ``held``: blocks that open files have, though the tree has not."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._free: set[int] | None = None
        self._dropped: set[int] = set()

    def referenced(self) -> set[int]:
        """The blocks that the tree refers to.  Raises ``OSError``."""
        count = len(self._document.blocks)
        arrays = (branch.array for branch in self._document.arrays.outline().arrays)
        return {number for array in arrays if array is not None and (number := array.block_in(count)) is not None}

    def store(self, new: Sequence[New], held: set[int]) -> list[int]:
        """Write into free blocks, and into new ones, which the next commit makes durable; their numbers.

        Raises ``NoRoomError``, ``OSError``, as ``Blocks.append_sized``; blocks that it took are dropped then.
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
        """The store has these no more."""
        self._dropped |= numbers

    def tidy(self, held: set[int]) -> None:
        """Empty what was dropped, and give back what is free at the end.  Raises ``AsdffsError``, ``OSError``.

        Where a source counts from the end of the blocks none can go.
        """
        document, blocks = self._document, self._document.blocks
        outline = document.arrays.outline()
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
        """What is free; at first, the blocks that were emptied before: without a byte, but with room for some."""
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
        """The smallest free block that has so much room, and not much more; it is taken."""
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
