"""ASDF 1.x: file format 1.0.0 of the standards 1.0.0 to 1.6.0, block headers of 48 bytes or more."""

from __future__ import annotations

import re
from typing import Final

from asdffs.dialects.base import Dialect
from asdffs.format.text import Header

_NDARRAY = re.compile(r"tag:stsci\.edu:asdf/core/ndarray-\d+\.\d+\.\d+")
#: The tags of the core that changed with the standard 1.6.0.  asdf makes no array of one of another version.
_CHANGED: Final = re.compile(r"tag:stsci\.edu:asdf/core/(?:ndarray|integer)-(\d+\.\d+\.\d+)")


class Asdf1(Dialect):
    """The dialect of all versions of the standard; see the head of this module."""

    name = "ASDF 1"
    standards = tuple(f"1.{minor}.0" for minor in range(7))

    def claims(self, header: Header) -> bool:
        """Return whether the header line is ``#ASDF 1.x.y``."""
        return header.token == b"#ASDF" and header.version[0] == 1

    def is_ndarray(self, tag: str) -> bool:
        """Return whether ``tag`` is ``core/ndarray``, of any version."""
        return _NDARRAY.fullmatch(tag) is not None

    def is_of_standard(self, tag: str, standard: str | None) -> bool:
        """Return whether ``tag`` is in the core manifest of the standard; without one, programs take it for 1.0.0."""
        found = _CHANGED.fullmatch(tag)
        return found is None or found[1] == ("1.1.0" if standard == self.standards[-1] else "1.0.0")

    def excludes_keys(self, standard: str | None) -> bool:
        """Return True from 1.6.0 on (section YAML subset)."""
        return standard == self.standards[-1]

    def accepts_text(self, header: Header) -> str | None:
        """Return why a text with this header line must not be committed, or None.

        Only ``#ASDF 1.0.0`` is accepted.  For other versions it is not known how their blocks are written.
        """
        if self.claims(header) and header.version == (1, 0, 0):
            return None
        return "the header line must stay '#ASDF 1.0.0': the blocks of this file are written that way"

    def block_head(self, header: Header) -> bytes:
        """Return the header line and the comment ``#ASDF_STANDARD``.

        The comment names the version of the standard by which such a file is read.
        """
        return b"#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n"


PLUGIN = Asdf1()
