"""Scanner: finds what lies where by asking for bytes (sans-I/O).

A scan is a generator: it yields ``Need(offset, length)`` and is sent 1 to ``length``
bytes from there, or ``b""`` at the end of the file; it returns a frozen result.  A short
answer is asked for again, so a scan may be fed byte by byte.  ``drive`` runs a scan
against any ``read_at(offset, length)``.

Cost of ``scan_layout`` with a valid
index: the text, the index, and two block headers, whatever the number and size of blocks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from asdffs.errors import DamagedBlockError, DamagedFileError
from asdffs.format.block_form import RULES_1, BlockRules, HeaderForm, RulesOf, rules_1
from asdffs.format.block_header import BlockHeader, parse_block_header, parse_block_prefix
from asdffs.format.block_index import find_index_start, is_removable_index, may_be_index, parse_block_index
from asdffs.format.constants import BLOCK_MAGIC, BLOCK_PREFIX_SIZE, INDEX_TOKEN, NO_CHECKSUM
from asdffs.format.header import MAX_HEADER_LINE, Header, parse_header
from asdffs.format.layout import Layout
from asdffs.format.span import Span
from asdffs.format.tree_extent import END_MARKER_MAX, find_comments_end, find_tree_end

#: First piece asked for, in bytes: holds most trees, and the first block's header.
_FIRST_PIECE = 1 << 16
#: Largest piece asked for at once, in bytes.
_LARGEST_PIECE = 1 << 22
#: NULs after the index beyond this are not looked through for one, in bytes.
_MOST_TRAILING_NULS = 1 << 24
#: More NULs between two blocks are not looked through for the second one, in bytes.
_LARGEST_GAP: int = 1 << 20
#: Entries of an index that are compared with the blocks when the file is opened; others when they are touched.
_CHECKED: int = 128
#: Sizes of files have 63 bits.
_LARGEST = 1 << 63
#: A tail longer than this is no index: 1 MiB holds 100,000 entries.
_LARGEST_INDEX = 1 << 26

T = TypeVar("T")


class Need(NamedTuple):
    """The scan needs up to ``length`` (> 0) bytes at ``offset`` from the start of the file."""

    offset: int
    length: int


Scan = Generator[Need, bytes, T]


class Walk(NamedTuple):
    """Blocks found by skipping along.

    ``offsets``: of each magic; ``headers``: parallel, None for one that contradicts itself; ``end``: of the last
    allocation, which may lie past the end of the file; ``trouble``: why the walk ended early, or None;
    ``removable``: nothing but an index of any state, or NULs, follows the last block.
    """

    offsets: tuple[int, ...]
    headers: tuple[BlockHeader | None, ...]
    end: int
    trouble: DamagedBlockError | None
    removable: bool


class _Text(NamedTuple):
    header: Header
    start: int
    end: int
    first_block: int | None
    rules: BlockRules


def drive(scan: Scan[T], read_at: Callable[[int, int], bytes]) -> T:
    """Run ``scan`` to its result, answering each need with ``read_at(offset, length)``."""
    try:
        need = next(scan)
        while True:
            need = scan.send(read_at(need.offset, need.length))
    except StopIteration as done:
        result: T = done.value
        return result


def scan_layout(size: int, rules_of: RulesOf = rules_1) -> Scan[Layout]:
    """Find the layout of a file of ``size`` bytes, whose blocks are written as ``rules_of(header line)`` says.

    Raises ``NotAsdfError`` or ``DamagedFileError``, or as ``rules_of``.  A damaged block ends the list of blocks,
    unless what follows it can be found, and raises nothing: the tree and the other blocks still serve.
    """
    text = yield from _scan_text(size, rules_of)
    start = size, text.header, text.start, text.end, text.first_block
    if text.first_block is None:
        return Layout(*start, (), size, None, removable=True, rules=text.rules)
    tail = yield from _scan_index(size, text.first_block, text.rules)
    if tail is not None:
        offsets, index = tail
        return Layout(*start, offsets, index.start, index, removable=True, rules=text.rules)
    walk = yield from scan_blocks(size, text.first_block, text.rules)
    return Layout(*start, walk.offsets, walk.end, None, removable=walk.removable, rules=text.rules)


def scan_block_header(offset: int, rules: BlockRules = RULES_1) -> Scan[BlockHeader]:
    """Read the block header at ``offset``.  Raises ``DamagedBlockError``."""
    prefix = yield from _exactly(offset, BLOCK_PREFIX_SIZE)
    size = parse_block_prefix(prefix, offset=offset, rules=rules)
    whole = prefix + (yield from _exactly(offset + BLOCK_PREFIX_SIZE, size))
    forms = rules.candidates(size)
    if len(forms) == 1:
        return parse_block_header(whole, offset=offset, form=forms[0], rules=rules)
    return (yield from _scan_padded_header(offset, whole, forms, rules))


def _scan_padded_header(
    offset: int, whole: bytes, forms: tuple[HeaderForm, ...], rules: BlockRules
) -> Scan[BlockHeader]:
    """The form that makes sense: the size alone does not tell which one a padded header has.

    That is the first one behind whose block another one, the index or the end of the file follows; else, as in a
    file that was cut, one of just that size, or the first that says nothing odd.
    """
    found: list[BlockHeader] = []
    troubles: list[DamagedBlockError] = []
    for form in forms:
        try:
            header = parse_block_header(whole, offset=offset, form=form, rules=rules)
        except DamagedBlockError as err:
            if err.end is not None and (yield from _is_next(err.end, rules)):
                troubles.insert(0, err)
            troubles.append(err)
            continue
        if _is_odd(header):
            continue
        end = offset + header.full_size + header.allocated_size
        if header.streamed or (yield from _is_next(end, rules)):
            return header
        found.append(header)
    if found and (not found[0].extra or not troubles or troubles[0].end is None):
        return found[0]
    raise (troubles or [DamagedBlockError("its header has none of the forms of the drafts", offset=offset)])[0]


def _is_odd(header: BlockHeader) -> bool:
    """Whether a header has flags or a compression that nobody writes, or a checksum of another form."""
    printable = header.compression.rstrip(b"\0").isalnum() if header.compressed else True
    if header.flags & ~header.form.flags or not printable:
        return True
    short = header.checksum != NO_CHECKSUM and not header.checksum[8:].strip(b"\0")
    if header.form.summed:
        return bool(header.extra) and short  # that of 40 bytes, padded
    same = short and int.from_bytes(header.checksum[:8], "big") == header.used_size
    return "data_size" not in header.form.fields and same  # that of 36 bytes, padded


def _is_next(offset: int, rules: BlockRules) -> Scan[bool]:
    """Whether a block, an index or the end of the file is at ``offset``."""
    if offset >= _LARGEST or not (yield from _exactly(offset - 1, 1)):
        return False
    found = yield from _exactly(offset, len(INDEX_TOKEN))
    return not found or found == INDEX_TOKEN or found.startswith(rules.magics)


def scan_blocks(size: int, first: int, rules: BlockRules = RULES_1) -> Scan[Walk]:
    """Skip along the blocks from ``first`` on, in a file of ``size`` bytes."""
    offsets: list[int] = []
    headers: list[BlockHeader | None] = []
    offset, trouble = first, None
    while offset < size:
        magic = yield from _exactly(offset, len(BLOCK_MAGIC))
        if magic not in rules.magics:
            gap_end = (yield from _scan_over_gap(offset, size, rules)) if offsets else None
            if gap_end is None:
                break
            offset = gap_end
        header, end, trouble = yield from _scan_one(offset, rules)
        if trouble is not None:
            break
        offsets.append(offset)
        headers.append(header)
        offset = size if end is None else end
    removable = trouble is None and (yield from _scan_rest(min(offset, size), size))
    return Walk(tuple(offsets), tuple(headers), offset, trouble, removable)


def _scan_over_gap(start: int, size: int, rules: BlockRules) -> Scan[int | None]:
    """Where the next block begins behind NULs that belong to no block; None where none does, or it is not sound."""
    offset = start
    while offset < min(size, start + _LARGEST_GAP):
        piece = yield from _exactly(offset, min(_FIRST_PIECE, size - offset))
        nuls = len(piece) - len(piece.lstrip(b"\0"))
        offset += nuls
        if nuls < len(piece) or not piece:
            break
    if offset == start or (yield from _exactly(offset, len(BLOCK_MAGIC))) not in rules.magics:
        return None
    header, end, _ = yield from _scan_one(offset, rules)
    return offset if header is not None and (end is None or end <= size) else None


def _scan_one(
    offset: int, rules: BlockRules
) -> Scan[tuple[BlockHeader | None, int | None, DamagedBlockError | None]]:
    """The header of a block and where it ends (None: with the file); or why nothing tells what follows it.

    One that contradicts itself is None, if what follows it is found all the same.
    """
    try:
        header = yield from scan_block_header(offset, rules)
    except DamagedBlockError as err:
        if err.end is None or err.end <= offset:
            return None, None, err
        if err.end >= _LARGEST:
            return None, None, None
        found = yield from _is_next(err.end, rules)
        return None, err.end, None if found else err
    return header, None if header.streamed else offset + header.full_size + header.allocated_size, None


def _exactly(offset: int, length: int) -> Scan[bytes]:
    """``length`` bytes at ``offset``, fewer only where the file ends."""
    pieces: list[bytes] = []
    while length > 0:
        piece = yield Need(offset, length)
        if not piece:
            break
        pieces.append(piece)
        offset, length = offset + len(piece), length - len(piece)
    return b"".join(pieces)


def _scan_text(size: int, rules_of: RulesOf) -> Scan[_Text]:
    text = yield from _exactly(0, min(size, _FIRST_PIECE))
    header = parse_header(text[:MAX_HEADER_LINE])
    rules = rules_of(header)
    start = find_comments_end(text, header.size)
    while start is None and len(text) < size:
        text += yield from _exactly(len(text), min(size - len(text), len(text)))
        start = find_comments_end(text, header.size)
    if start is None:  # the header line and comments, and nothing else
        return _Text(header, size, size, None, rules)
    if text.startswith(rules.magics, start):
        return _Text(header, start, start, start, rules)
    if not text.startswith((b"%", b"---"), start):
        raise DamagedFileError("neither a tree nor a block follows the header and its comments", offset=start)
    return (yield from _scan_tree(size, header, start, text, rules))


def _scan_tree(size: int, header: Header, start: int, text: bytes, rules: BlockRules) -> Scan[_Text]:
    window = _Window(0, bytearray(text))
    end = find_tree_end(window.held, start, at_eof=window.stop == size)
    while end is None:
        if window.stop >= size:
            raise DamagedFileError("the tree has no end: no line '...' follows", offset=start)
        yield from window.slide(END_MARKER_MAX - 1, size)
        end = find_tree_end(window.held, 0, at_eof=window.stop == size)
    end += window.start
    first_block = yield from _scan_magic(size, end, window, rules)
    return _Text(header, start, end, first_block, rules)


def _scan_magic(size: int, end: int, window: _Window, rules: BlockRules) -> Scan[int | None]:
    """Offset of the first magic at or after ``end``, or None."""
    found = _find_magic(window.held, end - window.start, rules)
    while found < 0 and window.stop < size:
        yield from window.slide(min(len(BLOCK_MAGIC) - 1, window.stop - end), size)
        found = _find_magic(window.held, 0, rules)
    return window.start + found if found >= 0 else None


def _find_magic(held: bytearray, start: int, rules: BlockRules) -> int:
    """Where the first magic from ``start`` on is in ``held``; negative where there is none."""
    places = [place for magic in rules.magics if (place := held.find(magic, start)) >= 0]
    return min(places, default=-1)


@dataclass(slots=True)
class _Window:
    """The piece of the file that a search looks at: ``held`` begins at ``start``.  Bounded memory."""

    start: int
    held: bytearray

    @property
    def stop(self) -> int:
        return self.start + len(self.held)

    def slide(self, keep: int, size: int) -> Scan[None]:
        """Go on: drop all but the last ``keep`` bytes, and add the next piece."""
        dropped = len(self.held) - keep
        del self.held[:dropped]
        self.start += dropped
        piece = yield from _exactly(self.stop, min(_LARGEST_PIECE, size - self.stop))
        if not piece:
            raise DamagedFileError("the file became shorter while it was read", offset=self.stop)
        self.held += piece


def _scan_index(size: int, first_block: int, rules: BlockRules) -> Scan[tuple[tuple[int, ...], Span] | None]:
    """The valid index of a file whose first block is at ``first_block``, or None.

    Valid (section Implementation recommendations): its first entry is the first block,
    its last entry a block whose allocation ends where the index begins.  Of the first entries it is also seen that
    no block is left out between them, because then all that follow would have other numbers.
    """
    found = yield from _scan_index_text(size, first_block)
    if found is None:
        return None
    start, text = found
    offsets = parse_block_index(text)
    if offsets is None or offsets[0] != first_block or offsets[-1] >= start:
        return None
    first_end = yield from _scan_end(first_block, rules)
    if first_end is None or (yield from _scan_end(offsets[-1], rules)) != start:
        return None
    for offset, following in itertools.pairwise(offsets[:_CHECKED]):
        if (yield from _is_left_out(offset, following, rules)):
            return None
    return offsets, Span(start, start + len(text))


def _is_left_out(offset: int, following: int, rules: BlockRules) -> Scan[bool]:
    """Whether a block lies between the one at ``offset`` and the next one of the index."""
    end = yield from _scan_end(offset, rules)
    if end is None or end >= following:
        return False
    return (yield from _exactly(end, len(BLOCK_MAGIC))) in rules.magics


def _scan_end(offset: int, rules: BlockRules) -> Scan[int | None]:
    """Where the block at ``offset`` ends, as far as its header says; None where it does not, or with the file."""
    try:
        header = yield from scan_block_header(offset, rules)
    except DamagedBlockError as err:
        return err.end
    return None if header.streamed else offset + header.full_size + header.allocated_size


def _scan_index_text(size: int, floor: int) -> Scan[tuple[int, bytes] | None]:
    """Go backward from the end, over NULs, then over an index; its offset and its text."""
    stop = yield from _scan_back_over_nuls(size, floor)
    tail = b""
    piece_size = 1 << 12
    while stop - len(tail) > floor:
        length = min(piece_size, stop - len(tail) - floor)
        start = stop - len(tail) - length
        piece = yield from _exactly(start, length)
        tail = piece + tail
        found = find_index_start(tail[: length + len(INDEX_TOKEN)])
        if found is not None:
            return start + found, tail[found:]
        if not may_be_index(piece) or len(tail) > _LARGEST_INDEX:
            return None
        piece_size = min(piece_size * 4, _LARGEST_PIECE)
    return None


def _scan_back_over_nuls(size: int, floor: int) -> Scan[int]:
    """End of the last byte that is not NUL, not before ``floor``."""
    stop = size
    while stop > floor and size - stop < _MOST_TRAILING_NULS:
        length = min(_FIRST_PIECE, stop - floor)
        piece = yield from _exactly(stop - length, length)
        kept = len(piece.rstrip(b"\0"))
        stop = stop - length + kept
        if kept:
            break
    return stop


def _scan_rest(start: int, size: int) -> Scan[bool]:
    """Whether what follows the last block is an index of any state, or NULs, or nothing."""
    stop = yield from _scan_back_over_nuls(size, start)
    if stop - start > _LARGEST_INDEX:
        return False
    rest = yield from _exactly(start, stop - start)
    return not rest or is_removable_index(rest)
