"""The steps of a chain: each encodes or decodes the bytes of one encoding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from asdffs.codecs.base import PIECE, Source
from asdffs.codecs.zlib import PLUGIN as ZLIB
from asdffs.features.drafts.chained.entries import Entry
from asdffs.features.drafts.quantize import Quantize, quantize_of
from asdffs.features.drafts.tile import Tile, tile_of

LOSSY: Final = (
    "the encoding quantize rounds values, so the block is read-only; change its compression to make it writable"
)
#: Of each encoding its stage, and a function that makes a step of an entry.  Stages are in ascending order:
#: 0 array to array, 1 array to bytes (at most once), 2 bytes to bytes.
STEPS: Final[dict[str, tuple[int, Callable[[Entry], ChainStep]]]] = {
    "tile": (0, lambda entry: _Tile(tile_of(entry.argument))),
    "quantize": (1, lambda entry: _Quantize(quantize_of(entry.argument))),
    "zlib": (2, lambda entry: _Zlib()),
}


class ChainStep(Protocol):
    """One encoding with its arguments."""

    @property
    def ratio(self) -> int:
        """The most bytes that one encoded byte can decode to."""

    @property
    def memory(self) -> int:
        """About how many bytes of memory it needs."""

    def encoded_size(self, size: int) -> int:
        """Return the most bytes that ``size`` bytes can take encoded.  Raises ``ValueError`` for a wrong size."""

    def decode(self, encoded: Source, size: int, order: str) -> Iterator[bytes]:
        """Yield the content of ``encoded`` in pieces, at most ``size`` bytes.

        ``order``: the byteorder to decode to, ``big`` or ``little``.  Raises ``ValueError`` if the bytes are damaged.
        """

    def encode(self, content: Source) -> Iterator[bytes]:
        """Yield the encoded bytes in pieces.  Raises ``ValueError`` if the content cannot be encoded."""


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
            raise ValueError(f"its tiles hold exactly {self.tile.size} bytes, not {size}")
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
