"""``blocks/``: the decoded content of each block as ``NNNN.bin``.

An uncompressed block is a window on the file; a compressed one is decoded on demand, and stored
again when its last writer closes it.  Creating the next number appends a block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from asdffs.codecs.base import name_of
from asdffs.document.changes import Subject, content
from asdffs.document.document import Document
from asdffs.errors import DamagedBlockError, NameRefusedError, NotPermittedError, ReadOnlyError
from asdffs.storage.store import Extent
from asdffs.views.base import Options, ViewFile

_NAME = re.compile(r"(\d{4}|[1-9]\d{4,})\.bin")
_PREFIX = "user.asdf."
_ZEROS = 1 << 20


def block_name(number: int) -> str:
    """File name of block ``number``."""
    return f"{number:04d}.bin"


def block_facts(document: Document, number: int) -> dict[str, int | str]:
    """The block header as it is on disk; sizes and offset in bytes.  Raises ``DamagedBlockError``.

    Of a streamed block, whose sizes mean nothing there, ``data_size`` is what it has now.
    """
    header = document.block_header(number)
    return {
        "index": number,
        "offset": document.block_offset(number),
        "header_size": header.header_size,
        "flags": header.flags,
        "compression": name_of(header.compression),
        "allocated_size": header.allocated_size,
        "used_size": header.used_size,
        "data_size": document.block_size(number) if header.streamed else header.data_size,
        "checksum": header.checksum.hex(),
    }


class BlockFile(ViewFile):
    """One block."""

    writable = True

    def __init__(self, document: Document, number: int) -> None:
        self._document = document
        self._number = number
        self._subjects = (content(number),)

    def subjects(self) -> tuple[Subject, ...]:
        """The content of the block."""
        return self._subjects

    def version(self) -> int:
        """When it changed."""
        return self._document.changes.stamp(content(self._number))

    def size(self) -> int:
        """Decoded size; 0 for a block whose header cannot be read."""
        try:
            return self._document.block_size(self._number)
        except DamagedBlockError:
            return 0

    def read(self, offset: int, length: int) -> bytes | Extent:
        """Decoded bytes."""
        return self._document.read_block(self._number, offset, length)

    def open_for_reading(self) -> None:
        """A block whose header is damaged is an error, not an empty file."""
        self._document.check_block_readable(self._number)

    @property
    def stores_late(self) -> bool:  # type: ignore[override]  # a constant elsewhere
        """A compressed block is encoded as a whole."""
        return self._document.block_header(self._number).compressed

    def open_for_writing(self) -> None:
        """Damaged blocks, and those that cannot be decoded, cannot be written."""
        self._document.check_block_writable(self._number)

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        """Write in place."""
        self._document.write_block(self._number, offset, payload)

    def truncate(self, size: int) -> None:
        """Shrink, or grow with zeros."""
        self._document.truncate_block(self._number, size)

    def revert(self) -> None:
        """A compressed block is what it was before; another has been overwritten."""
        self._document.revert_block(self._number)

    def settle(self, *, durable: bool) -> None:
        """Have the file hold what was written: the size, or all of a compressed block."""
        self._document.settle_block(self._number, durable=durable)

    def allocate(self, offset: int, length: int, *, keep_size: bool, zero: bool) -> None:
        """Reserve room, or write zeros."""
        size, end = self.size(), offset + length
        if zero:
            for place in range(offset, min(end, size), _ZEROS):
                self.write(place, bytes(min(_ZEROS, min(end, size) - place)))
        else:
            self._reserve(end, needed=keep_size)
        if not keep_size and end > size:
            self.truncate(end)

    def _reserve(self, size: int, *, needed: bool) -> None:
        """At least ``size`` bytes; of a block that has no room of its own only ``needed`` ones are refused."""
        header = self._document.block_header(self._number)
        if header.compressed or header.streamed:
            if needed:
                raise NotPermittedError("a compressed or streamed block has no room to reserve", block=self._number)
        elif size > header.allocated_size:
            self._document.reserve_block(self._number, size)

    def set_attribute(self, name: str, value: bytes) -> None:
        """``user.asdf.compression`` stores the block anew, ``user.asdf.allocated_size`` reserves room."""
        text = value.decode("latin-1")
        if not self._document.writable:
            raise ReadOnlyError("the mount is read-only")
        if name == _PREFIX + "compression":
            self._document.set_compression(self._number, text)
        elif name == _PREFIX + "allocated_size":
            if not text.isascii() or not text.isdigit():
                raise NameRefusedError(f"allocated_size is a number of bytes, not {text[:40]!r}", block=self._number)
            self._document.reserve_block(self._number, int(text))
        elif name in self.attributes():
            raise NotPermittedError(f"{name} tells what is in the file and cannot be set", block=self._number)
        else:
            super().set_attribute(name, value)

    def window(self) -> tuple[int, int]:
        """All of it."""
        return self._number, 0

    def attributes(self) -> Mapping[str, bytes]:
        """``user.asdf.*``: what ``block_facts`` tells, as text."""
        facts = block_facts(self._document, self._number)
        return {_PREFIX + name: str(fact).encode() for name, fact in facts.items()}


class Blocks:
    """See ``View``."""

    directory = "blocks"
    scratch = True
    identity: object = None

    def __init__(self, document: Document, options: Options | None = None) -> None:
        self._document = document

    def subjects(self) -> tuple[Subject, ...]:
        """Entries come and go by what is asked of the directory."""
        return ()

    def version(self) -> int:
        """Whoever adds or removes one touches the directory."""
        return 0

    def names(self) -> Iterator[str]:
        """``0000.bin`` and so on."""
        return map(block_name, range(self._document.block_count))

    def directories(self) -> int:
        """None."""
        return 0

    def child(self, name: str) -> BlockFile:
        """The block of that name.  Raises ``KeyError``."""
        match = _NAME.fullmatch(name)
        if match is None or int(match[1]) >= self._document.block_count:
            raise KeyError(name)
        return BlockFile(self._document, int(match[1]))

    def refusal(self, name: str) -> Exception | None:
        """Names of blocks are not scratch."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        if self.takes(name):
            return None
        return NameRefusedError(f"the next free block is {block_name(self._document.block_count)}")

    def takes(self, name: str) -> bool:
        """The next block, and no other."""
        return name == block_name(self._document.block_count)

    def add(self, name: str) -> None:
        """Append an empty block."""
        self._document.append_block()

    def remove(self, name: str) -> None:
        """Remove the last block, to which nothing in the tree refers."""
        self._document.remove_block(int(name.partition(".")[0]))


PLUGIN = Blocks
