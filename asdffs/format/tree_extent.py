r"""Where the comments end, and where the tree ends (section Tree).

The tree has no stored size: it ends with the first line ``...`` after its start, which
the standard finds with ``\r?\n...\r?\n``; at the end of a file that newline may be missing.
Pure functions.
"""

from __future__ import annotations

from typing import Final

#: Longest match of the end marker, in bytes: CR LF ... CR LF.  A search that goes on in
#: new bytes must step back by one less than this.
END_MARKER_MAX: Final = 7

_END_MARKER: Final = b"\n..."
_NEWLINES: Final = (b"\r\n", b"\n")
#: What may follow the marker where the file ends.
_AT_EOF: Final = (b"", b"\r")


def find_comments_end(text: bytes, start: int) -> int | None:
    """Offset of the first line from ``start`` on that is no comment; None if ``text`` ends before.

    ``start`` is the offset of the beginning of a line, in bytes from the start of ``text``.
    """
    while text.startswith(b"#", start):
        newline = text.find(b"\n", start)
        if newline < 0:
            return None
        start = newline + 1
    return start if start < len(text) else None


def ends_with_tree(text: bytes) -> bool:
    """Whether the last line of ``text`` is the end marker of a tree."""
    stop = len(text)
    while stop and text[stop - 1] in b"\r\n":  # not by rstrip, which copies all of it
        stop -= 1
    return text.endswith(_END_MARKER, 0, stop)


def find_tree_end(text: bytes | bytearray, start: int, *, at_eof: bool) -> int | None:
    """Offset just after the end marker of the tree that begins at or before ``start``, or None.

    With ``at_eof``, ``text`` ends where the file ends, and the last newline may be missing.
    """
    place = text.find(_END_MARKER, start)
    while place >= 0:  # not by a regular expression, which takes a second for 30 MB, and lets nobody else work
        stop = place + len(_END_MARKER)
        for newline in _NEWLINES:
            if text.startswith(newline, stop):
                return stop + len(newline)
        if at_eof and text[stop:] in _AT_EOF:
            return len(text)
        place = text.find(_END_MARKER, stop)
    return None


def complete_last_line(text: bytes) -> bytes:
    """``text`` with one newline after its end marker: a missing one is added, blank lines are left out."""
    stop = len(text)
    while stop and text[stop - 1] in b" \t\r\n":  # not by rstrip, which copies all of it
        stop -= 1
    rest = text[stop:]
    if not text.endswith(b"\n...", 0, stop) or rest[:1] in (b" ", b"\t"):
        return text
    windows = rest.startswith(b"\r\n") or (not rest and text.endswith(b"\r\n..."))
    newline = b"\r\n" if windows else b"\n"
    return text if rest == newline else text[:stop] + newline
