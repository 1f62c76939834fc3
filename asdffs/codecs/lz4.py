"""The ``lz4`` compression with the framing of the asdf library.

The content is cut into parts of 4 MiB; a reader accepts any size.  A part is stored as

* the length of the following two fields together (4 bytes, big-endian),
* the length of the decoded part (4 bytes, little-endian),
* one LZ4 block.

Parts are decoded and encoded in parallel.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from asdffs.codecs.base import IN_WORK, LARGEST_PART, Source, in_parallel, is_installed, pieces

_STORED_LENGTH = struct.Struct(">I")
_LENGTH = struct.Struct("<I")
_PART = 1 << 22
_RATIO = 256


class Lz4:
    """See ``Codec``."""

    id = b"lz4\0"
    extra = "lz4"
    ratio = _RATIO

    def available(self) -> bool:
        """Return whether ``lz4`` is installed."""
        return is_installed("lz4")

    def memory(self, stored: Source) -> int:
        """Return the most memory that ``in_parallel`` uses for parts."""
        return IN_WORK

    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """See ``Codec``."""
        import lz4.block

        def work(part: bytes) -> bytes:
            try:
                return bytes(lz4.block.decompress(part))
            except lz4.block.LZ4BlockError as err:
                raise ValueError(str(err)) from err

        yield from in_parallel(work, _parts(stored), lambda part: len(part) + _length(part))

    def encode(self, content: Source) -> Iterator[bytes]:
        """See ``Codec``.  Never raises ``ValueError``."""
        import lz4.block

        def work(part: bytes) -> bytes:
            stored: bytes = lz4.block.compress(part, mode="default")
            return _STORED_LENGTH.pack(len(stored)) + stored

        yield from in_parallel(work, pieces(content, length=_PART), lambda part: 2 * len(part))


def _parts(stored: Source) -> Iterator[bytes]:
    """Yield the compressed parts, without their stored lengths.  Raises ``ValueError`` if a length is impossible."""
    place = 0
    while head := stored.read_at(place, _STORED_LENGTH.size):
        if len(head) < _STORED_LENGTH.size:
            raise ValueError("the stored bytes end inside the length field of a part")
        length = _STORED_LENGTH.unpack(head)[0]
        place += _STORED_LENGTH.size
        if length > min(LARGEST_PART, stored.size - place):
            raise ValueError(f"the length field of a part says {length} bytes, which is too large")
        part = stored.read_at(place, length)
        _check_length(part)
        yield part
        place += length


def _length(part: bytes) -> int:
    return int(_LENGTH.unpack_from(part)[0])


def _check_length(part: bytes) -> None:
    if len(part) < _LENGTH.size or _length(part) > min(LARGEST_PART, _RATIO * len(part)):
        raise ValueError("the length field of a part is not possible")


PLUGIN = Lz4()
