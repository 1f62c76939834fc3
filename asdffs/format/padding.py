"""Padding policy: how much spare room to leave when something has to move anyway.

Padding lies between the tree and the first block.  Slack lies inside a block's allocation.  Immutable.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_SIZE = re.compile(r"(\d{1,15})([kKmMgG]?)")
_PERCENT = re.compile(r"(\d{1,15})%")
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_MOST_PERCENT: Final = 1000
#: Padding is written in one piece, so this bounds the memory for it.
_MOST_BYTES: Final = 1 << 30


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
        return policy._replace(percent=part) if part <= _MOST_PERCENT else None
    size = parse_size(text)
    return None if size is None or size > _MOST_BYTES else policy._replace(percent=0, minimum=size)
