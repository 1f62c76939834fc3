"""Compares the block files of a watched directory with the blocks of its ASDF file, and copies them into these.

If little of a block differs, only those bytes are written, as in a mount; otherwise the block is replaced atomically.
A file is copied only if all of it can be read.  For one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final

from asdffs.codecs.base import Readable
from asdffs.document.document import Document
from asdffs.document.opening import open_document
from asdffs.errors import MissingFileError, NotPermittedError
from asdffs.format.text import difference
from asdffs.scheduling import CHUNK
from asdffs.storage.backend import Folder
from asdffs.workflows.exploded_files import numbered

#: A block is replaced as a whole if more than 1/4 of it differs.
_LITTLE: Final = 4


class BlockFiles:
    """The block files of ``document`` in ``folder``, with names that begin with ``stem``.

    All methods raise ``AsdffsError``, ``OSError``.
    """

    def __init__(self, folder: Folder, stem: str, document: Document) -> None:
        self._folder = folder
        self._stem = stem
        self._document = document

    def is_whole(self, name: str) -> bool:
        """Return True if a file has one block with all its stored bytes; raise the reason if not."""
        with closing(self._opened(name)):
            return True

    def differs(self, name: str) -> bool:
        """Return whether a file differs from its block in bytes, size or compression."""
        document, number = self._document, self._number(name)
        if number >= len(document.blocks):
            return True
        with closing(self._opened(name)) as other:
            mine = document.blocks[number]
            if other.blocks[0].compression != mine.compression and not mine.header.streamed:
                return True
            return other.blocks[0].size != document.blocks[number].size or any(self._differences(other, number))

    def carry(self, name: str, announce: Callable[[], None]) -> bool:
        """Copy a file into its block, and return whether that changed the block.

        ``announce`` is called before the block changes.
        """
        document, number = self._document, self._number(name)
        if number > len(document.blocks):
            raise NotPermittedError(f"the next block is number {len(document.blocks)}; give the file that number")
        with closing(self._opened(name)) as other:
            other.blocks[0].check_decodable()  # damage is found before any byte is copied
            if number == len(document.blocks):
                announce()
                document.blocks.add(_content(other))
                changed = True
            else:
                changed = self._carry_content(other, number, announce)
            changed = self._carry_compression(other, number, announce) or changed
        if changed:
            document.blocks[number].flush(durable=True)
        return changed

    def _carry_content(self, other: Document, number: int, announce: Callable[[], None]) -> bool:
        block, size = self._document.blocks[number], other.blocks[0].size
        places = [(place, len(piece)) for place, piece in self._differences(other, number)]
        resized = size != block.size
        if not places and not resized:
            return False
        announce()
        little = not resized and sum(count for _, count in places) <= size // _LITTLE
        if not (little or block.header.streamed):
            block.replace(_content(other))
            return True
        for place, count in places:
            block.write_at(place, other.blocks[0].read_at(place, count))
        if resized:
            block.truncate(size)
        return True

    def _carry_compression(self, other: Document, number: int, announce: Callable[[], None]) -> bool:
        wanted, block = other.blocks[0].compression, self._document.blocks[number]
        if wanted == block.compression or block.header.streamed:
            return False
        announce()
        block.set_compression(wanted)
        return True

    def _number(self, name: str) -> int:
        return next(iter(numbered([name], self._stem)))

    def _opened(self, name: str) -> Document:
        """Open a block file, after a check that it has one complete block."""
        other = open_document(self._folder.path(name), writable=False)
        try:
            _check_one_block(other)
        except BaseException:  # also an interrupt: close the file, and raise again
            other.close()
            raise
        return other

    def _differences(self, other: Document, number: int) -> Iterator[tuple[int, bytes]]:
        """Yield each offset where block ``number`` differs from ``other``, with the bytes of ``other`` there."""
        for place in range(0, other.blocks[0].size, CHUNK):
            new = other.blocks[0].read_at(place, CHUNK)
            old = self._document.blocks[number].read_at(place, CHUNK)
            same = min(len(old), len(new))
            if found := difference(old[:same], new[:same]):
                yield place + found[0], found[1]
            if new[same:]:
                yield place + same, new[same:]


def _content(other: Document) -> Readable:
    """Return the content of the block of ``other``."""
    block = other.blocks[0]
    return Readable(block.size, block.read_at)


def _check_one_block(other: Document) -> None:
    if not len(other.blocks):
        raise MissingFileError("has no block", path=other.path)
    if len(other.blocks) > 1:
        raise NotPermittedError(f"has {len(other.blocks)} blocks; each needs a file of its own", path=other.path)
    other.contents.stored_stretch(0)  # raises if the file ends inside the block
