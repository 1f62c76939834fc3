r"""The header line and the comments after it (sections Header and Comments).

  header  = "#ASDF" " " major "." minor "." micro ["\r"] "\n"
  comment = "#" ... "\n"

Pure functions.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from asdffs.errors import NotAsdfError
from asdffs.format.constants import STANDARD_TOKEN

#: Longest header line, in bytes: "#ASDF " and three integers need far less.
MAX_HEADER_LINE = 64

_HEADER_LINE = re.compile(rb"([#%]ASDF) (\d{1,9})\.(\d{1,9})\.(\d{1,9})[ \t]*(\r?\n)")
_STANDARD_LINE = re.compile(rb"^" + STANDARD_TOKEN + rb"[ \t]+(\d+\.\d+\.\d+)[ \t]*\r?$", re.MULTILINE)

Version = tuple[int, int, int]


class Header(NamedTuple):
    """The header line: its token, its version, and the newline that the file uses.

    ``size`` is the length of the line with its newline, in bytes.
    """

    token: bytes
    version: Version
    newline: bytes
    size: int


def parse_header(head: bytes) -> Header:
    """Parse the header line at the start of ``head``.  Raises ``NotAsdfError`` if there is none."""
    match = _HEADER_LINE.match(head)
    if match is None:
        raise NotAsdfError(
            f"not an ASDF file: it should begin with a line like '#ASDF 1.0.0' and begins with {head[:16]!r}",
            offset=0,
        )
    major, minor, micro = (int(match[group]) for group in (2, 3, 4))
    return Header(match[1], (major, minor, micro), match[5], match.end())


def build_header(header: Header) -> bytes:
    """Return the header line as bytes, newline included."""
    return header.token + b" " + ".".join(map(str, header.version)).encode() + header.newline


def standard_version(comments: bytes) -> str | None:
    """Return the version that an ``#ASDF_STANDARD`` comment names, or None."""
    match = _STANDARD_LINE.search(comments)
    return match[1].decode() if match else None
