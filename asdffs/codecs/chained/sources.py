"""Sources between the steps of a chain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from asdffs.codecs.base import Source


@dataclass(frozen=True, slots=True)
class Behind:
    """What follows the first ``start`` bytes of ``source``.  See ``codecs.Source``."""

    source: Source
    start: int

    @property
    def size(self) -> int:
        """In bytes."""
        return max(0, self.source.size - self.start)

    def read_at(self, offset: int, length: int) -> bytes:
        """As ``source`` does."""
        return self.source.read_at(self.start + offset, length)


class Sequential:
    """The bytes of ``parts``, read once from start to end.  See ``codecs.Source``; ``size``: at the most."""

    def __init__(self, parts: Iterator[bytes], size: int) -> None:
        self.size = size
        self._parts = parts
        self._place = 0
        self._held = bytearray()

    def read_at(self, offset: int, length: int) -> bytes:
        """The next bytes: ``offset`` is where the last read ended.  Raises as ``parts`` do."""
        if offset != self._place:
            raise RuntimeError(f"read at {offset}, and {self._place} comes next")
        while len(self._held) < length and (part := next(self._parts, None)) is not None:
            self._held += part
        found = bytes(self._held[:length])
        del self._held[:length]
        self._place += len(found)
        return found


def limited(parts: Iterator[bytes], most: int) -> Iterator[bytes]:
    """``parts``, as long as they are no more than ``most`` bytes in all.  Raises ``ValueError`` then."""
    for part in parts:
        most -= len(part)
        if most < 0:
            raise ValueError("an encoding of its chain decodes to more than the next one can have")
        yield part
