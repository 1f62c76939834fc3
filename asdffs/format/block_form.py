"""The forms of block headers: their fields and the order of these (section Block header, and its drafts).

| form | header_size | fields, all big-endian, after magic and header_size            | found in files of      |
|------|-------------|----------------------------------------------------------------|------------------------|
| 48   | >= 48       | flags, compression, allocated, used, data size, MD5            | March 2015 until today |
| 40   | >= 40       | flags, compression, allocated, used, data size, 8 byte sum     | February to March 2015 |
| 36   | >= 36       | flags, allocated, used, data size, 8 byte sum; ENCODED chains  | the draft of 2015      |
| 44   | 40 to 44    | flags, allocated, used, 8 byte sum, the name of an encoding    | the draft of 2014      |

The drafts do not define their checksum, so it is never verified.  When the content changes it becomes zeros,
which means "none".

Pure functions and immutable classes.  Each of these is two classes, because a named tuple cannot remember the values
of its properties, and its subclass can.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from asdffs.format.constants import BLOCK_MAGIC, ENCODED, STREAMED
from asdffs.format.header import Header

_DATA_SIZE: Final = ("allocated_size", "used_size", "data_size")


class _HeaderForm(NamedTuple):
    packing: str
    fields: tuple[str, ...]
    flags: int = STREAMED
    compressions: tuple[str, ...] | None = None


class HeaderForm(_HeaderForm):
    """One form of a block header.

    ``packing``: the format for ``struct``.  ``fields``: fields of ``BlockHeader``, parallel to ``packing``.
    ``flags``: the bits that have a meaning.  ``compressions``: the compressions that a header can name, by
    their names for users; None if it can name any codec.
    """

    @functools.cached_property
    def size(self) -> int:
        """The smallest header_size, in bytes."""
        return struct.calcsize(self.packing)

    @functools.cached_property
    def summed(self) -> bool:
        """Whether the form has room for the checksum of the standard (MD5)."""
        return self.packing.endswith("16s") and self.fields[-1] == "checksum"

    @functools.cached_property
    def chained(self) -> bool:
        """Whether compressions are written as a chain of encodings before the content."""
        return bool(self.flags & ENCODED)

    def unpack(self, header: bytes, offset: int) -> dict[str, int | bytes]:
        """Return the fields at ``offset`` of ``header``."""
        return dict(zip(self.fields, struct.unpack_from(self.packing, header, offset), strict=True))

    def pack(self, values: Mapping[str, int | bytes]) -> bytes:
        """Return the bytes of the fields."""
        return struct.pack(self.packing, *(values[name] for name in self.fields))


FORM_48: Final = HeaderForm(">I4sQQQ16s", ("flags", "compression", *_DATA_SIZE, "checksum"))
FORM_40: Final = HeaderForm(
    ">I4sQQQQ", ("flags", "compression", *_DATA_SIZE, "checksum"), compressions=("zlib", "bzp2")
)
FORM_36: Final = HeaderForm(
    ">IQQQQ", ("flags", *_DATA_SIZE, "checksum"), flags=STREAMED | ENCODED, compressions=("zlib",)
)


def form_44(length: int) -> HeaderForm:
    """Return the form of 2014 for an encoding name of ``length`` bytes.

    That is 16, or fewer in the shorter headers (from 40 bytes) that the draft allows.
    """
    fields = ("flags", "allocated_size", "used_size", "checksum", "encoding")
    return HeaderForm(f">IQQQ{length}s", fields, compressions=())


FORM_44: Final = form_44(16)


class _BlockRules(NamedTuple):
    magics: tuple[bytes, ...] = (BLOCK_MAGIC,)
    forms: tuple[HeaderForm, ...] = (FORM_48,)
    new: HeaderForm = FORM_48


class BlockRules(_BlockRules):
    """How the blocks of a file are written.

    ``magics``: the magics with which a block may begin, the usual one first.  ``forms``: the possible forms of
    its headers.  A header of exactly the size of one form most likely has that form.  A padded header has the
    first form, in this order, that fits.  ``new``: the form of a file's first block.
    """

    @functools.cached_property
    def least(self) -> int:
        """The smallest header_size, in bytes."""
        return min(form.size for form in self.forms)

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
