"""Parse and build block headers (section Block header), in all forms.

Today's form (all integers big-endian, offsets and sizes in bytes, from the start of the block)::

     0  4  magic d3 42 4c 4b        22  8  used_size
     4  2  header_size (>= 48)      30  8  data_size
     6  4  flags                    38 16  checksum (MD5, or zeros)
    10  4  compression              54  header_size - 48 more bytes, kept as they are
    14  8  allocated_size

The drafts have other forms (``features/drafts/dialects``).  They do not define their checksum, so it is never
verified.  When the content changes it becomes zeros, which means "none".  Pure functions and immutable classes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from asdffs.errors import DamagedBlockError
from asdffs.format.constants import (
    BLOCK_MAGIC,
    BLOCK_PREFIX_SIZE,
    CHAIN,
    ENCODED,
    NO_CHECKSUM,
    NO_CHECKSUM_DIGITS,
    NO_COMPRESSION,
    STREAMED,
)
from asdffs.format.text import Header

_PREFIX: Final = struct.Struct(">4sH")
#: File sizes have 63 bits.
_END_OF_FILE: Final = 1 << 63


class HeaderForm:
    """One form of a block header.

    ``packing``: the format for ``struct``.  ``fields``: fields of ``BlockHeader``, parallel to ``packing``.
    ``flags``: the bits that have a meaning.  ``compressions``: the compressions that a header can name, by
    their names for users; None if it can name any codec.

    ``size``: the smallest header_size, in bytes.  ``has_md5``: there is room for the checksum of the standard.
    ``chained``: compressions are written as a chain of encodings before the content.
    """

    def __init__(
        self,
        packing: str,
        fields: tuple[str, ...],
        flags: int = STREAMED,
        compressions: tuple[str, ...] | None = None,
    ) -> None:
        self.packing = packing
        self.fields = fields
        self.flags = flags
        self.compressions = compressions
        self.size = struct.calcsize(packing)
        self.has_md5 = packing.endswith("16s") and fields[-1] == "checksum"
        self.chained = bool(flags & ENCODED)

    def unpack(self, header: bytes, offset: int) -> dict[str, int | bytes]:
        """Return the fields at ``offset`` of ``header``."""
        return dict(zip(self.fields, struct.unpack_from(self.packing, header, offset), strict=True))

    def pack(self, values: Mapping[str, int | bytes]) -> bytes:
        """Return the bytes of the fields."""
        return struct.pack(self.packing, *(values[name] for name in self.fields))


FORM_48: Final = HeaderForm(
    ">I4sQQQ16s", ("flags", "compression", "allocated_size", "used_size", "data_size", "checksum")
)


class BlockRules:
    """How the blocks of a file are written.

    ``magics``: the magics with which a block may begin, the usual one first.  ``forms``: the possible forms of
    its headers.  A header of exactly the size of one form most likely has that form.  A padded header has the
    first form, in this order, that fits.  ``new``: the form of a file's first block.  ``min_header_size``: in bytes.
    """

    def __init__(
        self,
        magics: tuple[bytes, ...] = (BLOCK_MAGIC,),
        forms: tuple[HeaderForm, ...] = (FORM_48,),
        new: HeaderForm = FORM_48,
    ) -> None:
        self.magics = magics
        self.forms = forms
        self.new = new
        self.min_header_size = min(form.size for form in forms)

    def candidates(self, size: int) -> tuple[HeaderForm, ...]:
        """Return the possible forms of a header of ``size`` bytes, the likeliest first."""
        if len(self.forms) == 1:
            return self.forms
        exact = tuple(form for form in self.forms if form.size == size)
        return exact + tuple(form for form in self.forms if form.size < size)


#: Returns the rules for a file with this header line.
RulesOf = Callable[[Header], BlockRules]

#: The rules of the standard since 1.0.0.
RULES_1: Final = BlockRules()


def rules_1(header: Header) -> BlockRules:
    """Return ``RULES_1`` for every header line."""
    return RULES_1


class BlockHeader(NamedTuple):
    """One block header.  Sizes are in bytes.

    ``compression``: four bytes, ``CHAIN``, or the name of an encoding in a draft.  ``extra``: the bytes of the
    header after the fields of its ``form``.
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
        """The value of the header_size field, in bytes; the magic and the field itself do not count."""
        return self.form.size + len(self.extra)

    @property
    def full_size(self) -> int:
        """The number of bytes from the magic to the first byte of the content."""
        return BLOCK_PREFIX_SIZE + self.form.size + len(self.extra)

    def end(self, offset: int) -> int:
        """Return where the allocation ends of a block that begins at ``offset``."""
        return offset + self.full_size + self.allocated_size

    @property
    def stored_flags(self) -> int:
        """The flags as they are written.

        In a form with chains, ``compression`` decides whether the flag ENCODED is set.
        """
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
        """Whether the header has a checksum that the standard defines."""
        return self.form.has_md5 and self.checksum not in (NO_CHECKSUM, NO_CHECKSUM_DIGITS)

    @property
    def slack(self) -> int:
        """The number of allocated bytes that are not used."""
        return 0 if self.streamed else self.allocated_size - self.used_size

    def with_used(self, size: int) -> BlockHeader:
        """Return this header of an uncompressed block with ``size`` bytes used."""
        return self._replace(used_size=size, data_size=size)

    def without_checksum(self) -> BlockHeader:
        """Return this header with the checksum that means "do not verify"."""
        return self._replace(checksum=NO_CHECKSUM)

    def emptied(self) -> BlockHeader:
        """Return the header of an empty block of the same form and magic."""
        return BlockHeader(0, NO_COMPRESSION, 0, 0, 0, NO_CHECKSUM, form=self.form, magic=self.magic)


