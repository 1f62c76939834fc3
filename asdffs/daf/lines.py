r"""Strings of a store: one a line, UTF-8, each ended by ``\n`` (specification, section 5).

Pure, but for reading.
"""

from __future__ import annotations

from collections.abc import Iterable

from asdffs.daf.files import Content, pieces
from asdffs.errors import InvalidStoreError


def build_lines(lines: Iterable[str]) -> bytes:
    """The bytes of ``lines``."""
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")


def parse_lines(raw: bytes) -> list[str]:
    """The lines of all of a file.  Raises ``InvalidStoreError``."""
    if raw and not raw.endswith(b"\n"):
        raise InvalidStoreError("does not end with a newline: its last line is incomplete")
    try:
        return raw.decode().split("\n")[:-1]
    except UnicodeDecodeError as err:
        line = raw.count(b"\n", 0, err.start) + 1
        raise InvalidStoreError(f"is no UTF-8 in line {line}") from err


def has_returns(content: Content) -> bool:
    """Whether the first line ends in CR LF: the CR is a part of the string, which nobody sees."""
    line = next(iter(pieces(content)), b"").partition(b"\n")
    return line[0].endswith(b"\r") and bool(line[1])


def count_lines(content: Content) -> int:
    """How many lines there are, without keeping them.  Raises ``InvalidStoreError`` when the last is incomplete."""
    count, last = 0, b"\n"
    for piece in pieces(content):
        count += piece.count(b"\n")
        last = piece[-1:]
    if last != b"\n":
        raise InvalidStoreError("does not end with a newline: its last line is incomplete")
    return count
