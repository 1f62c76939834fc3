"""Plan: layout + wanted change + padding policy -> the fewest steps that make it.

A plan is data: ``storage`` carries it out, a test applies it to a byte string.  Steps are in the order in which they
may be applied to the old bytes: ``Move`` first, then ``Write``, then ``Truncate``.  Pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from asdffs.errors import NoRoomError, Remedy
from asdffs.format.block_header import BlockHeader, build_block_header
from asdffs.format.block_index import build_block_index
from asdffs.format.layout import Layout
from asdffs.format.padding import Padding
from asdffs.format.tree_extent import ends_with_tree

#: How many bytes are compared at once to find where two texts differ.
_COMPARE = 1 << 16


class Write(NamedTuple):
    """``payload`` goes to ``offset`` (bytes from the start of the new file)."""

    offset: int
    payload: bytes


class Move(NamedTuple):
    """Old bytes ``[source, source + length)`` go to ``target``; those before both stay, a gap between is zeros."""

    source: int
    target: int
    length: int

    @property
    def shift(self) -> int:
        """By how many bytes they go back; negative when the blocks come forward."""
        return self.target - self.source


class Plan(NamedTuple):
    """Steps that turn a file of ``old_size`` bytes into one of ``new_size`` bytes.

    Without ``move`` the plan can be made in place; with it a gap must be opened or closed.
    ``steady``: bytes before it are text and padding, which change by plans only, not by writes to blocks.
    """

    old_size: int
    new_size: int
    writes: tuple[Write, ...] = ()
    move: Move | None = None
    steady: int = 0

    @property
    def empty(self) -> bool:
        """Whether nothing changes."""
        return not self.writes and self.move is None and self.old_size == self.new_size

    @property
    def checked_move(self) -> Move:
        """The move of a plan that has one."""
        if self.move is None:
            raise ValueError("the plan moves nothing")
        return self.move

    @property
    def written(self) -> int:
        """Bytes of payload."""
        return sum(len(write.payload) for write in self.writes)


def difference(old: bytes, new: bytes) -> tuple[int, bytes] | None:
    """Offset of the first byte where equally long ``old`` and ``new`` differ, and the new bytes to the last."""
    if len(old) != len(new):
        raise ValueError(f"lengths differ: {len(old)} and {len(new)}")
    if old == new:
        return None
    start = _common_prefix(old, new)
    return start, new[start : _last_difference(old, new) + 1]


def _changes_of_text(old: bytes, new: bytes) -> tuple[Write, ...]:
    """From the first byte that differs to the last, or to the end of the longer ``new``; no copy more of either."""
    if len(new) == len(old):
        changed = difference(old, new)
        return (Write(*changed),) if changed else ()
    start = _common_prefix(old, new)
    return (Write(start, new[start:]),)


def _common_prefix(old: bytes, new: bytes) -> int:
    """How many bytes of ``old`` the ``new`` one, which is no shorter, begins with."""
    start = 0
    while start < len(old) and old[start : start + _COMPARE] == new[start : min(start + _COMPARE, len(old))]:
        start += _COMPARE
    for place, (a, b) in enumerate(zip(old[start : start + _COMPARE], new[start : start + _COMPARE], strict=False)):
        if a != b:
            return start + place
    return min(start + _COMPARE, len(old))


def _last_difference(old: bytes, new: bytes) -> int:
    """Offset of the last byte where two texts of one length, which differ, do."""
    stop = len(old)
    while old[max(0, stop - _COMPARE) : stop] == new[max(0, stop - _COMPARE) : stop]:
        stop -= _COMPARE
    return next(place for place in range(stop - 1, -1, -1) if old[place] != new[place])


def plan_text(layout: Layout, old_text: bytes, padding_byte: bytes, new_text: bytes, policy: Padding) -> Plan:
    """Plan to replace the text (header, comments and tree) ``old_text`` by ``new_text``.

    ``padding_byte`` fills what a shorter tree leaves behind.  When the new text does not
    fit before the first block, or the file has no tree and so may have no padding, the
    blocks move; the tail behind the last block is not moved, because its offsets are wrong.
    """
    if layout.first_block is None:
        return _plan_last_text(layout, old_text, padding_byte, new_text)
    room = layout.first_block
    if len(new_text) == room or (len(new_text) < room and ends_with_tree(new_text)):
        return _plan_fitting_text(layout, old_text, padding_byte, new_text)
    # section Blocks: without a tree the first block follows the header without padding
    target = room + policy.shift(room, len(new_text)) if ends_with_tree(new_text) else len(new_text)
    return _plan_moved_blocks(layout, room, new_text, padding_byte, target)


def plan_block_header(
    layout: Layout, offset: int, old: BlockHeader, new: BlockHeader, *, resize_to: int | None = None
) -> Plan:
    """Plan to change the header of the block at ``offset``, and the size of the file with ``resize_to``."""
    changed = difference(build_block_header(old), build_block_header(new))
    writes = (Write(offset + changed[0], changed[1]),) if changed else ()
    size = layout.size if resize_to is None else resize_to
    return Plan(layout.size, size, writes, steady=layout.padding.stop)


def plan_block_growth(layout: Layout, number: int, old: BlockHeader, policy: Padding, allocation: int) -> Plan:
    """Plan to give a block that is not the last one at least ``allocation`` bytes: those behind it move.

    Its header gets the larger allocation; the tail behind the last block is left behind, as when the tree grows.
    """
    source = layout.offsets[number + 1]
    shift = policy.aligned(allocation - old.allocated_size)
    new = old._replace(allocated_size=old.allocated_size + shift)
    header = plan_block_header(layout, layout.offsets[number], old, new)
    return _moved(layout, header.writes, source, source + shift)


def plan_block_append(
    layout: Layout, headers: Sequence[BlockHeader], padding_byte: bytes, policy: Padding
) -> tuple[Plan, Layout]:
    """Plan to add the headers of blocks, at least one, to a file without a tail; and the layout then.

    What they allocate is zeros.  The first block of a file leaves padding after the tree, unless there is some.
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
        end = start + header.full_size + header.allocated_size
        new, start, padding = new.with_block(start, end), end, b""
    return Plan(layout.size, new.size, tuple(writes), steady=layout.text_end), new


