"""Plan: layout + wanted change + padding policy -> the fewest steps that make it.

A plan is data: ``storage`` carries it out, a test applies it to a byte string.  Steps are
in the order in which they may be applied to the old bytes: ``Move`` first, then ``Write``,
then ``Truncate``.  Used by ``document/transaction``.  Pure functions.
"""

from __future__ import annotations

from dataclasses import dataclass

from asdffs.errors import NoRoomError
from asdffs.format.block_header import BlockHeader, build_block_header
from asdffs.format.block_index import build_block_index
from asdffs.format.layout import Layout
from asdffs.format.padding import Padding

#: How many bytes are compared at once to find where two texts differ.
_COMPARE = 1 << 16


@dataclass(frozen=True, slots=True)
class Write:
    """``payload`` goes to ``offset`` (bytes from the start of the new file)."""

    offset: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Move:
    """Old bytes ``[source, source + length)`` go to ``target``."""

    source: int
    target: int
    length: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps that turn a file of ``old_size`` bytes into one of ``new_size`` bytes.

    Without ``move`` the plan can be made in place; with it a gap must be opened or closed.
    """

    old_size: int
    new_size: int
    writes: tuple[Write, ...] = ()
    move: Move | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing changes."""
        return not self.writes and self.move is None and self.old_size == self.new_size

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
    stop = len(new) - _common_prefix(old[:start:-1], new[:start:-1])
    return start, new[start:stop]


def _common_prefix(old: bytes, new: bytes) -> int:
    start = 0
    while old[start : start + _COMPARE] == new[start : start + _COMPARE] and start < len(old):
        start += _COMPARE
    for place, (a, b) in enumerate(zip(old[start : start + _COMPARE], new[start : start + _COMPARE], strict=True)):
        if a != b:
            return start + place
    return min(start, len(old))


def plan_text(layout: Layout, old_text: bytes, padding_byte: bytes, new_text: bytes, policy: Padding) -> Plan:
    """Plan to replace the text (header, comments and tree) ``old_text`` by ``new_text``.

    ``padding_byte`` fills what a shorter tree leaves behind.  When the new text does not
    fit before the first block, or the file has no tree and so may have no padding, the
    blocks move; the tail behind the last block is not moved, because its offsets are wrong.
    """
    if layout.first_block is None:
        return _plan_last_text(layout, old_text, padding_byte, new_text)
    room = layout.first_block
    if len(new_text) == room or (len(new_text) < room and _ends_with_tree(new_text)):
        return _plan_fitting_text(layout, old_text, padding_byte, new_text)
    # section Blocks: without a tree the first block follows the header without padding
    first_block = policy.first_block(len(new_text)) if _ends_with_tree(new_text) else len(new_text)
    return _plan_moved_blocks(layout, room, new_text, padding_byte, first_block)


def plan_block_header(
    layout: Layout, offset: int, old: BlockHeader, new: BlockHeader, *, resize_to: int | None = None
) -> Plan:
    """Plan to change the header of the block at ``offset``, and the size of the file with ``resize_to``."""
    changed = difference(build_block_header(old), build_block_header(new))
    writes = (Write(offset + changed[0], changed[1]),) if changed else ()
    return Plan(layout.size, layout.size if resize_to is None else resize_to, writes)


def plan_cut_tail(layout: Layout) -> Plan:
    """Plan to cut off the index and what follows it.

    Raises ``NoRoomError`` when what follows the last block is neither index nor NULs.
    """
    if not layout.removable:
        raise NoRoomError(
            "bytes that are no block and no index follow the last block; they would be overwritten",
            offset=layout.blocks_end,
        )
    return Plan(layout.size, min(layout.size, layout.blocks_end))


def plan_index(layout: Layout) -> Plan:
    """Plan to write the block index behind the last block of a file that has no tail."""
    text = build_block_index(layout.offsets, newline=layout.header.newline)
    return Plan(layout.size, layout.blocks_end + len(text), (Write(layout.blocks_end, text),))


def _ends_with_tree(text: bytes) -> bool:
    return text.rstrip(b"\r\n").endswith(b"\n...")


def _plan_last_text(layout: Layout, old_text: bytes, padding_byte: bytes, new_text: bytes) -> Plan:
    """No block follows: the file ends with the text, or with its old padding where it has one."""
    if layout.padding and len(new_text) <= layout.size:
        return _plan_fitting_text(layout, old_text, padding_byte, new_text)
    kept = min(len(old_text), len(new_text))
    changed = difference(old_text[:kept], new_text[:kept])
    writes = [Write(*changed)] if changed else []
    if new_text[kept:]:
        writes.append(Write(kept, new_text[kept:]))
    return Plan(layout.size, len(new_text), tuple(writes))


def _plan_fitting_text(layout: Layout, old_text: bytes, padding_byte: bytes, new_text: bytes) -> Plan:
    """Write from the first to the last changed byte; blank out what a shorter text leaves."""
    kept = min(len(old_text), len(new_text))
    if len(new_text) < len(old_text):
        new_text += padding_byte * (len(old_text) - len(new_text))
        kept = len(old_text)
    changed = difference(old_text[:kept], new_text[:kept])
    tail = new_text[kept:]
    if changed is None:
        return Plan(layout.size, layout.size, (Write(kept, tail),) if tail else ())
    start, middle = changed
    payload = new_text[start:] if tail else middle
    return Plan(layout.size, layout.size, (Write(start, payload),))


def _plan_moved_blocks(layout: Layout, source: int, new_text: bytes, padding_byte: bytes, target: int) -> Plan:
    """New text, padding, then all blocks; the tail is left behind when it may be."""
    stop = min(layout.blocks_end, layout.size) if layout.removable else layout.size
    head = new_text + padding_byte * (target - len(new_text))
    return Plan(layout.size, stop + target - source, (Write(0, head),), Move(source, target, stop - source))
