"""The encoding ``quantize`` of the draft of 2015 (section Built-in array-to-binary encodings): decoding only.

The writer rounded floats to integers of a few bits.  Encoding decoded values again would lose more precision, so this
module only decodes.  The encoded bytes are a stream of chunks, with all numbers big-endian::

    offset in the chunk, length in bytes, field
     0  1  encoded_bits, 1 to 64     9  8  scale, a double
     1  8  offset, a double         17  8  nvalues
    25  (encoded_bits * nvalues) bits of signed integers, the first in the highest bits, padded to a byte

A value is ``integer * scale + offset`` in double precision, converted to the precision of the array.

numpy is imported when it is needed, not with this module.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from asdffs.codecs.base import Source

_CHUNK: Final = struct.Struct(">BddQ")
#: Values to decode at a time.  A multiple of 8, so that a part always ends with a whole byte.
_AT_ONCE: Final = 1 << 16
#: Most chunks without values, which mean nothing.  The limit makes ``largest`` finite.
_MOST_EMPTY: Final = 1000
#: Most bytes that a value can take in the stream: a chunk of its own, with 64 bits.
_MOST: Final = _CHUNK.size + 8


@dataclass(frozen=True, slots=True)
class Quantize:
    """The decoder of an array of floats of ``bits`` bits, 32 or 64."""

    bits: int

    @property
    def item(self) -> int:
        """Size of a value of the array in bytes."""
        return self.bits // 8

    def largest(self, size: int) -> int:
        """Return the most bytes of a stream that decodes to ``size`` bytes."""
        return size // self.item * _MOST + _MOST_EMPTY * _CHUNK.size

    def decode(self, stream: Source, size: int, byteorder: str) -> Iterator[bytes]:
        """Yield the ``size`` bytes of the array in ``byteorder`` (``big`` or ``little``).

        Raises ``ValueError`` unless ``stream`` has exactly the values of the array.
        """
        wanted, place, empty = size // self.item, 0, 0
        dtype = ("<" if byteorder == "little" else ">") + f"f{self.item}"
        while head := stream.read_at(place, _CHUNK.size):
            if len(head) < _CHUNK.size:
                raise ValueError("the quantized values end inside the header of a chunk")
            bits, offset, scale, count = _CHUNK.unpack(head)
            place += _CHUNK.size
            if not 1 <= bits <= 64:
                raise ValueError(f"a chunk has values of {bits} bits; only 1 to 64 are possible")
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
    """Yield the numbers of values to decode at a time, ``count`` in all."""
    while count:
        part = min(count, _AT_ONCE)
        yield part
        count -= part


def _values(raw: bytes, count: int, bits: int, scale: float, offset: float, dtype: str) -> bytes:
    """Return the first ``count`` values in ``raw``, of ``bits`` bits each, as bytes of an array of ``dtype``."""
    import numpy as np

    with np.errstate(all="ignore"):  # any scale and offset are possible, so values may overflow or be NaN
        found = _integers(raw, count, bits).astype(np.float64) * scale + offset
        return bytes(found.astype(dtype).tobytes())


def _integers(raw: bytes, count: int, bits: int) -> Any:
    """Return the first ``count`` two's complement integers in ``raw``, of ``bits`` bits each, as int64.

    Each is put into the highest of 64 bits and shifted down, which extends its sign.
    """
    import numpy as np

    if bits in (8, 16, 32, 64):
        return np.frombuffer(raw, f">i{bits // 8}", count).astype(np.int64)
    places = np.unpackbits(np.frombuffer(raw, np.uint8), count=count * bits).reshape(count, bits)
    wide = np.zeros((count, 64), np.uint8)
    wide[:, :bits] = places
    return np.packbits(wide, axis=1).view(">i8").reshape(count).astype(np.int64) >> (64 - bits)


def quantize_of(arguments: Callable[[str], Any]) -> Quantize:
    """Return the decoder that the arguments of a chain describe.

    ``arguments(name)`` returns an argument as parsed from YAML, or None.  Raises ``ValueError`` if they are invalid.
    """
    bits = arguments("dtype")
    if isinstance(bits, bool) or bits not in (32, 64):
        raise ValueError("quantize needs dtype: 32 or 64")
    return Quantize(int(bits))
