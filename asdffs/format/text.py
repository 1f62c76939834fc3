r"""The text of a file: the header line, the comments and the tree (sections Header, Comments and Tree).

  header  = "#ASDF" " " major "." minor "." micro ["\r"] "\n"
  comment = "#" ... "\n"

The file does not store the size of the tree.  The tree ends with the first line ``...`` after its start; the
standard finds it with ``\r?\n...\r?\n``.  At the end of a file the last newline may be missing.  Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from asdffs.errors import NotAsdfError
from asdffs.format.constants import STANDARD_TOKEN

#: Longest header line, in bytes: "#ASDF " and three integers need far less.
MAX_HEADER_LINE: Final = 64
#: Longest match of the end marker, in bytes: CR LF ... CR LF.  A search that continues in new bytes must step back
#: by one less than this.
END_MARKER_MAX: Final = 7

_END_MARKER: Final = b"\n..."
_NEWLINES: Final = (b"\r\n", b"\n")
#: Text that may follow the marker at the end of a file.
_AT_EOF: Final = (b"", b"\r")
#: Bytes that are searched at once.
_PIECE: Final = 1 << 20
#: Bytes compared at once to find where two texts differ.
_COMPARE: Final = 1 << 16

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


def find_comments_end(text: bytes, start: int) -> int | None:
    """Return the offset of the first line from ``start`` on that is not a comment; None if ``text`` ends before.

    ``start`` is the offset of the beginning of a line, in bytes from the start of ``text``.
    """
    while text.startswith(b"#", start):
        newline = text.find(b"\n", start)
        if newline < 0:
            return None
        start = newline + 1
    return start if start < len(text) else None


def ends_with_tree(text: bytes) -> bool:
    """Return whether the last line of ``text`` is the end marker of a tree."""
    stop = len(text)
    while stop and text[stop - 1] in b"\r\n":  # rstrip would copy the whole text
        stop -= 1
    return text.endswith(_END_MARKER, 0, stop)


def find_tree_end(text: bytes | bytearray, start: int, *, at_eof: bool) -> int | None:
    """Return the offset just after the end marker of the tree that begins at or before ``start``, or None.

    With ``at_eof``, ``text`` ends where the file ends, and the last newline may be missing.
    """
    place = find_in_pieces(text, _END_MARKER, start)
    while place >= 0:  # a regular expression takes a second for 30 MB, without releasing the GIL
        stop = place + len(_END_MARKER)
        for newline in _NEWLINES:
            if text.startswith(newline, stop):
                return stop + len(newline)
        if at_eof and text[stop:] in _AT_EOF:
            return len(text)
        place = find_in_pieces(text, _END_MARKER, stop)
    return None


def find_in_pieces(text: bytes | bytearray, what: bytes, start: int = 0) -> int:
    """Return where ``what`` begins in ``text``, at ``start`` or later; -1 if it is not there.

    Python lets no other thread run while it searches in bytes, which takes 40 ms for 50 MB.  So the text is searched
    in pieces.  A single byte is found ten times as fast, and needs none of this.
    """
    for place in range(start, len(text), _PIECE):
        found = text.find(what, place, place + _PIECE + len(what) - 1)
        if found >= 0:
            return found
    return -1


def complete_last_line(text: bytes) -> bytes:
    """Return ``text`` with exactly one newline after its end marker.

    A missing newline is added, and blank lines are removed.  A text without end marker is returned unchanged.
    """
    stop = len(text)
    while stop and text[stop - 1] in b" \t\r\n":  # rstrip would copy the whole text
        stop -= 1
    rest = text[stop:]
    if not text.endswith(_END_MARKER, 0, stop) or rest[:1] in (b" ", b"\t"):
        return text
    windows = rest.startswith(b"\r\n") or (not rest and text.endswith(b"\r\n..."))
    newline = b"\r\n" if windows else b"\n"
    return text if rest == newline else text[:stop] + newline


def difference(old: bytes, new: bytes) -> tuple[int, bytes] | None:
    """Return the offset of the first differing byte, and the new bytes from there to the last differing one.

    None if ``old`` and ``new`` are equal.  Raises ``ValueError`` if their lengths differ.
    """
    if len(old) != len(new):
        raise ValueError(f"lengths differ: {len(old)} and {len(new)}")
    if old == new:
        return None
    start = common_prefix(old, new)
    return start, new[start : len(new) - common_suffix(old, new, len(new))]


def common_prefix(old: bytes, new: bytes) -> int:
    """Return the number of bytes at the start that are the same."""
    return _number_of_same(lambda low, high: old[low:high] == new[low:high], min(len(old), len(new)))


def common_suffix(old: bytes, new: bytes, most: int) -> int:
    """Return the number of bytes at the end that are the same, at most ``most``."""

    def are_same(low: int, high: int) -> bool:
        return old[len(old) - high : len(old) - low] == new[len(new) - high : len(new) - low]

    return _number_of_same(are_same, most)


def _number_of_same(are_same: Callable[[int, int], bool], most: int) -> int:
    """Return how many of the first ``most`` bytes are the same; ``are_same(low, high)`` compares a range of them."""
    same = 0
    while same < most and are_same(same, min(same + _COMPARE, most)):
        same = min(same + _COMPARE, most)
    low, high = same, min(same + _COMPARE, most)
    while low < high:  # the first difference is in between
        middle = (low + high + 1) // 2
        low, high = (middle, high) if are_same(low, middle) else (low, middle - 1)
    return low


def with_replaced(text: str, spans: Iterable[tuple[int, int, str]]) -> str:
    """Return ``text`` with each span (start, stop, new) replaced; of two that overlap, the first counts."""
    pieces, done = list[str](), 0
    for start, stop, new in sorted(spans, key=lambda span: span[:2]):
        if start >= done:
            pieces += (text[done:start], new)
            done = stop
    return "".join((*pieces, text[done:]))
