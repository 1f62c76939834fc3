"""Padding policy: how much room to leave when something has to move anyway.

Padding lies between regions (after the tree), slack inside a block's allocation.  A
policy is asked for one number.  Used by ``plan`` and ``document``.  Immutable.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Padding:
    """Leave ``percent`` of the tree, at least ``minimum`` bytes, and land on ``alignment``.

    The defaults: 10 % and 4 KiB as the asdf library's own padding does, and the first
    block on a 4 KiB boundary, so that file systems can move it by whole pages.
    """

    percent: int = 10
    minimum: int = 4096
    alignment: int = 4096

    def first_block(self, text_size: int) -> int:
        """Offset of the first block, in bytes, when a tree that ends at ``text_size`` must grow."""
        wanted = text_size + max(self.minimum, text_size * self.percent // 100)
        return -(-wanted // self.alignment) * self.alignment

    def allocation(self, needed: int, allocated: int) -> int:
        """Bytes to allocate for a last block that needs ``needed`` and has ``allocated``.

        Grows by at least a quarter and 1 MiB, so that appending in small pieces changes
        the header a logarithmic number of times; what stays unused is returned at the end.
        """
        return max(needed, allocated + max(allocated // 4, 1 << 20))
