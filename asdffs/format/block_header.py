"""The block header of ASDF 1.x (section Block header): parse and build.

Byte sums (all integers big-endian, offsets from the start of the block)::

     0  4  magic d3 42 4c 4b        22  8  used_size
     4  2  header_size (>= 48)      30  8  data_size
     6  4  flags                    38 16  checksum (MD5, or zeros)
    10  4  compression              54  header_size - 48 more bytes, kept as they are
    14  8  allocated_size

Used by ``dialects/asdf_1``, ``scanner`` and ``plan``.  Pure functions.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

from asdffs.errors import DamagedBlockError
from asdffs.format.constants import (
    BLOCK_MAGIC,
    BLOCK_PREFIX_SIZE,
    MIN_HEADER_SIZE,
    NO_CHECKSUM,
    NO_COMPRESSION,
    STREAMED,
)

_PREFIX = struct.Struct(">4sH")
_FIELDS = struct.Struct(">I4sQQQ16s")


@dataclass(frozen=True, slots=True)
class BlockHeader:
    """One block header.  Sizes in bytes; ``extra`` is what header_size has beyond 48."""

    flags: int
    compression: bytes
    allocated_size: int
    used_size: int
    data_size: int
    checksum: bytes
    extra: bytes = b""

    @property
    def header_size(self) -> int:
        """Value of the header_size field, in bytes (magic and the field itself not counted)."""
        return MIN_HEADER_SIZE + len(self.extra)

    @property
    def full_size(self) -> int:
        """Bytes from the magic to the first byte of the content."""
        return BLOCK_PREFIX_SIZE + self.header_size

    @property
    def streamed(self) -> bool:
        """Whether the block extends to the end of the file and its sizes are ignored."""
        return bool(self.flags & STREAMED)

    @property
    def compressed(self) -> bool:
        """Whether the content is stored compressed."""
        return self.compression != NO_COMPRESSION

    @property
    def slack(self) -> int:
        """Allocated bytes that are not used."""
        return 0 if self.streamed else self.allocated_size - self.used_size

    def with_used(self, size: int) -> BlockHeader:
        """This header of an uncompressed block with ``size`` bytes used."""
        return replace(self, used_size=size, data_size=size)

    def without_checksum(self) -> BlockHeader:
        """This header with the checksum that says "do not verify"."""
        return replace(self, checksum=NO_CHECKSUM)


def parse_block_prefix(prefix: bytes, *, offset: int) -> int:
    """The header_size in the first 6 bytes of a block at ``offset`` of the file.

    Raises ``DamagedBlockError`` when the magic is missing or the size is below 48.
    """
    if len(prefix) < BLOCK_PREFIX_SIZE or not prefix.startswith(BLOCK_MAGIC):
        raise DamagedBlockError("no block begins here: the magic d3 42 4c 4b is missing", offset=offset)
    size = int(_PREFIX.unpack_from(prefix)[1])
    if size < MIN_HEADER_SIZE:
        raise DamagedBlockError(f"the block header says it has {size} bytes; 48 is the least", offset=offset)
    return size


def parse_block_header(header: bytes, *, offset: int) -> BlockHeader:
    """Parse a whole header (magic to last header byte) that stands at ``offset`` of the file.

    Raises ``DamagedBlockError`` when it is cut off or contradicts itself.
    """
    size = parse_block_prefix(header, offset=offset)
    if len(header) < BLOCK_PREFIX_SIZE + size:
        raise DamagedBlockError("the file ends inside this block header", offset=offset)
    fields = _FIELDS.unpack_from(header, BLOCK_PREFIX_SIZE)
    extra = header[BLOCK_PREFIX_SIZE + MIN_HEADER_SIZE : BLOCK_PREFIX_SIZE + size]
    parsed = BlockHeader(*(*fields, extra))
    _check_sizes(parsed, offset)
    return parsed


def build_block_header(header: BlockHeader) -> bytes:
    """The bytes of ``header``, from the magic to the last byte of ``extra``."""
    return (
        _PREFIX.pack(BLOCK_MAGIC, header.header_size)
        + _FIELDS.pack(
            header.flags,
            header.compression,
            header.allocated_size,
            header.used_size,
            header.data_size,
            header.checksum,
        )
        + header.extra
    )


def _check_sizes(header: BlockHeader, offset: int) -> None:
    if header.streamed:
        return
    if header.used_size > header.allocated_size:
        raise DamagedBlockError(
            f"used_size {header.used_size} is more than allocated_size {header.allocated_size}", offset=offset
        )
    if not header.compressed and header.used_size != header.data_size:
        raise DamagedBlockError(
            f"data_size {header.data_size} differs from used_size {header.used_size} without compression",
            offset=offset,
        )
