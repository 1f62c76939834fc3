"""The block header (section Block header): parse and build, in each of the forms that it has had.

Byte sums of today's (all integers big-endian, offsets from the start of the block)::

     0  4  magic d3 42 4c 4b        22  8  used_size
     4  2  header_size (>= 48)      30  8  data_size
     6  4  flags                    38 16  checksum (MD5, or zeros)
    10  4  compression              54  header_size - 48 more bytes, kept as they are
    14  8  allocated_size

``block_form`` has the others.  Pure functions.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from asdffs.errors import DamagedBlockError
from asdffs.format.block_form import FORM_48, RULES_1, BlockRules, HeaderForm
from asdffs.format.constants import (
    BLOCK_MAGIC,
    BLOCK_PREFIX_SIZE,
    CHAIN,
    ENCODED,
    NO_CHECKSUM,
    NO_COMPRESSION,
    STREAMED,
)

_PREFIX = struct.Struct(">4sH")
#: Sizes of files have 63 bits.
_END_OF_FILE = 1 << 63


class BlockHeader(NamedTuple):
    """One block header.  Sizes in bytes; ``extra`` is what header_size has beyond its ``form``.

    ``compression``: four bytes, ``CHAIN``, or the name that the draft of 2014 has for an encoding.
    """

    flags: int
    compression: bytes
    allocated_size: int
    used_size: int
    data_size: int
    checksum: bytes
    extra: bytes = b""
    form: HeaderForm = FORM_48
    magic: bytes = BLOCK_MAGIC

    @property
    def header_size(self) -> int:
        """Value of the header_size field, in bytes (magic and the field itself not counted)."""
        return self.form.size + len(self.extra)

    @property
    def full_size(self) -> int:
        """Bytes from the magic to the first byte of the content."""
        return BLOCK_PREFIX_SIZE + self.header_size

    @property
    def stored_flags(self) -> int:
        """The flags as they are written: whether it is encoded is told by ``compression``."""
        if not self.form.chained:
            return self.flags
        return self.flags & ~ENCODED | (ENCODED if self.compressed else 0)

    @property
    def streamed(self) -> bool:
        """Whether the block extends to the end of the file and its sizes are ignored."""
        return bool(self.flags & STREAMED)

    @property
    def compressed(self) -> bool:
        """Whether the content is stored compressed."""
        return self.compression != NO_COMPRESSION

    @property
    def verifiable(self) -> bool:
        """Whether it has a checksum, and one of which the standard says what it is."""
        return self.form.summed and self.checksum != NO_CHECKSUM

    @property
    def slack(self) -> int:
        """Allocated bytes that are not used."""
        return 0 if self.streamed else self.allocated_size - self.used_size

    def with_used(self, size: int) -> BlockHeader:
        """This header of an uncompressed block with ``size`` bytes used."""
        return self._replace(used_size=size, data_size=size)

    def without_checksum(self) -> BlockHeader:
        """This header with the checksum that says "do not verify"."""
        return self._replace(checksum=NO_CHECKSUM)

    def emptied(self) -> BlockHeader:
        """The header of an empty block of the same form."""
        return BlockHeader(0, NO_COMPRESSION, 0, 0, 0, NO_CHECKSUM, form=self.form, magic=self.magic)


def new_header(rules: BlockRules) -> BlockHeader:
    """The header of the first block of a file, which is empty."""
    return BlockHeader(0, NO_COMPRESSION, 0, 0, 0, NO_CHECKSUM, form=rules.new, magic=rules.magics[0])


def parse_block_prefix(prefix: bytes, *, offset: int, rules: BlockRules = RULES_1) -> int:
    """The header_size in the first 6 bytes of a block at ``offset`` of the file.

    Raises ``DamagedBlockError`` when the magic is missing or the size is less than any form has.
    """
    if len(prefix) < BLOCK_PREFIX_SIZE or not prefix.startswith(rules.magics):
        raise DamagedBlockError("no block begins here: the magic d3 42 4c 4b is missing", offset=offset)
    size = int(_PREFIX.unpack_from(prefix)[1])
    if size < rules.least:
        sentence = f"the block header says it has {size} bytes; {rules.least} is the least"
        raise DamagedBlockError(sentence, offset=offset)
    return size


def parse_block_header(
    header: bytes, *, offset: int, form: HeaderForm = FORM_48, rules: BlockRules = RULES_1
) -> BlockHeader:
    """Parse a whole header (magic to last header byte), of ``form``, that stands at ``offset`` of the file.

    Raises ``DamagedBlockError`` when it is cut off or contradicts itself.
    """
    size = parse_block_prefix(header, offset=offset, rules=rules)
    if len(header) < BLOCK_PREFIX_SIZE + size:
        raise DamagedBlockError("the file ends inside this block header", offset=offset)
    extra = header[BLOCK_PREFIX_SIZE + form.size : BLOCK_PREFIX_SIZE + size]
    if form is FORM_48:  # a file may have 100,000 of these
        values = struct.unpack_from(form.packing, header, BLOCK_PREFIX_SIZE)
        parsed = BlockHeader(*(*values, extra))
    else:
        fields = form.unpack(header, BLOCK_PREFIX_SIZE)
        parsed = BlockHeader(*_values(fields, form), extra, form, header[: len(BLOCK_MAGIC)])
    _check_sizes(parsed, offset)
    return parsed


def _values(fields: dict[str, int | bytes], form: HeaderForm) -> tuple[int, bytes, int, int, int, bytes]:
    """The fields of ``BlockHeader`` that every form tells in its own way."""
    flags, allocated, used = (int(fields[name]) for name in ("flags", "allocated_size", "used_size"))
    checksum = fields["checksum"]
    if isinstance(checksum, int):  # 8 bytes, of which no draft said what they are
        checksum = checksum.to_bytes(8, "big") + bytes(8)
    encoding = fields.get("compression", fields.get("encoding", NO_COMPRESSION))
    if form.chained and flags & ENCODED:
        encoding = CHAIN
    elif not bytes(encoding).strip(b"\0"):
        encoding = NO_COMPRESSION
    return flags, bytes(encoding), allocated, used, int(fields.get("data_size", used)), checksum


def build_block_header(header: BlockHeader) -> bytes:
    """The bytes of ``header``, from the magic to the last byte of ``extra``."""
    form, plain = header.form, not header.compressed
    return (
        _PREFIX.pack(header.magic, header.header_size)
        + form.pack(
            {
                "flags": header.stored_flags,
                "compression": header.compression,
                "encoding": b"" if plain else header.compression,
                "allocated_size": header.allocated_size,
                "used_size": header.used_size,
                "data_size": header.data_size,
                "checksum": header.checksum if form.summed else int.from_bytes(header.checksum[:8], "big"),
            }
        )
        + header.extra
    )


def _check_sizes(header: BlockHeader, offset: int) -> None:
    if header.streamed:
        if header.compression == CHAIN:
            error = DamagedBlockError("it is streamed and encoded, which cannot both be", offset=offset)
            raise error.ending(_END_OF_FILE)
        return
    if header.used_size > header.allocated_size:
        raise DamagedBlockError(
            f"used_size {header.used_size} is more than allocated_size {header.allocated_size}", offset=offset
        )
    if not header.compressed and header.used_size != header.data_size:
        sentence = f"data_size {header.data_size} differs from used_size {header.used_size} without compression"
        end = offset + header.full_size + header.allocated_size
        raise DamagedBlockError(sentence, offset=offset).ending(end)
