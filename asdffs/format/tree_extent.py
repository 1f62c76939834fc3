r"""Find the end of the comments and the end of the tree (section Tree).

The file does not store the size of the tree.  The tree ends with the first line ``...`` after its start; the
standard finds it with ``\r?\n...\r?\n``.  At the end of a file the last newline may be missing.  Pure
functions.
"""

from __future__ import annotations

from typing import Final

#: Longest match of the end marker, in bytes: CR LF ... CR LF.  A search that continues in new bytes must step back
#: by one less than this.
END_MARKER_MAX: Final = 7

_END_MARKER: Final = b"\n..."
_NEWLINES: Final = (b"\r\n", b"\n")
#: Text that may follow the marker at the end of a file.
_AT_EOF: Final = (b"", b"\r")
#: Bytes that are searched at once.
_PIECE: Final = 1 << 20


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
    if not text.endswith(b"\n...", 0, stop) or rest[:1] in (b" ", b"\t"):
        return text
    windows = rest.startswith(b"\r\n") or (not rest and text.endswith(b"\r\n..."))
    newline = b"\r\n" if windows else b"\n"
    return text if rest == newline else text[:stop] + newline
