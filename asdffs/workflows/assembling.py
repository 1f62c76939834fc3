"""Writes a whole new ASDF file from start to end: text, padding, blocks, index (section Low-level file layout).

The stored bytes of a block come from another file and do not pass through Python.  If the file system can, they are
shared (reflinks), else the kernel copies them.  Sharing needs the same alignment to file-system blocks as in the
source, and copying is quicker with it; padding after the tree and slack in the block before provide it.  For one
thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from asdffs.format.block_header import BlockHeader, build_block_header
from asdffs.format.block_index import build_block_index
from asdffs.format.layout import Padding
from asdffs.format.text import complete_last_line, ends_with_tree
from asdffs.storage.backend import Folder, WriteBackend
from asdffs.storage.copying import Stretch, misplaced, transfer


class Part(NamedTuple):
    """A block of the new file: its ``header``, of which the allocated size is ignored, and its stored bytes.

    ``encoded``: they were made for this file, so they are few, and no other file shares them.
    """

    header: BlockHeader
    stored: Stretch
    encoded: bool = False


class RoomPolicy(NamedTuple):
    """The padding after the tree, and the alignment of blocks.

    ``padding``: the policy for the padding; None: no padding.  If it is none at all, blocks are not moved apart for
    copying, either.  ``align``: the content of a block begins at a multiple
    of this many bytes; 0: anywhere.  ``least``: contents of fewer bytes begin anywhere.
    """

    padding: Padding | None = None
    align: int = 0
    least: int = 0


class Assembly:
    """One new file.  Call ``add`` for each block in order, then ``finish``.  Both raise ``OSError``.

    ``backend``: the empty new file, in ``folder``.  ``text``: header, comments and tree.  ``filler``: the byte of the
    padding.  ``indexed``: whether a block index may follow.  ``step(bytes)`` is called with the number of bytes after
    each step.
    """

    def __init__(
        self,
        folder: Folder,
        backend: WriteBackend,
        text: bytes,
        *,
        room: RoomPolicy,
        filler: bytes,
        indexed: bool,
        step: Callable[[int], object],
    ) -> None:
        self._folder = folder
        self._backend = backend
        self._room = room
        self._filler = filler
        self._step = step
        self._newline = b"\r\n" if text.partition(b"\n")[0].endswith(b"\r") else b"\n"
        text = complete_last_line(text)
        self._has_tree = ends_with_tree(text)
        self._indexed = indexed
        self._is_tight = room.padding is not None and room.padding.none
        self._offsets: list[int] = []
        self._last: BlockHeader | None = None
        self._text = len(text)
        self._end = len(text)
        self._head = text

    def add(self, part: Part) -> None:
        """Write a block behind the last one."""
        stored = part.stored
        if not self._offsets:
            self._pad()
        header = part.header._replace(allocated_size=0 if part.header.streamed else stored.length)
        self._make_room(self._gap_before(part, self._end + header.full_size))
        self._offsets.append(self._end)
        self._put(self._end, header)
        content = self._end + header.full_size
        transfer(self._folder, stored, self._backend, content, self._step)
        self._end = content + stored.length
        self._last = header

    def finish(self) -> None:
        """Write the text and the block index.  There is no index if the last block is streamed."""
        if not self._offsets:
            self._pad()
        self._backend.write_at(0, self._head)
        self._backend.truncate(self._end)
        if self._indexed and self._last is not None and not self._last.streamed:
            self._backend.write_at(self._end, build_block_index(self._offsets, newline=self._newline))

    def _pad(self) -> None:
        """Add the padding after the tree.  Without a tree, the first block follows immediately (section Blocks)."""
        policy = self._room.padding
        if policy is not None and not policy.none and self._has_tree:
            self._grow_padding(policy.shift(0, self._text) - self._text)

    def _grow_padding(self, size: int) -> None:
        self._head += self._filler * size
        self._end += size

    def _gap_before(self, part: Part, start: int) -> int:
        """Return by how many bytes the content should begin behind ``start``."""
        if self._room.align and part.stored.length >= self._room.least:
            return -start % self._room.align
        return 0 if self._is_tight or part.encoded else misplaced(part.stored, self._backend, start)

    def _make_room(self, size: int) -> None:
        """Move the end by ``size`` bytes: with slack in the block before, or with padding after the tree."""
        if not size:
            return
        if self._last is not None:
            last = self._last._replace(allocated_size=self._last.allocated_size + size)
            self._put(self._offsets[-1], last)
            self._end += size
        elif self._has_tree:
            self._grow_padding(size)

    def _put(self, offset: int, header: BlockHeader) -> None:
        self._backend.write_at(offset, build_block_header(header))
