"""Finds where two texts differ, with few comparisons of long pieces.  Pure."""

from __future__ import annotations

#: Bytes compared at once to find where two texts differ.
_COMPARE = 1 << 16


def difference(old: bytes, new: bytes) -> tuple[int, bytes] | None:
    """Return the offset of the first differing byte, and the new bytes from there to the last differing one.

    None if ``old`` and ``new`` are equal.  Raises ``ValueError`` if their lengths differ.
    """
    if len(old) != len(new):
        raise ValueError(f"lengths differ: {len(old)} and {len(new)}")
    if old == new:
        return None
    start = common_prefix(old, new)
    return start, new[start : len(new) - common_suffix(old, new, len(new))]


def common_prefix(old: bytes, new: bytes) -> int:
    """Return the number of bytes at the start that are the same."""
    most, same = min(len(old), len(new)), 0
    while same < most and old[same : min(same + _COMPARE, most)] == new[same : min(same + _COMPARE, most)]:
        same = min(same + _COMPARE, most)
    low, high = same, min(same + _COMPARE, most)
    while low < high:  # the first difference is in between
        middle = (low + high + 1) // 2
        low, high = (middle, high) if old[low:middle] == new[low:middle] else (low, middle - 1)
    return low


def common_suffix(old: bytes, new: bytes, most: int) -> int:
    """Return the number of bytes at the end that are the same, at most ``most``."""

    def same_between(low: int, high: int) -> bool:
        return old[len(old) - high : len(old) - low] == new[len(new) - high : len(new) - low]

    same = 0
    while same < most and same_between(same, min(same + _COMPARE, most)):
        same = min(same + _COMPARE, most)
    low, high = same, min(same + _COMPARE, most)
    while low < high:  # the last difference is in between
        middle = (low + high + 1) // 2
        low, high = (middle, high) if same_between(low, middle) else (low, middle - 1)
    return low
