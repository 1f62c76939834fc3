r"""Reads and builds files of strings: one per line, UTF-8, each ended by ``\n`` (specification, section 5).

Pure except for reading contents.
"""

from __future__ import annotations

from collections.abc import Iterable

from asdffs.errors import InvalidStoreError
from asdffs.features.daf.files import Content, pieces


def build_lines(lines: Iterable[str]) -> bytes:
    """Return the bytes of a file with these lines."""
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")


def parse_lines(raw: bytes) -> list[str]:
    """Return the lines of a whole file.

    Raises ``InvalidStoreError`` if the last line is incomplete or the text is not UTF-8.
    """
    if raw and not raw.endswith(b"\n"):
        raise InvalidStoreError("does not end with a newline: its last line is incomplete")
    try:
        return raw.decode().split("\n")[:-1]
    except UnicodeDecodeError as err:
        line = raw.count(b"\n", 0, err.start) + 1
        raise InvalidStoreError(f"is not UTF-8 in line {line}") from err


def has_returns(content: Content) -> bool:
    """Return whether the first line ends in CR LF; the CR is then an invisible part of the string."""
    line = next(iter(pieces(content)), b"").partition(b"\n")
    return line[0].endswith(b"\r") and bool(line[1])


def count_lines(content: Content) -> int:
    """Count the lines without keeping them.  Raises ``InvalidStoreError`` if the last one is incomplete."""
    count, last = 0, b"\n"
    for piece in pieces(content):
        count += piece.count(b"\n")
        last = piece[-1:]
    if last != b"\n":
        raise InvalidStoreError("does not end with a newline: its last line is incomplete")
    return count
