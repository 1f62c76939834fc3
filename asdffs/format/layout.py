"""Layout: the regions of one ASDF file (section Low-level file layout), and the policy for the room between them.

A layout divides ``[0, size)`` into regions, without gap or overlap.  ``scanner`` builds it, and ``plan`` changes it.
Block headers are not part of it, because a file of 100,000 blocks is opened without reading them.  Padding lies
between the tree and the first block.  Slack lies inside a block's allocation.  Immutable.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from asdffs.format.block_header import RULES_1, BlockRules
from asdffs.format.text import Header

_SIZE: Final = re.compile(r"(\d{1,15})([kKmMgG]?)")
_PERCENT: Final = re.compile(r"(\d{1,15})%")
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_MOST_PERCENT: Final = 1000
#: The most padding, in bytes.  It is written in one piece, so this bounds the memory for it.
_MOST_BYTES: Final = 1 << 30


#: Bytes from ``start`` to before ``stop``, counted from the start of the file.
Span = range


def uncovered(whole: Span, taken: Iterable[Span]) -> list[Span]:
    """Return the non-empty parts of ``whole`` that none of ``taken`` covers, in order."""
    found, start = [], whole.start
    for span in sorted(taken, key=lambda span: span.start):
        if start < min(span.start, whole.stop):
            found.append(Span(start, min(span.start, whole.stop)))
        start = max(start, span.stop)
    if start < whole.stop:
        found.append(Span(start, whole.stop))
    return found


class RegionKind(enum.Enum):
    """The kind of a region."""

    HEADER = "header"  # header line and comments
    TREE = "tree"
    PADDING = "padding"  # between the text and the first block, or the end of the file
    BLOCK = "block"  # header, content and slack
    INDEX = "index"
    REST = "rest"  # after the last block: NULs, a stale index, or something foreign


class Region(NamedTuple):
    """One region: its kind, its bytes, and the number of a block."""

    kind: RegionKind
    span: Span
    block: int | None = None


class Layout(NamedTuple):
    """The regions of one file.  All offsets are in bytes from the start of the file.

    ``text_start``: end of header line and comments.  ``text_end``: end of the tree with its end marker; equal
    to ``text_start`` if there is no tree.  ``first_block``: offset of the first magic, even if no sound block
    begins there; None without a magic.  ``offsets``: the offset of each block's magic.  ``blocks_end``: end of
    the last block's allocation, which is after ``size`` in a truncated file; ``size`` without blocks.
    ``index``: the valid index, or None.  ``removable``: only an index (valid or stale) or NULs follow the last
    block, so the tail may be cut off.  ``rules``: how the blocks are written.

    The *tail* is everything after the last block.
    """

    size: int
    header: Header
    text_start: int
    text_end: int
    first_block: int | None
    offsets: Sequence[int]
    blocks_end: int
    index: Span | None  # type: ignore[assignment]  # hides tuple.index, which nobody calls
    removable: bool
    rules: BlockRules = RULES_1

    @property
    def truncated(self) -> bool:
        """Whether the file ends before its last block's allocation does."""
        return self.blocks_end > self.size

    @property
    def has_tree(self) -> bool:
        """Whether the file has a tree."""
        return self.text_end > self.text_start

    @property
    def padding(self) -> Span:
        """The bytes from the end of the text to the first magic, or to the end of a file without one."""
        return Span(self.text_end, self.size if self.first_block is None else self.first_block)

    def regions(self) -> Iterator[Region]:
        """Yield all non-empty regions in order.  The region of a block reaches to the next block."""
        yield from self._text_regions()
        stops = [*self.offsets[1:], min(self.blocks_end, self.size)] if self.offsets else []
        for number, (start, stop) in enumerate(zip(self.offsets, stops, strict=True)):
            yield Region(RegionKind.BLOCK, Span(start, stop), number)
        if self.first_block is not None:
            yield from self._tail_regions(stops[-1] if stops else self.first_block)

    def _text_regions(self) -> Iterator[Region]:
        yield Region(RegionKind.HEADER, Span(0, self.text_start))
        if self.has_tree:
            yield Region(RegionKind.TREE, Span(self.text_start, self.text_end))
        if self.padding:
            yield Region(RegionKind.PADDING, self.padding)

    def _tail_regions(self, start: int) -> Iterator[Region]:
        if self.index:
            yield Region(RegionKind.INDEX, self.index)
            start = self.index.stop
        if start < self.size:
            yield Region(RegionKind.REST, Span(start, self.size))

    def without_tail(self, size: int) -> Layout:
        """Return this layout in a file cut to ``size`` bytes: no index follows the last block."""
        return self._replace(size=size, index=None)

    def with_index(self, size: int) -> Layout:
        """Return this layout after an index of ``size`` bytes was written after the last block."""
        end = self.blocks_end + size
        return self._replace(size=end, index=Span(self.blocks_end, end), removable=True)

    def with_text(self, header: Header, text_start: int, text_end: int, shift: int, size: int) -> Layout:
        """Return this layout with another text, and blocks moved by ``shift``, in a file of ``size`` bytes."""
        return self._replace(
            size=size,
            header=header,
            text_start=text_start,
            text_end=text_end,
            first_block=None if self.first_block is None else self.first_block + shift,
            offsets=tuple(offset + shift for offset in self.offsets) if shift else self.offsets,
            blocks_end=size if self.first_block is None else self.blocks_end + shift,
        )

    def with_block(self, offset: int, size: int) -> Layout:
        """Return this layout with one more block at ``offset``, which ends the file of ``size`` bytes."""
        first = offset if self.first_block is None else self.first_block
        return self._replace(
            size=size, first_block=first, offsets=(*self.offsets, offset), blocks_end=size, index=None
        )

    def without_block(self) -> Layout:
        """Return this layout without its last block, in a file that ends before it."""
        *rest, end = self.offsets
        first = self.first_block if rest else None
        return self._replace(size=end, first_block=first, offsets=tuple(rest), blocks_end=end, index=None)

    def with_gap(self, number: int, shift: int, size: int) -> Layout:
        """Return this layout with the blocks after block ``number`` moved by ``shift`` bytes, and no tail."""
        offsets = (*self.offsets[: number + 1], *(offset + shift for offset in self.offsets[number + 1 :]))
        return self._replace(size=size, offsets=offsets, blocks_end=self.blocks_end + shift, index=None)


