"""The draft of 2014, ``%ASDF 0.1.0``, and what it shares with that of 2015: how they describe ndarrays.

In both, ``dtype`` is today's ``datatype``, a missing byteorder means big, and tags are
``tag:stsci.edu:asdf/0.1.0/core/ndarray`` (sections Tree and ndarray).  Stateless.

In 2014, block headers had 40 to 44 bytes and could name an encoding; none was ever defined, so such a block shows its
stored bytes.  The text of the draft defines the magic 89 42 4c 4b, but the programs of that time wrote today's magic.
Both are read.  A new block gets the magic of the other blocks in its file; in a file without blocks, the magic of the
text.

| form | header_size | fields, all big-endian, after magic and header_size            | found in files of      |
|------|-------------|----------------------------------------------------------------|------------------------|
| 48   | >= 48       | flags, compression, allocated, used, data size, MD5            | March 2015 until today |
| 40   | >= 40       | flags, compression, allocated, used, data size, 8 byte sum     | February to March 2015 |
| 36   | >= 36       | flags, allocated, used, data size, 8 byte sum; ENCODED chains  | the draft of 2015      |
| 44   | 40 to 44    | flags, allocated, used, 8 byte sum, the name of an encoding    | the draft of 2014      |
"""

from __future__ import annotations

import re
from typing import Any, Final

from asdffs.dialects.base import Dialect
from asdffs.format.block_header import BlockRules, HeaderForm
from asdffs.format.constants import BLOCK_MAGIC, ENCODED, STREAMED
from asdffs.format.text import Header, build_header

#: The only version that was ever written.
VERSION: Final = (0, 1, 0)
_NDARRAY: Final = re.compile(r"tag:stsci\.edu:asdf/\d+\.\d+\.\d+/core/ndarray")


#: The magic of blocks in the text of the draft of 2014.
DRAFT_MAGIC: Final = b"\x89BLK"
_DATA_SIZE: Final = ("allocated_size", "used_size", "data_size")

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


class DraftDialect(Dialect):
    """The dialect of a draft, whose header lines begin with ``token``."""

    token = b""
    indexed = False
    upgradable = True

    def claims(self, header: Header) -> bool:
        """Return whether the header line has the token and the version of this draft."""
        return header.token == self.token and header.version == VERSION

    def is_ndarray(self, tag: str) -> bool:
        """Return whether ``tag`` is ``core/ndarray``; the drafts put the version before the name."""
        return _NDARRAY.fullmatch(tag) is not None

    def ndarray(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return ``value`` with ``dtype`` renamed, also in its fields, and with its byteorder."""
        found = {**value, "datatype": _renamed(value.get("datatype", value.get("dtype")))}
        found.pop("dtype", None)
        if found["datatype"] is None:
            del found["datatype"]
        if "source" in found:
            found.setdefault("byteorder", "big")
        return found

    def accepts_text(self, header: Header) -> str | None:
        """Return why a text with this header line must not be committed, or None.

        Only the draft's own header line is accepted, because other generations have other block headers.
        """
        if self.claims(header):
            return None
        line = f"{self.token.decode()} 0.1.0"
        return f"the header line must stay '{line}': the blocks are written that way"

    def block_head(self, header: Header) -> bytes:
        """Return the header line alone: without a tree, the block follows at once."""
        return build_header(header)


def _renamed(datatype: Any) -> Any:
    """Return ``datatype`` with today's names in its fields."""
    if not isinstance(datatype, list):
        return datatype
    return [_field(field) if isinstance(field, dict) else field for field in datatype]


def _field(field: dict[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in field.items() if name != "dtype"}
    return {**found, "datatype": _renamed(field.get("datatype", field.get("dtype")))}


class Draft2014(DraftDialect):
    """The dialect ``%ASDF 0.1.0``."""

    name = "ASDF 0.1.0, draft of 2014"
    token = b"%ASDF"
    rules = BlockRules(
        magics=(DRAFT_MAGIC, BLOCK_MAGIC),
        forms=(FORM_44, *(form_44(length) for length in range(15, 11, -1))),
        new=FORM_44,
    )


PLUGIN = Draft2014()
