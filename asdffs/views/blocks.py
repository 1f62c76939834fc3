"""``blocks/``: the decoded content of each block as ``NNNN.bin``.

An uncompressed block is a window on the file; a compressed one is decoded on demand, and stored
again when its last writer closes it.  Creating the next number appends a block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from asdffs.document.block import Block
from asdffs.document.changes import Subject, content
from asdffs.document.document import Document
from asdffs.errors import DamagedBlockError, NameRefusedError, NotPermittedError, NotSupportedError, ReadOnlyError
from asdffs.storage.backend import Extent
from asdffs.views.base import PREFIX, View, ViewFile

_NAME = re.compile(r"(\d{4}|[1-9]\d{4,})\.bin")
_ZEROS = 1 << 20


def block_name(number: int) -> str:
    """Return the file name of block ``number``."""
    return f"{number:04d}.bin"


class BlockFile(ViewFile):
    """The decoded content of one block."""

    steady_window = True

    def __init__(self, document: Document, number: int) -> None:
        self._document = document
        self._number = number
        self._subjects = (content(number),)

    @property
    def _block(self) -> Block:
        return Block(self._document, self._number)

    def subjects(self) -> tuple[Subject, ...]:
        """Return the content of the block."""
        return self._subjects

    def version(self) -> int:
        """Return the time of the last change of the content."""
        return self._document.changes.stamp(content(self._number))

    def size(self) -> int:
        """Return the decoded size; 0 if the block header cannot be read."""
        try:
            return self._document.contents.size(self._number)
        except DamagedBlockError:
            return 0

    def read(self, offset: int, length: int) -> bytes | Extent:
        """Return decoded bytes."""
        return self._block.read_extent(offset, length)

    @property
    def writable(self) -> bool:  # type: ignore[override]  # a constant elsewhere
        """Whether blocks of the ASDF file may be changed."""
        return self._document.blocks_writable

    def open_for_reading(self) -> None:
        """Raise ``DamagedBlockError`` if the block header cannot be read."""
        self._block.check_readable()

    @property
    def commits_late(self) -> bool:  # type: ignore[override]  # a constant elsewhere
        """Whether the block is compressed: it is encoded as a whole."""
        return self._block.header.compressed

    def open_for_writing(self) -> None:
        """Raise ``AsdffsError`` if the block is damaged or cannot be decoded."""
        self._block.check_writable()

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        """Write in place, or into the decoded copy of a compressed block."""
        self._block.write_at(offset, payload)

    def truncate(self, size: int) -> None:
        """Shrink the block, or let it grow with zeros."""
        self._block.truncate(size)

    def revert(self) -> None:
        """Undo writes to a compressed block; one that is not compressed was overwritten in place."""
        self._block.revert()

    def flush(self, *, durable: bool) -> None:
        """Write the new size to the file, or the whole content of a compressed block."""
        self._block.flush(durable=durable)

    def allocate(self, offset: int, length: int, *, keep_size: bool, zero: bool) -> None:
        """See ``ViewFile``."""
        size, end = self.size(), offset + length
        if zero:
            for place in range(offset, min(end, size), _ZEROS):
                self.write(place, bytes(min(_ZEROS, min(end, size) - place)))
        else:
            self._reserve(end, needed=keep_size)
        if not keep_size and end > size:
            self.truncate(end)

    def _reserve(self, size: int, *, needed: bool) -> None:
        """Reserve ``size`` bytes.  Raises ``NotSupportedError`` if that is ``needed`` and not possible."""
        header = self._block.header
        if header.compressed or header.streamed:
            if needed:
                raise NotSupportedError("a compressed or streamed block has no room to reserve", block=self._number)
        elif size > header.allocated_size:
            self._block.reserve(size)

    def set_attribute(self, name: str, value: bytes) -> None:
        """Store the block anew (``user.asdf.compression``), or reserve room (``user.asdf.allocated_size``)."""
        text = value.decode("latin-1")
        if not self._document.writable:
            raise ReadOnlyError("the mount is read-only")
        if name == PREFIX + "compression":
            self._block.set_compression(text)
        elif name == PREFIX + "allocated_size":
            if not text.isascii() or not text.isdigit():
                raise NameRefusedError(f"allocated_size is a number of bytes, not {text[:40]!r}", block=self._number)
            self._block.reserve(int(text))
        elif name in self.attributes():
            raise NotPermittedError(f"{name} tells what is in the file and cannot be set", block=self._number)
        else:
            super().set_attribute(name, value)

    def window(self) -> tuple[int, int]:
        """Return the whole block."""
        return self._number, 0

    def attributes(self) -> Mapping[str, bytes]:
        """Return the facts about the block as text, as ``user.asdf.*``."""
        facts = self._block.facts()
        return {PREFIX + name: str(fact).encode() for name, fact in facts.items()}


class BlocksView(View):
    """The view ``blocks/``."""

    directory = "blocks"
    scratch = True

    def names(self) -> Iterator[str]:
        """Return ``0000.bin`` and so on."""
        return map(block_name, range(len(self._document.blocks)))

    def child(self, name: str) -> BlockFile:
        """Return the block ``name``.  Raises ``KeyError``."""
        match = _NAME.fullmatch(name)
        number = int(match[1]) if match is not None else -1
        if not 0 <= number < len(self._document.table):
            raise KeyError(name)
        return BlockFile(self._document, number)

    def refusal(self, name: str) -> Exception | None:
        """Return why a name of a block that is not the next one cannot be created; other names are scratch."""
        if _NAME.fullmatch(name) is None or self.takes(name):
            return None
        return NameRefusedError(f"the next free block is {block_name(len(self._document.blocks))}")

    def takes(self, name: str) -> bool:
        """Return whether ``name`` is that of the next block."""
        return name == block_name(len(self._document.blocks))

    def add(self, name: str) -> None:
        """Append an empty block."""
        self._document.blocks.append()

    def remove(self, name: str) -> None:
        """Remove the last block, if nothing in the tree refers to it."""
        self._document.blocks[int(name.partition(".")[0])].remove()


PLUGIN = BlocksView