class Padding(NamedTuple):
    """Leave ``percent`` of the tree, at least ``minimum`` bytes, and move blocks by multiples of ``alignment`` bytes.

    ``reserve``: the smallest growth of the allocation of a block of this size or more, in bytes.

    The asdf library's own padding is 10 % and 4 KiB as well.  Blocks that move by whole pages need not be
    copied (decision 10), and a first block on a 4 KiB boundary stays on one.
    """

    percent: int = 10
    minimum: int = 4096
    alignment: int = 4096
    reserve: int = 1 << 20

    @property
    def none(self) -> bool:
        """Whether a new file gets no padding at all."""
        return not self.percent and not self.minimum

    def shift(self, room: int, text_size: int) -> int:
        """Return how many bytes to move the blocks so that ``text_size`` bytes of text replace ``room`` bytes."""
        return self.aligned(text_size + max(self.minimum, text_size * self.percent // 100) - room)

    def aligned(self, size: int) -> int:
        """Return ``size`` rounded up to a multiple of ``alignment``."""
        return -(-size // self.alignment) * self.alignment

    def allocation(self, needed: int, allocated: int) -> int:
        """Return the bytes to allocate for a block that needs ``needed`` and has ``allocated`` bytes.

        The allocation grows by at least a quarter and by at least ``reserve`` bytes; a smaller one doubles, and grows
        by at least ``minimum`` bytes.  So appending in small pieces changes the header only a logarithmic number of
        times, and a small block stays small.  Unused bytes of the last block are given back in the end.
        """
        least = min(self.reserve, max(allocated, self.minimum))
        return max(needed, allocated + max(allocated // 4, least))


def parse_size(text: str) -> int | None:
    """Return the bytes that a size like ``64K`` means; None if ``text`` is not a size."""
    size = _SIZE.fullmatch(text)
    return int(size[1]) * _UNITS[size[2].lower()] if size else None


def parse_padding(text: str, policy: Padding) -> Padding | None:
    """Return ``policy`` with the room after the tree that ``text`` sets, or None if ``text`` is not valid.

    ``text`` is a size like ``64K`` (at most 1 GiB), or a percentage of the tree like ``20%`` (at most 1000%).
    """
    percent = _PERCENT.fullmatch(text)
    if percent:
        part = int(percent[1])
        return policy._replace(percent=part, minimum=policy.minimum if part else 0) if part <= _MOST_PERCENT else None
    size = parse_size(text)
    return None if size is None or size > _MOST_BYTES else policy._replace(percent=0, minimum=size)
