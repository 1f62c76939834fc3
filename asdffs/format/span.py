"""Span: a half-open range of bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final


class Span:
    """Bytes ``[start, stop)``, in bytes from the start of the file.  Immutable.

    Raises ``ValueError`` unless ``0 <= start <= stop``.
    """

    __slots__ = ("start", "stop")

    def __init__(self, start: int, stop: int) -> None:
        if not 0 <= start <= stop:
            raise ValueError(f"not a span: [{start}, {stop})")
        self.start: Final = start
        self.stop: Final = stop

    def __repr__(self) -> str:
        return f"Span({self.start}, {self.stop})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Span) and (self.start, self.stop) == (other.start, other.stop)

    def __hash__(self) -> int:
        return hash((self.start, self.stop))

    def __len__(self) -> int:
        return self.stop - self.start

    def __bool__(self) -> bool:
        return self.stop > self.start

    def clip(self, offset: int, length: int) -> Span:
        """Return the part of this span that ``length`` bytes at ``offset`` (from its start) cover."""
        start = min(self.start + offset, self.stop)
        return Span(start, min(start + length, self.stop))


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
