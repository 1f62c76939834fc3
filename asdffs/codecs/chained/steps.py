"""The steps of a chain: one encoding each, after or before the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from asdffs.codecs.base import PIECE, Source
from asdffs.codecs.chained.entries import Entry
from asdffs.codecs.quantize import Quantize, quantize_of
from asdffs.codecs.tile import Tile, tile_of
from asdffs.codecs.zlib import PLUGIN as ZLIB

LOSSY: Final = (
    "the encoding quantize rounds values, so it is read-only; store the block in another compression to change it"
)
#: What makes a step of an entry, and where it may stand: arrays to arrays, to bytes, bytes to bytes.
STEPS: Final[dict[str, tuple[int, Callable[[Entry], ChainStep]]]] = {
    "tile": (0, lambda entry: _Tile(tile_of(entry.argument))),
    "quantize": (1, lambda entry: _Quantize(quantize_of(entry.argument))),
    "zlib": (2, lambda entry: _Zlib()),
}


class ChainStep(Protocol):
    """An encoding at work."""

    @property
    def ratio(self) -> int:
        """No encoded byte decodes to more bytes."""

    @property
    def memory(self) -> int:
        """Bytes of memory that it keeps, about."""

    def encoded_size(self, size: int) -> int:
        """The most bytes that ``size`` bytes can have encoded."""

    def decode(self, encoded: Source, size: int, order: str) -> Iterator[bytes]:
        """The ``size`` bytes (at the most) that ``encoded`` decodes to, in pieces.  Raises ``ValueError``."""

    def encode(self, content: Source) -> Iterator[bytes]:
        """The encoded bytes.  Raises ``ValueError``."""


@dataclass(frozen=True, slots=True)
class _Zlib:
    ratio = ZLIB.ratio
    memory = 2 * PIECE

    def encoded_size(self, size: int) -> int:
        return size + size // 256 + (1 << 16)

    def decode(self, encoded: Source, size: int, order: str) -> Iterator[bytes]:
        return ZLIB.decode(encoded, size)

    def encode(self, content: Source) -> Iterator[bytes]:
        return ZLIB.encode(content)


@dataclass(frozen=True, slots=True)
class _Tile:
    tile: Tile
    ratio = 1

    @property
    def memory(self) -> int:
        return self.tile.memory

    def encoded_size(self, size: int) -> int:
        if size != self.tile.size:
            raise ValueError(f"its tiles hold just {self.tile.size} bytes, not {size}")
        return self.tile.padded_size

    def decode(self, encoded: Source, size: int, order: str) -> Iterator[bytes]:
        return self.tile.decode(encoded)

    def encode(self, content: Source) -> Iterator[bytes]:
        return self.tile.encode(content)


@dataclass(frozen=True, slots=True)
class _Quantize:
    quantize: Quantize
    ratio = 64
    memory = 2 * PIECE

    def encoded_size(self, size: int) -> int:
        return self.quantize.largest(size)

    def decode(self, encoded: Source, size: int, order: str) -> Iterator[bytes]:
        return self.quantize.decode(encoded, size, order)

    def encode(self, content: Source) -> Iterator[bytes]:
        raise ValueError(LOSSY)
