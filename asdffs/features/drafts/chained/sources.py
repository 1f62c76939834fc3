"""The sources that connect the steps of a chain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from asdffs.codecs.base import Source


@dataclass(frozen=True, slots=True)
class Behind:
    """The bytes of ``source`` from ``start`` on.  See ``codecs.base.Source``."""

    source: Source
    start: int

    @property
    def size(self) -> int:
        """Number of bytes."""
        return max(0, self.source.size - self.start)

    def read_at(self, offset: int, length: int) -> bytes:
        """See ``codecs.base.Source``.  Raises as ``source``."""
        return self.source.read_at(self.start + offset, length)


class Sequential:
    """The bytes of ``parts``, to be read once from start to end.  See ``codecs.base.Source``.

    ``size`` is the most bytes that there can be, not the exact number.
    """

    def __init__(self, parts: Iterator[bytes], size: int) -> None:
        self.size = size
        self._parts = parts
        self._place = 0
        self._held = bytearray()

    def read_at(self, offset: int, length: int) -> bytes:
        """Return the next bytes.  ``offset`` must be where the last read ended.  Raises as ``parts``."""
        if offset != self._place:
            raise RuntimeError(f"read at offset {offset}, but the next offset is {self._place}")
        while len(self._held) < length and (part := next(self._parts, None)) is not None:
            self._held += part
        found = bytes(self._held[:length])
        del self._held[:length]
        self._place += len(found)
        return found


def limited(parts: Iterator[bytes], most: int) -> Iterator[bytes]:
    """Yield ``parts``.  Raises ``ValueError`` as soon as they have more than ``most`` bytes together."""
    for part in parts:
        most -= len(part)
        if most < 0:
            raise ValueError("an encoding of its chain decodes to more than the next one accepts")
        yield part
