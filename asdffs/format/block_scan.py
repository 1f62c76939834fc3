"""Finds blocks by asking for bytes: reads block headers, and skips from one block to the next (sans-I/O).

A scan is a generator.  It yields ``Need(offset, length)`` and is sent 1 to ``length`` bytes from there, or
``b""`` at the end of the file.  If it gets fewer bytes than it needs, it asks again, so it may be fed byte by
byte.  It returns a frozen result.  ``drive`` runs a scan with any ``read_at(offset, length)``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import NamedTuple, TypeVar

from asdffs.errors import DamagedBlockError, DamagedFileError
from asdffs.format.block_header import (
    FORM_48,
    RULES_1,
    BlockHeader,
    BlockRules,
    HeaderForm,
    parse_block_header,
    parse_block_prefix,
)
from asdffs.format.block_index import is_removable_index
from asdffs.format.constants import BLOCK_MAGIC, BLOCK_PREFIX_SIZE, INDEX_TOKEN, NO_CHECKSUM

#: First piece read, in bytes: holds most trees, and the first block's header.
FIRST_PIECE = 1 << 16
#: Bytes of the magic and the header that most blocks have.
_USUAL_HEADER = BLOCK_PREFIX_SIZE + FORM_48.size
#: The most magics at which a block of a dialect with two magics is looked for.
_MOST_MAGICS = 64
#: Largest piece read at once, in bytes.
LARGEST_PIECE = 1 << 22
#: Longest run of NULs after the index, in bytes.  After more of them the index is not found.
_MOST_TRAILING_NULS = 1 << 24
#: Longest run of NULs between two blocks, in bytes.  After more of them the second block is not found.
_LARGEST_GAP: int = 1 << 20
#: File sizes have 63 bits.
_LARGEST = 1 << 63
#: First piece read at the end of the file, in bytes: holds most indexes.
_FIRST_TAIL = 1 << 14
#: Longest tail that can be an index, in bytes: 1 MiB holds 100,000 entries.
LARGEST_INDEX = 1 << 26

T = TypeVar("T")


class Need(NamedTuple):
    """The scan needs up to ``length`` (> 0) bytes at ``offset`` from the start of the file."""

    offset: int
    length: int


Scan = Generator[Need, bytes, T]


class Walk(NamedTuple):
    """The blocks found by skipping from one to the next.

    ``offsets``: the offset of each magic.  ``headers``: parallel to them, None for a header that contradicts
    itself.  ``end``: end of the last allocation, which may be past the end of the file; that of its content if
    another block seems to follow that in an allocation which the file does not have room for.  ``trouble``: why the
    walk ended early, or None.  ``removable``: nothing but an index (complete or not, valid or stale) or NULs
    follows the last block.
    """

    offsets: tuple[int, ...]
    headers: tuple[BlockHeader | None, ...]
    end: int
    trouble: DamagedBlockError | None
    removable: bool


def drive(scan: Scan[T], read_at: Callable[[int, int], bytes]) -> T:
    """Run ``scan`` to its result; ``read_at(offset, length)`` provides the bytes."""
    try:
        need = next(scan)
        while True:
            need = scan.send(read_at(need.offset, need.length))
    except StopIteration as done:
        result: T = done.value
        return result


def scan_block_header(offset: int, rules: BlockRules = RULES_1) -> Scan[BlockHeader]:
    """Read the block header at ``offset``, at once if it has the usual size.  Raises ``DamagedBlockError``."""
    whole = yield Need(offset, _USUAL_HEADER)
    if len(whole) < _USUAL_HEADER:
        whole += yield from exactly(offset + len(whole), _USUAL_HEADER - len(whole))
    size = parse_block_prefix(whole, offset=offset, rules=rules)
    if size != FORM_48.size:
        whole = whole[: BLOCK_PREFIX_SIZE + size]
        whole += yield from exactly(offset + len(whole), BLOCK_PREFIX_SIZE + size - len(whole))
    forms = rules.candidates(size)
    if len(forms) == 1:
        return parse_block_header(whole, offset=offset, form=forms[0], rules=rules)
    return (yield from _scan_padded_header(offset, whole, forms, rules))


def _scan_padded_header(
    offset: int, whole: bytes, forms: tuple[HeaderForm, ...], rules: BlockRules
) -> Scan[BlockHeader]:
    """Return a header in the likeliest form: its size alone does not tell which of ``forms`` it has.

    The likeliest form is the first one after whose block another block, the index or the end of the file
    follows.  If there is none, as in a truncated file, it is a form of exactly this size, or the first without
    odd values.  Raises ``DamagedBlockError`` if no form fits.
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
        end = header.end(offset)
        if header.streamed or (yield from _is_next(end, rules)):
            return header
        found.append(header)
    if found and (not found[0].extra or not troubles or troubles[0].end is None):
        return found[0]
    raise (troubles or [DamagedBlockError("the block header matches no form of the drafts", offset=offset)])[0]


