"""The encoding ``quantize`` of the draft of 2015 (section Built-in array-to-binary encodings): decoding only.

Floats were made integers of a few bits, so that what was written is not what is read: encoding again would lose more.
A stream of chunks, all numbers big-endian::

     0  1  encoded_bits, 1 to 64     9  8  scale, a double
     1  8  offset, a double         17  8  nvalues
    25  (encoded_bits * nvalues) bits of signed integers, the first in the highest bits, padded to a byte

A value is ``integer * scale + offset`` in double precision, then of the array's own.  Imports numpy when called.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from asdffs.codecs.base import Source

_CHUNK: Final = struct.Struct(">BddQ")
#: Values that are decoded at a time; a multiple of 8, so that each time ends with a byte.
_AT_ONCE: Final = 1 << 16
#: Chunks without values, which mean nothing, at the most.
_MOST_EMPTY: Final = 1000
#: Bytes of a chunk's header and of a value, at the most: how much a stream of some values can have.
_MOST: Final = _CHUNK.size + 8


@dataclass(frozen=True, slots=True)
class Quantize:
    """``bits``: of a value of the array, 32 or 64."""

    bits: int

    @property
    def item(self) -> int:
        """Bytes of a value of the array."""
        return self.bits // 8

    def largest(self, size: int) -> int:
        """Bytes that a stream can have which decodes to ``size`` bytes."""
        return size // self.item * _MOST + _MOST_EMPTY * _CHUNK.size

    def decode(self, stream: Source, size: int, byteorder: str) -> Iterator[bytes]:
        """The ``size`` bytes of the array, in ``byteorder`` (big or little).

        Raises ``ValueError`` when ``stream`` has not just as many values.
        """
        wanted, place, empty = size // self.item, 0, 0
        dtype = ("<" if byteorder == "little" else ">") + f"f{self.item}"
        while head := stream.read_at(place, _CHUNK.size):
            if len(head) < _CHUNK.size:
                raise ValueError("the quantized values end inside the header of a chunk")
            bits, offset, scale, count = _CHUNK.unpack(head)
            place += _CHUNK.size
            if not 1 <= bits <= 64:
                raise ValueError(f"a chunk has values of {bits} bits; 1 to 64 can be")
            if count > wanted:
                raise ValueError("there are more quantized values than the array has")
            wanted, empty = wanted - count, empty + (not count)
            if empty > _MOST_EMPTY:
                raise ValueError("there are too many chunks without values")
            for part in _parts(count):
                length = -(-part * bits // 8)
                raw = stream.read_at(place, length)
                if len(raw) < length:
                    raise ValueError("the quantized values end too early")
                place += length
                yield _values(raw, part, bits, scale, offset, dtype)
        if wanted:
            raise ValueError(f"{wanted} quantized values are missing")


def _parts(count: int) -> Iterator[int]:
    """``count`` values a few at a time."""
    while count:
        part = min(count, _AT_ONCE)
        yield part
        count -= part


def _values(raw: bytes, count: int, bits: int, scale: float, offset: float, dtype: str) -> bytes:
    """The first ``count`` values of ``bits`` bits each in ``raw``."""
    import numpy as np

    with np.errstate(all="ignore"):  # a scale or offset may be anything, and so are the values then
        found = _integers(raw, count, bits).astype(np.float64) * scale + offset
        return bytes(found.astype(dtype).tobytes())


def _integers(raw: bytes, count: int, bits: int) -> Any:
    """Two's complement integers as int64: each in 64 bits of its own, shifted up and down again for its sign."""
    import numpy as np

    if bits in (8, 16, 32, 64):
        return np.frombuffer(raw, f">i{bits // 8}", count).astype(np.int64)
    places = np.unpackbits(np.frombuffer(raw, np.uint8), count=count * bits).reshape(count, bits)
    wide = np.zeros((count, 64), np.uint8)
    wide[:, :bits] = places
    return np.packbits(wide, axis=1).view(">i8").reshape(count).astype(np.int64) >> (64 - bits)


def quantize_of(arguments: Callable[[str], Any]) -> Quantize:
    """What a chain describes; ``arguments(name)`` is what it has there.  Raises ``ValueError``."""
    bits = arguments("dtype")
    if isinstance(bits, bool) or bits not in (32, 64):
        raise ValueError("quantize needs dtype: 32 or 64")
    return Quantize(int(bits))
