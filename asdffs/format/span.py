"""Span: a half-open range of bytes.  Used by every floor; immutable."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes ``[start, stop)``, in bytes from the start of the file.

    Raises ``ValueError`` unless ``0 <= start <= stop``.
    """

    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop:
            raise ValueError(f"not a span: [{self.start}, {self.stop})")

    def __len__(self) -> int:
        return self.stop - self.start

    def __bool__(self) -> bool:
        return self.stop > self.start

    def clip(self, offset: int, length: int) -> Span:
        """The part of this span that ``length`` bytes at ``offset`` (from its start) cover."""
        start = min(self.start + offset, self.stop)
        return Span(start, min(start + length, self.stop))
