"""The ``lz4`` compression as the asdf library frames it.

The content is cut into parts of 4 MiB (readers take any size); each is stored as the length of its
compressed bytes (4 bytes, big-endian), and those: the length of the part (4 bytes, little-endian)
and one LZ4 block.  Parts are decoded and encoded in parallel.
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
        """Whether ``lz4`` is installed."""
        return is_installed("lz4")

    def memory(self, stored: Source) -> int:
        """The parts that are in work."""
        return IN_WORK

    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """Raises ``ValueError``."""
        import lz4.block

        def work(part: bytes) -> bytes:
            try:
                return bytes(lz4.block.decompress(part))
            except lz4.block.LZ4BlockError as err:
                raise ValueError(str(err)) from err

        yield from in_parallel(work, _parts(stored), lambda part: len(part) + _length(part))

    def encode(self, content: Source) -> Iterator[bytes]:
        """Never refuses."""
        import lz4.block

        def work(part: bytes) -> bytes:
            stored: bytes = lz4.block.compress(part, mode="default")
            return _STORED_LENGTH.pack(len(stored)) + stored

        yield from in_parallel(work, pieces(content, length=_PART), lambda part: 2 * len(part))


def _parts(stored: Source) -> Iterator[bytes]:
    """The compressed parts.  Raises ``ValueError``."""
    place = 0
    while head := stored.read_at(place, _STORED_LENGTH.size):
        if len(head) < _STORED_LENGTH.size:
            raise ValueError("it ends inside the length of a part")
        length = _STORED_LENGTH.unpack(head)[0]
        place += _STORED_LENGTH.size
        if length > min(LARGEST_PART, stored.size - place):
            raise ValueError(f"a part says it has {length} bytes")
        part = stored.read_at(place, length)
        _check_length(part)
        yield part
        place += length


def _length(part: bytes) -> int:
    return int(_LENGTH.unpack_from(part)[0])


def _check_length(part: bytes) -> None:
    if len(part) < _LENGTH.size or _length(part) > min(LARGEST_PART, _RATIO * len(part)):
        raise ValueError("the length of a part cannot be right")


PLUGIN = Lz4()
