r"""Parse and build the block index (section Block index), and find its start from the end of the file.

    "#ASDF BLOCK INDEX" NL "%YAML 1.1" NL "---" list of integers NL "..." [NL] NUL*

The integers are parsed as text, because YAML takes 25 times as long for 100,000 entries.  An index that is
written in any other way is not accepted ("be conservative").  Pure functions.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from asdffs.format.constants import BLOCK_PREFIX_SIZE, INDEX_TOKEN, MIN_HEADER_SIZE

_INDEX = re.compile(
    re.escape(INDEX_TOKEN) + rb"\r?\n(?:%YAML 1\.\d\r?\n)?---([\s\d,\[\]-]*?)\r?\n?\.\.\.(?:\r?\n)?\Z"
)
#: A line of text: what is no index, such as a block, has other bytes.
_TEXT = re.compile(rb"[\t\r\x20-\x7e]*")
_INTEGER = re.compile(rb"\d+")
#: A negative number is not an offset.  The dash of a list item has a space after it.
_NEGATIVE = re.compile(rb"-\d")
#: More than the bytes of the first two lines of an index, newlines included.
_LONGEST_HEAD = 40
_LETTERS = re.compile(rb"[A-Z]")
_NOT_INDEX = re.compile(rb"[^\s\d,\[\]\-.%#A-Z]")


def parse_block_index(text: bytes) -> tuple[int, ...] | None:
    """Return the offsets of the blocks, in bytes from the start of the file; None if ``text`` is not an index.

    ``text`` runs from the index header to the end of the file, without trailing NULs.  The offsets are strictly
    increasing, each at least a block header after the one before.
    """
    match = _INDEX.match(text)
    if match is None or _NEGATIVE.search(match[1]) is not None:
        return None
    offsets = tuple(map(int, _INTEGER.findall(match[1])))
    least = BLOCK_PREFIX_SIZE + MIN_HEADER_SIZE
    gaps_fit = all(b - a >= least for a, b in itertools.pairwise(offsets))
    return offsets if offsets and gaps_fit else None


def build_block_index(offsets: Sequence[int], *, newline: bytes = b"\n") -> bytes:
    """Return the index of blocks at ``offsets``: one YAML flow list, ready to follow the last block."""
    entries = b", ".join(b"%d" % offset for offset in offsets)
    return newline.join((INDEX_TOKEN, b"%YAML 1.1", b"--- [" + entries + b"]", b"...", b""))


def find_index_start(tail: bytes) -> int | None:
    """Return the offset in ``tail`` of the last index header, or None."""
    found = tail.rfind(INDEX_TOKEN)
    return found if found >= 0 else None


def is_removable_index(text: bytes) -> bool:
    """Return whether ``text``, which follows the last block, is an index or the beginning of one.

    An index that asdffs does not accept, because it is stale, has a comment or a hexadecimal number, or is no list,
    also counts: it holds nothing that is not in the file anyway.  Nothing may follow its end.
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
        if _TEXT.fullmatch(line) is None:
            return False
    return False


def may_be_index(piece: bytes) -> bool:
    """Return whether ``piece`` has only characters that occur in an index.  If not, stop going backward.

    Letters occur only in the first two lines.  Those lines begin with ``#`` or ``%``, maybe in the piece
    before.
    """
    if _NOT_INDEX.search(piece) is not None:
        return False
    return b"#" in piece or b"%" in piece or _LETTERS.search(piece, _LONGEST_HEAD) is None
