"""Padding policy: how much room to leave when something has to move anyway.

Padding lies between regions (after the tree), slack inside a block's allocation.  A policy is asked for one number.
Immutable.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_SIZE = re.compile(r"(\d{1,15})([kKmMgG]?)")
_PERCENT = re.compile(r"(\d{1,15})%")
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_MOST_PERCENT: Final = 1000
#: Padding is written as a whole.
_MOST_BYTES: Final = 1 << 30


class Padding(NamedTuple):
    """Leave ``percent`` of the tree, at least ``minimum`` bytes, and move by multiples of ``alignment``.

    The defaults: 10 % and 4 KiB as the asdf library's own padding does.  Blocks that move by
    whole pages need not be copied (decision 10); a first block on a 4 KiB boundary stays on one.
    """

    percent: int = 10
    minimum: int = 4096
    alignment: int = 4096
    reserve: int = 1 << 20

    def shift(self, room: int, text_size: int) -> int:
        """By how many bytes the blocks go back when a text of ``text_size`` does not fit into ``room`` bytes."""
        return self.aligned(text_size + max(self.minimum, text_size * self.percent // 100) - room)

    def aligned(self, size: int) -> int:
        """``size`` rounded up to a multiple of ``alignment``."""
        return -(-size // self.alignment) * self.alignment

    def allocation(self, needed: int, allocated: int) -> int:
        """Bytes to allocate for a block that needs ``needed`` and has ``allocated``.

        Grows by at least a quarter and ``reserve`` bytes, so that appending in small pieces changes
        the header a logarithmic number of times.  What stays unused behind the last block is
        returned at the end.
        """
        return max(needed, allocated + max(allocated // 4, self.reserve))


def parse_size(text: str) -> int | None:
    """Bytes that a user writes as ``64K``; None for what is no size."""
    size = _SIZE.fullmatch(text)
    return int(size[1]) * _UNITS[size[2].lower()] if size else None


def parse_padding(text: str, policy: Padding) -> Padding | None:
    """``policy`` with another room after the tree, ``64K`` or ``20%`` of it (at most 1000%); None for neither."""
    percent = _PERCENT.fullmatch(text)
    if percent:
        part = int(percent[1])
        return policy._replace(percent=part) if part <= _MOST_PERCENT else None
    size = parse_size(text)
    return None if size is None or size > _MOST_BYTES else policy._replace(percent=0, minimum=size)
