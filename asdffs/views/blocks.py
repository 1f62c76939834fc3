"""``blocks/``: the decoded content of each block as ``NNNN.bin``.

An uncompressed block is a window on the file; a compressed one is decoded on demand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from asdffs.document.document import Document
from asdffs.errors import DamagedBlockError, NameRefusedError, NotPermittedError
from asdffs.storage.store import Extent
from asdffs.views.base import ViewFile

_NAME = re.compile(r"(\d{4}|[1-9]\d{4,})\.bin")


def block_name(number: int) -> str:
    """File name of block ``number``."""
    return f"{number:04d}.bin"


def compression_name(compression: bytes) -> str:
    """The compression as ``info`` and the attributes show it: ``none`` or its four bytes."""
    return compression.rstrip(b"\0").decode("latin-1") or "none"


class BlockFile(ViewFile):
    """One block."""

    writable = True

    def __init__(self, document: Document, number: int) -> None:
        self._document = document
        self._number = number

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
        self._document.block_header(self._number)

    def open_for_writing(self) -> None:
        """Compressed and damaged blocks cannot be written."""
        self._document.check_block_writable(self._number)

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        """Write in place."""
        self._document.write_block(self._number, offset, payload)

    def truncate(self, size: int) -> None:
        """Shrink, or grow with zeros."""
        self._document.truncate_block(self._number, size)

    def settle(self, *, durable: bool) -> None:
        """Bring the size into the header."""
        self._document.settle_block(self._number, durable=durable)

    def attributes(self) -> Mapping[str, bytes]:
        """``user.asdf.*``: the block header as on disk, as text; sizes and offset in bytes."""
        header = self._document.block_header(self._number)
        facts = {
            "index": self._number,
            "offset": self._document.block_offset(self._number),
            "header_size": header.header_size,
            "flags": header.flags,
            "compression": compression_name(header.compression),
            "allocated_size": header.allocated_size,
            "used_size": header.used_size,
            "data_size": header.data_size,
            "checksum": header.checksum.hex(),
        }
        return {f"user.asdf.{name}": str(fact).encode() for name, fact in facts.items()}


class Blocks:
    """See ``View``."""

    directory = "blocks"
    scratch = True

    def __init__(self, document: Document) -> None:
        self._document = document

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
        if int(match[1]) == self._document.block_count:
            return NotPermittedError("adding a block is not supported yet", block=int(match[1]))
        return NameRefusedError(f"the next free block is {block_name(self._document.block_count)}")


PLUGIN = Blocks
