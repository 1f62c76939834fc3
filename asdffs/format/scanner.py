"""Finds the layout of a file by asking for bytes: the header, the tree, the blocks and the index (sans-I/O).

Scans are generators, see ``block_scan``.  With a valid index, ``scan_layout`` reads the text, the index and about 130
block headers at most, whatever the number and size of the blocks.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

from asdffs.errors import DamagedFileError
from asdffs.format.block_header import BlockRules, RulesOf, rules_1
from asdffs.format.block_index import find_index_start, may_be_index, parse_block_index
from asdffs.format.block_scan import (
    FIRST_PIECE,
    LARGEST_INDEX,
    LARGEST_PIECE,
    Scan,
    Window,
    exactly,
    scan_back_over_nuls,
    scan_blocks,
    scan_end,
    scan_magic,
    scan_sound,
)
from asdffs.format.constants import BLOCK_MAGIC, INDEX_TOKEN
from asdffs.format.layout import Layout, Span
from asdffs.format.text import END_MARKER_MAX, MAX_HEADER_LINE, Header, find_comments_end, find_tree_end, parse_header

#: Index entries compared with the blocks when the file is opened; the others are compared when they are used.
_CHECKED: int = 128


class _Text(NamedTuple):
    header: Header
    start: int
    end: int
    first_block: int | None
    rules: BlockRules


def scan_text_end(size: int, rules_of: RulesOf = rules_1) -> Scan[int]:
    """Find the end of the text of a file of ``size`` bytes: header, comments and tree.  Raises as ``scan_layout``."""
    return (yield from _scan_text(size, rules_of, blocks=False)).end


def scan_layout(size: int, rules_of: RulesOf = rules_1, *, trusting: bool = False) -> Scan[Layout]:
    """Find the layout of a file of ``size`` bytes; ``rules_of(header line)`` gives the rules for its blocks.

    ``trusting``: compare the index with no block now, because each read is slow; the table of the blocks compares
    each entry when it is used.

    Raises ``NotAsdfError`` or ``DamagedFileError``, and the errors of ``rules_of``.  A damaged block raises
    nothing, because the tree and the other blocks are still usable.  It ends the list of blocks, unless the
    scan finds what follows it.
    """
    text = yield from _scan_text(size, rules_of, blocks=True)
    start, first, rules = (size, text.header, text.start, text.end), text.first_block, text.rules
    if first is None:
        return Layout(*start, None, (), size, None, removable=True, rules=rules)
    tail = yield from _scan_index(size, text.end, first, rules, trusting=trusting)
    if tail is not None:
        offsets, index = tail
        return Layout(*start, offsets[0], offsets, index.start, index, removable=True, rules=rules)
    walk = yield from scan_blocks(size, first, rules)
    return Layout(*start, first, walk.offsets, walk.end, None, removable=walk.removable, rules=rules)


def _scan_text(size: int, rules_of: RulesOf, *, blocks: bool) -> Scan[_Text]:
    text = yield from exactly(0, min(size, FIRST_PIECE))
    header = parse_header(text[:MAX_HEADER_LINE])
    rules = rules_of(header)
    start = find_comments_end(text, header.size)
    while start is None and len(text) < size:
        text += yield from exactly(len(text), min(size - len(text), len(text)))
        start = find_comments_end(text, header.size)
    if start is None:  # only the header line and comments
        return _Text(header, size, size, None, rules)
    if text.startswith(rules.magics, start):
        return _Text(header, start, start, start, rules)
    if not text.startswith((b"%", b"---"), start):
        raise DamagedFileError("neither a tree nor a block follows the header and its comments", offset=start)
    window, end = yield from _scan_tree(size, start, text)
    first_block = (yield from scan_magic(size, end, window, rules)) if blocks else None
    if first_block is not None and len(rules.magics) > 1:
        first_block = yield from scan_sound(size, first_block, window, rules)
    return _Text(header, start, end, first_block, rules)


def _scan_tree(size: int, start: int, text: bytes) -> Scan[tuple[Window, int]]:
    """Find the end of the tree.  Returns what was read last, and the offset."""
    window = Window(0, bytearray(text))
    end = find_tree_end(window.held, start, at_eof=window.stop == size)
    while end is None:
        if window.stop >= size:
            raise DamagedFileError("the tree has no end: no line '...' follows", offset=start)
        yield from window.slide(END_MARKER_MAX - 1, size)
        end = find_tree_end(window.held, 0, at_eof=window.stop == size)
    return window, end + window.start


def _scan_index(
    size: int, text_end: int, first_block: int, rules: BlockRules, *, trusting: bool
) -> Scan[tuple[tuple[int, ...], Span] | None]:
    """Return the offsets and the span of the valid index, or None.

    Valid (section Implementation recommendations): its first entry is ``first_block``, and the block of its
    last entry ends where the index begins.  For the first entries the scan also checks that the index leaves
    out no block between them, because then all following blocks would have other numbers.

    An index is also valid if its first blocks lost their magics and are taken for padding: else every other block
    would have a wrong number, and arrays the data of other arrays.
    """
    found = yield from _scan_index_text(size, first_block)
    if found is None:
        return None
    start, text = found
    offsets = parse_block_index(text)
    if offsets is None or offsets[-1] >= start or first_block not in offsets:
        return None
    number = offsets.index(first_block)
    if number and (offsets[0] < text_end or not (yield from _are_damaged(offsets[:number]))):
        return None
    if (number or not trusting) and not (yield from _is_right_index(offsets[number:], start, rules)):
        return None
    return offsets, Span(start, start + len(text))


def _are_damaged(offsets: tuple[int, ...]) -> Scan[bool]:
    """Return whether something is at each of ``offsets``, where no magic is.  Padding is blank."""
    for offset in offsets:
        if not (yield from exactly(offset, len(BLOCK_MAGIC))).strip(b" \0\t\r\n"):
            return False
    return True


def _is_right_index(offsets: tuple[int, ...], start: int, rules: BlockRules) -> Scan[bool]:
    """Return whether the blocks are where an index at ``start`` says, as far as the first and the last ones tell."""
    first_block = offsets[0]
    first_end = yield from scan_end(first_block, rules)
    if first_end is None or (yield from scan_end(offsets[-1], rules)) != start:
        return False
    for offset, following in itertools.pairwise(offsets[:_CHECKED]):
        if (yield from _is_left_out(offset, following, rules)):
            return False
    return True


def _is_left_out(offset: int, following: int, rules: BlockRules) -> Scan[bool]:
    """Return whether a block lies between the one at ``offset`` and the next one of the index."""
    end = yield from scan_end(offset, rules)
    if end is None or end >= following:
        return False
    return (yield from exactly(end, len(BLOCK_MAGIC))) in rules.magics


def _scan_index_text(size: int, floor: int) -> Scan[tuple[int, bytes] | None]:
    """Go backward from the end, over NULs, then over an index.  Return its offset and its text, or None."""
    stop = yield from scan_back_over_nuls(size, floor)
    tail = b""
    piece_size = 1 << 12
    while stop - len(tail) > floor:
        length = min(piece_size, stop - len(tail) - floor)
        start = stop - len(tail) - length
        piece = yield from exactly(start, length)
        tail = piece + tail
        found = find_index_start(tail[: length + len(INDEX_TOKEN)])
        if found is not None:
            return start + found, tail[found:]
        if not may_be_index(piece) or len(tail) > LARGEST_INDEX:
            return None
        piece_size = min(piece_size * 4, LARGEST_PIECE)
    return None
