"""Base of the dialects of the drafts of 2014 and 2015: version 0.1.0, and how they describe ndarrays.

``dtype`` is today's ``datatype``, a missing byteorder means big, and tags are
``tag:stsci.edu:asdf/0.1.0/core/ndarray``.  Implements sections Tree and ndarray of both drafts.  Stateless.
"""

from __future__ import annotations

import re
from typing import Any, Final

from asdffs.format.header import Header, build_header

#: The only version that was ever written.
VERSION: Final = (0, 1, 0)
_NDARRAY: Final = re.compile(r"tag:stsci\.edu:asdf/\d+\.\d+\.\d+/core/ndarray")


class DraftDialect:
    """See ``Dialect``.  Its header lines begin with ``token``."""

    name = ""
    token = b""
    indexed = False
    upgradable = True
    standards: tuple[str, ...] = ()

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
