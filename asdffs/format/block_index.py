r"""The block index (section Block index): parse, build, and find its start going backward.

    "#ASDF BLOCK INDEX" NL "%YAML 1.1" NL "---" list of integers NL "..." [NL] NUL*

Parsed as text integers: YAML takes 25 times as long for 100,000 entries, and an index
that is written in any other way is no index ("be conservative").  Pure functions.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from asdffs.format.constants import BLOCK_PREFIX_SIZE, INDEX_TOKEN, MIN_HEADER_SIZE

_INDEX = re.compile(
    re.escape(INDEX_TOKEN) + rb"\r?\n(?:%YAML 1\.\d\r?\n)?---([\s\d,\[\]-]*?)\r?\n?\.\.\.(?:\r?\n)?\Z"
)
#: What a line of YAML with offsets may have, comments left out: also hexadecimal numbers.
_OFFSETS = re.compile(rb"(?:%.*|(?:---)?[\s\dxXa-fA-F_,\[\]-]*)")
_INTEGER = re.compile(rb"\d+")
#: No offset; the dash of an item of a list has a space behind it.
_NEGATIVE = re.compile(rb"-\d")
#: Bytes of its first two lines, newlines included, and more.
_LONGEST_HEAD = 40
_LETTERS = re.compile(rb"[A-Z]")
_NOT_INDEX = re.compile(rb"[^\s\d,\[\]\-.%#A-Z]")


def parse_block_index(text: bytes) -> tuple[int, ...] | None:
    """Offsets of the blocks, in bytes from the start of the file; None if ``text`` is no index.

    ``text`` runs from the header to the end of the file without trailing NULs.  The
    offsets are strictly increasing, each at least a block header after the one before.
    """
    match = _INDEX.match(text)
    if match is None or _NEGATIVE.search(match[1]) is not None:
        return None
    offsets = tuple(map(int, _INTEGER.findall(match[1])))
    least = BLOCK_PREFIX_SIZE + MIN_HEADER_SIZE
    gaps_fit = all(b - a >= least for a, b in itertools.pairwise(offsets))
    return offsets if offsets and gaps_fit else None


def build_block_index(offsets: Sequence[int], *, newline: bytes = b"\n") -> bytes:
    """The index of blocks at ``offsets``, one YAML flow list, ready to follow the last block."""
    entries = b", ".join(b"%d" % offset for offset in offsets)
    return newline.join((INDEX_TOKEN, b"%YAML 1.1", b"--- [" + entries + b"]", b"...", b""))


def find_index_start(tail: bytes) -> int | None:
    """Offset in ``tail`` of the last index header that begins a line or ``tail`` itself, or None."""
    found = tail.rfind(INDEX_TOKEN)
    return found if found >= 0 else None


def is_removable_index(text: bytes) -> bool:
    """Whether ``text``, which follows the last block, is an index in any state, or the beginning of one.

    Also one that asdffs does not read, because it has a comment or a hexadecimal number: a list of offsets holds
    nothing that is not in the file anyway.  Nothing may follow its end.
    """
    first, _, rest = text.partition(b"\n")
    if first.strip() != INDEX_TOKEN:
        return INDEX_TOKEN.startswith(text)
    if may_be_index(text):
        return True
    place = 0
    for line in rest.split(b"\n"):
        place += len(line) + 1
        if line.rstrip() == b"...":
            return not rest[place:].strip()
        if _OFFSETS.fullmatch(line.partition(b"#")[0]) is None:
            return False
    return False


def may_be_index(piece: bytes) -> bool:
    """Whether ``piece`` has only what occurs in an index: if not, stop going backward.

    Letters occur in its first two lines only, which begin with signs of their own, maybe in the piece before.
    """
    if _NOT_INDEX.search(piece) is not None:
        return False
    return b"#" in piece or b"%" in piece or _LETTERS.search(piece, _LONGEST_HEAD) is None