def _is_odd(header: BlockHeader) -> bool:
    """Return whether a header looks wrong for its form.

    It then has flags or a compression that no program writes, or a checksum of another form.
    """
    printable = header.compression.rstrip(b"\0").isalnum() if header.compressed else True
    if header.flags & ~header.form.flags or not printable:
        return True
    short = header.checksum != NO_CHECKSUM and not header.checksum[8:].strip(b"\0")
    if header.form.has_md5:
        return bool(header.extra) and short  # a padded header of 40 bytes
    same = short and int.from_bytes(header.checksum[:8], "big") == header.used_size
    return "data_size" not in header.form.fields and same  # a padded header of 36 bytes


def _is_next(offset: int, rules: BlockRules) -> Scan[bool]:
    """Return whether a block, an index or the end of the file is at ``offset``."""
    if offset >= _LARGEST or not (yield from exactly(offset - 1, 1)):
        return False
    found = yield from exactly(offset, len(INDEX_TOKEN))
    return not found or found == INDEX_TOKEN or found.startswith(rules.magics)


def scan_blocks(size: int, first: int, rules: BlockRules = RULES_1) -> Scan[Walk]:
    """Skip along the blocks from ``first`` on, in a file of ``size`` bytes."""
    offsets: list[int] = []
    headers: list[BlockHeader | None] = []
    offset, trouble = first, None
    while offset < size:
        magic = yield from exactly(offset, len(BLOCK_MAGIC))
        if magic not in rules.magics:
            gap_end = (yield from _scan_over_gap(offset, size, rules)) if offsets else None
            if gap_end is None:
                break
            offset = gap_end
        header, end, trouble = yield from _scan_one(offset, rules)
        if trouble is not None:
            break
        offsets.append(offset)
        if header is not None and end is not None and end > size:
            content_end = offset + header.full_size + header.used_size
            hidden = yield from scan_magic(size, content_end, Window(content_end, bytearray()), rules)
            if hidden is not None:  # the allocation cannot be right, so its slack is not the block's
                headers.append(header._replace(allocated_size=header.used_size))
                return Walk(tuple(offsets), tuple(headers), content_end, None, removable=False)
        headers.append(header)
        offset = size if end is None else end
    removable = trouble is None and (yield from _scan_rest(min(offset, size), size))
    return Walk(tuple(offsets), tuple(headers), offset, trouble, removable)


def _scan_over_gap(start: int, size: int, rules: BlockRules) -> Scan[int | None]:
    """Return the offset of the block after NULs that belong to no block.

    None if no block follows them, or if it is damaged.
    """
    offset = start
    while offset < min(size, start + _LARGEST_GAP):
        piece = yield from exactly(offset, min(FIRST_PIECE, size - offset))
        nuls = len(piece) - len(piece.lstrip(b"\0"))
        offset += nuls
        if nuls < len(piece) or not piece:
            break
    if offset == start or (yield from exactly(offset, len(BLOCK_MAGIC))) not in rules.magics:
        return None
    header, end, _ = yield from _scan_one(offset, rules)
    return offset if header is not None and (end is None or end <= size) else None


