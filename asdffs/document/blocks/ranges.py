"""A set of byte offsets, kept as ranges that do not touch each other."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class Ranges:
    """Ranges ``[start, stop)`` of bytes, in ascending order.  ``size``: how many bytes they have together."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        self.size = 0

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._stops, strict=True)

    def missing(self, start: int, stop: int) -> int | None:
        """Return the offset of the first byte of ``[start, stop)`` that is not in the set; None if all are."""
        if start >= stop:
            return None
        place = bisect_right(self._starts, start) - 1
        if place < 0 or self._stops[place] <= start:
            return start
        return None if self._stops[place] >= stop else self._stops[place]

    def touches(self, start: int, stop: int) -> bool:
        """Return whether any byte of ``[start, stop)`` is in the set."""
        return start < stop and bisect_right(self._stops, start) < bisect_left(self._starts, stop)

    def gaps(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of ``[start, stop)`` that are not in the set."""
        if start >= stop:
            return
        for place in range(bisect_right(self._stops, start), bisect_left(self._starts, stop)):
            if start < self._starts[place]:
                yield start, self._starts[place]
            start = self._stops[place]
        if start < stop:
            yield start, stop

    def add(self, start: int, stop: int) -> None:
        """Add the bytes ``[start, stop)``."""
        if start >= stop:
            return
        first, last = bisect_left(self._stops, start), bisect_right(self._starts, stop)
        inside = range(first, last)
        self.size += stop - start - sum(min(self._stops[n], stop) - max(self._starts[n], start) for n in inside)
        low = min(start, self._starts[first]) if inside else start
        high = max(stop, self._stops[last - 1]) if inside else stop
        self._starts[first:last], self._stops[first:last] = [low], [high]

    def remove(self, start: int, stop: int) -> int:
        """Remove the bytes ``[start, stop)``, and return how many of them were in the set."""
        if start >= stop:
            return 0
        first, last = bisect_right(self._stops, start), bisect_left(self._starts, stop)
        inside = list(zip(self._starts[first:last], self._stops[first:last], strict=True))
        left = [(a, b) for low, high in inside for a, b in ((low, min(high, start)), (max(low, stop), high)) if a < b]
        self._starts[first:last], self._stops[first:last] = [a for a, _ in left], [b for _, b in left]
        removed = sum(high - low for low, high in inside) - sum(b - a for a, b in left)
        self.size -= removed
        return removed

    def clear(self) -> None:
        """Remove all bytes."""
        self._starts, self._stops, self.size = [], [], 0
