"""Plan: the fewest steps that make a wanted change, from a layout and a padding policy.

A plan is data: ``storage`` carries it out, and a test applies it to a byte string.  The steps apply to the old
bytes in this order: ``Move``, then ``Write``, then ``Truncate``.  Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from asdffs.errors import NoRoomError, Remedy
from asdffs.format.block_header import BlockHeader, build_block_header
from asdffs.format.block_index import build_block_index
from asdffs.format.layout import Layout, Padding
from asdffs.format.text import common_prefix, difference, ends_with_tree

#: How often the size of an index is made to fit.
_ROUNDS = 8


class Write(NamedTuple):
    """Write ``payload`` at ``offset``, in bytes from the start of the new file."""

    offset: int
    payload: bytes


class Move(NamedTuple):
    """Move the old bytes ``[source, source + length)`` to ``target``.

    The bytes before both stay where they are.  A gap between them is filled with zeros.
    """

    source: int
    target: int
    length: int

    @property
    def shift(self) -> int:
        """The distance in bytes; negative if the blocks move toward the start of the file."""
        return self.target - self.source


class Plan(NamedTuple):
    """Steps that turn a file of ``old_size`` bytes into one of ``new_size`` bytes.

    Without ``move`` the plan can be carried out in place; with it, a gap must be opened or closed.  ``steady``:
    the bytes before it are text and padding.  Only plans change these, never writes to blocks.
    """

    old_size: int
    new_size: int
    writes: tuple[Write, ...] = ()
    move: Move | None = None
    steady: int = 0

    @property
    def empty(self) -> bool:
        """Whether the plan changes nothing."""
        return not self.writes and self.move is None and self.old_size == self.new_size

    @property
    def checked_move(self) -> Move:
        """The move of a plan.  Raises ``ValueError`` if it has none."""
        if self.move is None:
            raise ValueError("the plan moves nothing")
        return self.move

    @property
    def written(self) -> int:
        """The number of bytes of payload."""
        return sum(len(write.payload) for write in self.writes)


def _changes_of_text(old: bytes, new: bytes) -> tuple[Write, ...]:
    """Return the write from the first to the last differing byte, or to the end of a longer ``new``.

    ``new`` is not shorter than ``old``.  Makes no other copy of either text.
    """
    if len(new) == len(old):
        changed = difference(old, new)
        return (Write(*changed),) if changed else ()
    start = common_prefix(old, new)
    return (Write(start, new[start:]),)


def plan_text(layout: Layout, old_text: bytes, padding_byte: bytes, new_text: bytes, policy: Padding) -> Plan:
    """Plan to replace the text ``old_text`` (header, comments and tree) by ``new_text``.

    ``padding_byte`` fills the bytes that a shorter tree frees.  The blocks move in two cases: the new text does
    not fit before the first block, or the file has no tree and so may have no padding.  The tail after the last
    block does not move with them, because its offsets become wrong.
    """
    if layout.first_block is None:
        return _plan_last_text(layout, old_text, padding_byte, new_text)
    room = layout.first_block
    if len(new_text) == room or (len(new_text) < room and ends_with_tree(new_text)):
        return _plan_fitting_text(layout, old_text, padding_byte, new_text)
    # section Blocks: without a tree the first block follows the header without padding
    target = room + policy.shift(room, len(new_text)) if ends_with_tree(new_text) else len(new_text)
    return _plan_moved_blocks(layout, room, new_text, padding_byte, target)


def plan_sized_text(
    layout: Layout,
    old_text: bytes,
    padding_byte: bytes,
    new_text: bytes,
    *,
    blocks: Callable[[], bytes],
    size_for: Callable[[int], int],
) -> tuple[Plan, Layout]:
    """Plan to replace the text of an ASDF file whose size another file around it decides.

    ``blocks()``: returns the bytes of all blocks.  ``size_for(least)``: the size that the ASDF file gets if it needs
    ``least`` bytes.  Nothing moves: if the blocks must, they are written again, with their index.  Return the plan,
    and the layout with the old text but with the new places.

    Raises ``NoRoomError`` if the text has no tree, or if bytes follow the blocks that would be overwritten.
    """
    if not ends_with_tree(new_text):
        raise NoRoomError("an ASDF file inside another file must keep its tree")
    if layout.first_block is None:
        size = size_for(len(new_text))
        wanted = new_text + b" " * (size - len(new_text))
        plan = Plan(layout.size, size, _changes_of_text(old_text.ljust(layout.size), wanted), steady=layout.size)
        return plan, layout._replace(size=size, blocks_end=size)
    if len(new_text) <= layout.first_block:
        return _plan_fitting_text(layout, old_text, padding_byte, new_text), layout
    if not layout.removable or layout.truncated:
        raise NoRoomError("the bytes after the last block are neither a block nor an index, and would be overwritten")
    content = blocks()
    after, index = _with_blocks_behind(layout, len(new_text), len(content), size_for)
    head = new_text + padding_byte * ((after.first_block or 0) - len(new_text))
    steady = min(layout.first_block, len(head))
    return Plan(layout.size, after.size, (Write(0, head + content + index),), steady=steady), after


def _with_blocks_behind(
    layout: Layout, text_size: int, blocks_size: int, size_for: Callable[[int], int]
) -> tuple[Layout, bytes]:
    """Return the layout with the blocks behind a longer text, as near to the end as possible, and its index."""
    index = b""
    for _ in range(_ROUNDS):  # the index is longer if the offsets have more digits
        size = size_for(text_size + blocks_size + len(index))
        first = size - len(index) - blocks_size
        moved = tuple(offset + first - (layout.first_block or 0) for offset in layout.offsets)
        before, index = index, build_block_index(moved, newline=layout.header.newline) if layout.index else b""
        if len(index) == len(before):
            end = first + blocks_size
            after = layout._replace(first_block=first, offsets=moved, blocks_end=end, size=size, index=None)
            return (after.with_index(len(index)) if index else after), index
    raise NoRoomError("no size of the ASDF file has room for the tree and for the index of its blocks")


def plan_block_headers(
    layout: Layout, changes: Sequence[tuple[int, BlockHeader, BlockHeader]], *, resize_to: int | None = None
) -> Plan:
    """Plan to change block headers: the offset of each block, its old header and its new one.

    With ``resize_to``, the file also gets this size in bytes.
    """
    writes = tuple(write for change in changes for write in _writes_of_header(*change))
    size = layout.size if resize_to is None else resize_to
    return Plan(layout.size, size, writes, steady=layout.padding.stop)


def _writes_of_header(offset: int, old: BlockHeader, new: BlockHeader) -> tuple[Write, ...]:
    changed = difference(build_block_header(old), build_block_header(new))
    return (Write(offset + changed[0], changed[1]),) if changed else ()


def plan_block_growth(layout: Layout, number: int, old: BlockHeader, policy: Padding, allocation: int) -> Plan:
    """Plan to give a block other than the last one at least ``allocation`` bytes; the blocks after it move.

    Its header gets the larger allocation.  The tail after the last block is dropped, as when the tree grows.
    """
    source = layout.offsets[number + 1]
    shift = policy.aligned(allocation - old.allocated_size)
    new = old._replace(allocated_size=old.allocated_size + shift)
    return _moved(layout, _writes_of_header(layout.offsets[number], old, new), source, source + shift)


def plan_block_slots(
    layout: Layout, number: int, old: BlockHeader, new: BlockHeader, slots: Sequence[tuple[int, int, bytes]]
) -> Plan:
    """Plan to replace parts of the content of a block: each by its offset in the file, its length and new bytes.

    At most one part gets longer.  The bytes behind it move, the blocks after it as well; the tail is dropped then.
    """
    offset = layout.offsets[number]
    grown = [(place + length, len(stored) - length) for place, length, stored in slots if len(stored) != length]
    writes = list(_writes_of_header(offset, old, new))
    for place, _, stored in slots:
        moved = bool(grown) and place >= grown[0][0]
        writes.append(Write(place + grown[0][1] if moved else place, stored))
    if not grown:
        return Plan(layout.size, layout.size, tuple(writes), steady=layout.padding.stop)
    ((source, shift),) = grown
    return _moved(layout, tuple(writes), source, source + shift)


def plan_block_append(
    layout: Layout, headers: Sequence[BlockHeader], padding_byte: bytes, policy: Padding
) -> tuple[Plan, Layout]:
    """Plan to add at least one block header to a file without a tail.  Return the plan and the new layout.

    The allocations are filled with zeros.  Before the first block of a file the plan leaves padding after the
    tree, unless there is some already.
    """
    if layout.first_block is not None:
        start = layout.blocks_end
    elif layout.has_tree and not layout.padding:
        start = policy.shift(0, layout.size)
    else:
        start = layout.size
    padding = padding_byte * max(0, start - layout.size) if layout.first_block is None else b""
    writes, new = [], layout
    for header in headers:
        raw = padding + build_block_header(header)
        writes.append(Write(start - len(padding), raw))
        end = header.end(start)
        new, start, padding = new.with_block(start, end), end, b""
    return Plan(layout.size, new.size, tuple(writes), steady=layout.text_end), new


def plan_block_removal(layout: Layout) -> Plan:
    """Plan to cut off the last block of a file without a tail."""
    return Plan(layout.size, layout.offsets[-1], steady=layout.padding.stop)


def plan_cut_tail(layout: Layout) -> Plan:
    """Plan to cut off the index and everything after it.

    Raises ``NoRoomError`` if anything but an index or NULs follows the last block.
    """
    if not layout.removable:
        raise NoRoomError(
            "the bytes after the last block are neither a block nor an index, and would be overwritten",
            offset=layout.blocks_end,
            remedy=Remedy.DROP_BYTES,
        )
    return Plan(layout.size, min(layout.size, layout.blocks_end), steady=layout.padding.stop)


def plan_index(layout: Layout) -> Plan:
    """Plan to write the block index after the last block of a file without a tail.

    Raises ``ValueError`` if the file is truncated.
    """
    if layout.truncated:
        raise ValueError("an index after the last block would make this truncated file longer")
    text = build_block_index(layout.offsets, newline=layout.header.newline)
    writes = (Write(layout.blocks_end, text),)
    return Plan(layout.size, layout.blocks_end + len(text), writes, steady=layout.padding.stop)


def _plan_last_text(layout: Layout, old_text: bytes, padding_byte: bytes, new_text: bytes) -> Plan:
    """Plan to replace the text of a file without blocks.

    The file then ends with the text, or with its old padding if it has some.
    """
    if layout.padding and len(new_text) <= layout.size:
        return _plan_fitting_text(layout, old_text, padding_byte, new_text)
    kept = min(len(old_text), len(new_text))
    changed = difference(old_text[:kept], new_text[:kept])
    writes = [Write(*changed)] if changed else []
    if new_text[kept:]:
        writes.append(Write(kept, new_text[kept:]))
    return Plan(layout.size, len(new_text), tuple(writes), steady=layout.size)


def _plan_fitting_text(layout: Layout, old_text: bytes, padding_byte: bytes, new_text: bytes) -> Plan:
    """Plan to write from the first to the last changed byte; padding replaces the rest of a longer old text."""
    if len(new_text) < len(old_text):
        new_text += padding_byte * (len(old_text) - len(new_text))
    return Plan(layout.size, layout.size, _changes_of_text(old_text, new_text), steady=layout.padding.stop)


def _plan_moved_blocks(layout: Layout, source: int, new_text: bytes, padding_byte: bytes, target: int) -> Plan:
    """Plan to write the new text and the padding, and to move all blocks."""
    head = new_text + padding_byte * (target - len(new_text))
    return _moved(layout, (Write(0, head),), source, target)


def _moved(layout: Layout, writes: tuple[Write, ...], source: int, target: int) -> Plan:
    """Return the plan that moves all bytes from ``source`` on to ``target``.

    The tail after the last block is dropped if the layout says that it is removable.
    """
    stop = min(layout.blocks_end, layout.size) if layout.removable else layout.size
    return Plan(layout.size, stop + target - source, writes, Move(source, target, stop - source))
