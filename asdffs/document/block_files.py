"""The files of blocks in a directory that mirrors an ASDF file: compared with the blocks, and carried into them.

Of a block that differs little those bytes are written, as by a mount; else all of it is replaced, or nothing.  A
file is carried only when all of it can be read.  User: ``mirroring``.  One thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final

from asdffs.codecs.base import name_of
from asdffs.document.document import Document
from asdffs.document.exploded_files import numbered
from asdffs.document.opening import open_document
from asdffs.errors import AsdffsError, DamagedBlockError, MissingFileError, NotPermittedError
from asdffs.format.plan import difference
from asdffs.storage.store import Folder, read_bytes

_PIECE: Final = 1 << 20
#: A block of which more than this part differs is replaced as a whole.
_LITTLE: Final = 4


class BlockFiles:
    """Those of ``stem`` in ``folder``, of ``document``.  All methods raise ``AsdffsError``, ``OSError``."""

    def __init__(self, folder: Folder, stem: str, document: Document) -> None:
        self._folder = folder
        self._stem = stem
        self._document = document

    def is_whole(self, name: str) -> bool:
        """Whether a file has one block, and all its stored bytes; raises the reason why not."""
        with closing(self._opened(name)):
            return True

    def differs(self, name: str) -> bool:
        """Whether a file has something that its block has not: bytes, size, compression."""
        document, number = self._document, self._number(name)
        if number >= document.block_count:
            return True
        with closing(self._opened(name)) as other:
            mine = document.block_header(number)
            if other.block_header(0).compression != mine.compression and not mine.streamed:
                return True
            return other.block_size(0) != document.block_size(number) or any(self._differences(other, number))

    def carry(self, name: str, announce: Callable[[], None]) -> bool:
        """Have the block what the file has; whether it had not.  ``announce`` is called before it changes."""
        document, number = self._document, self._number(name)
        if number > document.block_count:
            raise NotPermittedError(f"the next block is number {document.block_count}; no number is left out")
        with closing(self._opened(name)) as other:
            _check_decodable(other)
            if number == document.block_count:
                announce()
                self._append(other, number)
                changed = True
            else:
                changed = self._carry_content(other, number, announce)
            changed = self._carry_compression(other, number, announce) or changed
        if changed:
            document.settle_block(number, durable=True)
        return changed

    def _append(self, other: Document, number: int) -> None:
        """All of it or nothing."""
        self._document.append_block()
        try:
            self._replace(other, number)
        except BaseException:  # an interrupt as well, and it goes on
            with contextlib.suppress(AsdffsError, OSError):
                self._document.remove_block(number)
            raise

    def _replace(self, other: Document, number: int) -> None:
        size = other.block_size(0)
        self._document.replace_block(number, size, lambda at, count: read_bytes(other.read_block(0, at, count)))

    def _carry_content(self, other: Document, number: int, announce: Callable[[], None]) -> bool:
        document, size = self._document, other.block_size(0)
        places = [(place, len(piece)) for place, piece in self._differences(other, number)]
        resized = size != document.block_size(number)
        if not places and not resized:
            return False
        announce()
        little = not resized and sum(count for _, count in places) <= size // _LITTLE
        if not (little or document.block_header(number).streamed):
            self._replace(other, number)
            return True
        for place, count in places:
            document.write_block(number, place, read_bytes(other.read_block(0, place, count)))
        if resized:
            document.truncate_block(number, size)
        return True

    def _carry_compression(self, other: Document, number: int, announce: Callable[[], None]) -> bool:
        header, mine = other.block_header(0), self._document.block_header(number)
        if header.compression == mine.compression or mine.streamed:
            return False
        announce()
        self._document.set_compression(number, name_of(header.compression))
        return True

    def _number(self, name: str) -> int:
        return next(iter(numbered([name], self._stem)))

    def _opened(self, name: str) -> Document:
        """The file of a block, which has one, and all of it."""
        other = open_document(self._folder.path(name), writable=False)
        try:
            _check_one_block(other)
        except BaseException:  # it is closed whatever it was, and it goes on
            other.close()
            raise
        return other

    def _differences(self, other: Document, number: int) -> Iterator[tuple[int, bytes]]:
        """Offsets in block ``number``, and what ``other`` has there; not what the block has beyond it."""
        for place in range(0, other.block_size(0), _PIECE):
            new = read_bytes(other.read_block(0, place, _PIECE))
            old = read_bytes(self._document.read_block(number, place, _PIECE))
            same = min(len(old), len(new))
            if found := difference(old[:same], new[:same]):
                yield place + found[0], found[1]
            if new[same:]:
                yield place + same, new[same:]


def _check_one_block(other: Document) -> None:
    if not other.block_count:
        raise MissingFileError("has no block", path=other.path)
    if other.block_count > 1:
        raise NotPermittedError(f"has {other.block_count} blocks; each needs a file of its own", path=other.path)
    header = other.block_header(0)
    if not header.streamed and other.contents.stored_stretch(0).length < header.used_size:
        raise DamagedBlockError("the file ends inside its block", path=other.path)


def _check_decodable(other: Document) -> None:
    """Decode all of a compressed block: what is damaged is found before a byte of it is carried."""
    if other.block_header(0).compressed and not other.block_obstacle(0):
        for place in range(0, other.block_size(0), _PIECE):
            other.read_block(0, place, _PIECE)