def plan_block_headers(layout: Layout, changes: Sequence[tuple[int, BlockHeader, BlockHeader]]) -> Plan:
    """Plan to change several headers: the offset of each block, the old header and the new one."""
    writes: list[Write] = []
    for offset, old, new in changes:
        writes += plan_block_header(layout, offset, old, new).writes
    return Plan(layout.size, layout.size, tuple(writes), steady=layout.padding.stop)


def plan_block_removal(layout: Layout) -> Plan:
    """Plan to cut off the last block of a file without a tail."""
    return Plan(layout.size, layout.offsets[-1], steady=layout.padding.stop)


def plan_cut_tail(layout: Layout) -> Plan:
    """Plan to cut off the index and what follows it.

    Raises ``NoRoomError`` when what follows the last block is neither index nor NULs.
    """
    if not layout.removable:
        raise NoRoomError(
            "bytes that are no block and no index follow the last block and would be overwritten",
            offset=layout.blocks_end,
            remedy=Remedy.DROP_BYTES,
        )
    return Plan(layout.size, min(layout.size, layout.blocks_end), steady=layout.padding.stop)


def plan_index(layout: Layout) -> Plan:
    """Plan to write the block index behind the last block of a file that has no tail."""
    if layout.truncated:
        raise ValueError("an index behind the end of a file that was cut would make it longer")
    text = build_block_index(layout.offsets, newline=layout.header.newline)
    writes = (Write(layout.blocks_end, text),)
    return Plan(layout.size, layout.blocks_end + len(text), writes, steady=layout.padding.stop)


def _plan_last_text(layout: Layout, old_text: bytes, padding_byte: bytes, new_text: bytes) -> Plan:
    """No block follows: the file ends with the text, or with its old padding where it has one."""
    if layout.padding and len(new_text) <= layout.size:
        return _plan_fitting_text(layout, old_text, padding_byte, new_text)
    kept = min(len(old_text), len(new_text))
    changed = difference(old_text[:kept], new_text[:kept])
    writes = [Write(*changed)] if changed else []
    if new_text[kept:]:
        writes.append(Write(kept, new_text[kept:]))
    return Plan(layout.size, len(new_text), tuple(writes), steady=layout.size)


def _plan_fitting_text(layout: Layout, old_text: bytes, padding_byte: bytes, new_text: bytes) -> Plan:
    """Write from the first to the last changed byte; blank out what a shorter text leaves."""
    if len(new_text) < len(old_text):
        new_text += padding_byte * (len(old_text) - len(new_text))
    return Plan(layout.size, layout.size, _changes_of_text(old_text, new_text), steady=layout.padding.stop)


def _plan_moved_blocks(layout: Layout, source: int, new_text: bytes, padding_byte: bytes, target: int) -> Plan:
    """New text, padding, then all blocks."""
    head = new_text + padding_byte * (target - len(new_text))
    return _moved(layout, (Write(0, head),), source, target)


def _moved(layout: Layout, writes: tuple[Write, ...], source: int, target: int) -> Plan:
    """All from ``source`` on goes to ``target``; the tail behind the last block is left behind when it may be."""
    stop = min(layout.blocks_end, layout.size) if layout.removable else layout.size
    return Plan(layout.size, stop + target - source, writes, Move(source, target, stop - source))