def _scan_one(
    offset: int, rules: BlockRules
) -> Scan[tuple[BlockHeader | None, int | None, DamagedBlockError | None]]:
    """Return the header of the block at ``offset``, the end of the block, and the trouble with it.

    The end is None if the block ends with the file.  The trouble is an error if it is unknown what follows the
    block.  The header is None if it contradicts itself, even if what follows it is found.
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
    return header, None if header.streamed else header.end(offset), None


def scan_end(offset: int, rules: BlockRules) -> Scan[int | None]:
    """Return the end of the block at ``offset`` by its header.

    None if the header does not tell it, or if the block ends with the file.
    """
    try:
        header = yield from scan_block_header(offset, rules)
    except DamagedBlockError as err:
        return err.end
    return None if header.streamed else header.end(offset)


def scan_back_over_nuls(size: int, floor: int) -> Scan[int]:
    """Return the offset after the last byte that is not NUL, at least ``floor``."""
    stop, wanted = size, _FIRST_TAIL
    while stop > floor and size - stop < _MOST_TRAILING_NULS:
        length, wanted = min(wanted, stop - floor), FIRST_PIECE
        piece = yield from exactly(stop - length, length)
        kept = len(piece.rstrip(b"\0"))
        stop = stop - length + kept
        if kept:
            break
    return stop


def _scan_rest(start: int, size: int) -> Scan[bool]:
    """Return whether nothing but an index (complete or not, valid or stale) or NULs follows the last block."""
    stop = yield from scan_back_over_nuls(size, start)
    if stop - start > LARGEST_INDEX:
        return False
    rest = yield from exactly(start, stop - start)
    return not rest or is_removable_index(rest)


def exactly(offset: int, length: int) -> Scan[bytes]:
    """Return ``length`` bytes at ``offset``, fewer only at the end of the file."""
    pieces: list[bytes] = []
    while length > 0:
        piece = yield Need(offset, length)
        if not piece:
            break
        pieces.append(piece)
        offset, length = offset + len(piece), length - len(piece)
    return b"".join(pieces)


def scan_magic(size: int, end: int, window: Window, rules: BlockRules) -> Scan[int | None]:
    """Return the offset of the first magic at or after ``end``, or None."""
    found = _find_magic(window.held, end - window.start, rules)
    while found < 0 and window.stop < size:
        yield from window.slide(min(len(BLOCK_MAGIC) - 1, window.stop - end), size)
        found = _find_magic(window.held, 0, rules)
    return window.start + found if found >= 0 else None


def scan_sound(size: int, first: int, window: Window, rules: BlockRules) -> Scan[int]:
    """Return the offset of the first block with a sound header; ``first``, where a magic is, if there is none.

    Where a dialect has two magics, the padding may have the one that the blocks of the file do not have.
    ``window``: has the magic at ``first``; it only moves on, so no byte is read twice for the search.
    """
    place: int | None = first
    for _ in range(_MOST_MAGICS):
        if place is None:
            break
        header, _, _ = yield from _scan_one(place, rules)
        # the used bytes count, not the allocation: one that ends behind the file must not hide the block
        if header is not None and (header.streamed or place + header.full_size + header.used_size <= size):
            return place
        place = yield from scan_magic(size, place + 1, window, rules)
    return first


def _find_magic(held: bytearray, start: int, rules: BlockRules) -> int:
    """Return the place in ``held`` of the first magic from ``start`` on, or -1."""
    places = [place for magic in rules.magics if (place := held.find(magic, start)) >= 0]
    return min(places, default=-1)


class Window:
    """The piece of the file in which a search looks: ``held`` begins at ``start``.  Bounded memory."""

    def __init__(self, start: int, held: bytearray) -> None:
        self.start = start
        self.held = held

    @property
    def stop(self) -> int:
        """Where the piece ends."""
        return self.start + len(self.held)

    def slide(self, keep: int, size: int) -> Scan[None]:
        """Drop all but the last ``keep`` bytes, and add the next piece."""
        dropped = len(self.held) - keep
        del self.held[:dropped]
        self.start += dropped
        wanted = min(LARGEST_PIECE, max(FIRST_PIECE, self.stop))  # at most twice the text is read
        piece = yield from exactly(self.stop, min(wanted, size - self.stop))
        if not piece:
            raise DamagedFileError("the file became shorter while it was read", offset=self.stop)
        self.held += piece