def new_header(rules: BlockRules) -> BlockHeader:
    """Return the header of the first block of a file; the block is empty."""
    return BlockHeader(0, NO_COMPRESSION, 0, 0, 0, NO_CHECKSUM, form=rules.new, magic=rules.magics[0])


def parse_block_prefix(prefix: bytes, *, offset: int, rules: BlockRules = RULES_1) -> int:
    """Return the header_size from the first 6 bytes of a block at ``offset`` of the file.

    Raises ``DamagedBlockError`` if the magic is missing or the size is smaller than that of any form.
    """
    if len(prefix) < BLOCK_PREFIX_SIZE or not prefix.startswith(rules.magics):
        raise DamagedBlockError("no block begins here: the magic d3 42 4c 4b is missing", offset=offset)
    size = int(_PREFIX.unpack_from(prefix)[1])
    if size < rules.min_header_size:
        sentence = f"the block header says it has {size} bytes; the minimum is {rules.min_header_size}"
        raise DamagedBlockError(sentence, offset=offset)
    return size


def parse_block_header(
    header: bytes, *, offset: int, form: HeaderForm = FORM_48, rules: BlockRules = RULES_1
) -> BlockHeader:
    """Parse a whole header of ``form``, from the magic to its last byte, at ``offset`` of the file.

    Raises ``DamagedBlockError`` if it is truncated or contradicts itself.
    """
    size = parse_block_prefix(header, offset=offset, rules=rules)
    if len(header) < BLOCK_PREFIX_SIZE + size:
        raise DamagedBlockError("the file ends inside this block header", offset=offset)
    extra = header[BLOCK_PREFIX_SIZE + form.size : BLOCK_PREFIX_SIZE + size]
    if form is FORM_48:  # fast: a file may have 100,000 of these
        values = struct.unpack_from(form.packing, header, BLOCK_PREFIX_SIZE)
        parsed = BlockHeader(*(*values, extra))
    else:
        fields = form.unpack(header, BLOCK_PREFIX_SIZE)
        parsed = BlockHeader(*_values(fields, form), extra, form, header[: len(BLOCK_MAGIC)])
    _check_sizes(parsed, offset)
    return parsed


def _values(fields: dict[str, int | bytes], form: HeaderForm) -> tuple[int, bytes, int, int, int, bytes]:
    """Return the fields of ``BlockHeader`` that differ between the forms."""
    flags, allocated, used = (int(fields[name]) for name in ("flags", "allocated_size", "used_size"))
    checksum = fields["checksum"]
    if isinstance(checksum, int):  # the drafts do not define these 8 bytes
        checksum = checksum.to_bytes(8, "big") + bytes(8)
    encoding = fields.get("compression", fields.get("encoding", NO_COMPRESSION))
    if form.chained and flags & ENCODED:
        encoding = CHAIN
    elif not bytes(encoding).strip(b"\0"):
        encoding = NO_COMPRESSION
    return flags, bytes(encoding), allocated, used, int(fields.get("data_size", used)), checksum


def build_block_header(header: BlockHeader) -> bytes:
    """Return the bytes of ``header``, from the magic to the last byte of ``extra``."""
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
                "checksum": header.checksum if form.has_md5 else int.from_bytes(header.checksum[:8], "big"),
            }
        )
        + header.extra
    )


def _check_sizes(header: BlockHeader, offset: int) -> None:
    if header.streamed:
        if header.compression == CHAIN:
            error = DamagedBlockError("the block is both streamed and encoded", offset=offset)
            raise error.ending(_END_OF_FILE)
        return
    if header.used_size > header.allocated_size:
        raise DamagedBlockError(
            f"used_size {header.used_size} is more than allocated_size {header.allocated_size}", offset=offset
        )
    if not header.compressed and header.used_size != header.data_size:
        sentence = f"data_size {header.data_size} differs from used_size {header.used_size} without compression"
    elif max(header.allocated_size, header.data_size) >= _END_OF_FILE:
        sentence = "it states a size of 2^63 bytes or more, which no file can have"
    else:
        return
    raise DamagedBlockError(sentence, offset=offset).ending(header.end(offset))
