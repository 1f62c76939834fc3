"""The ``lz4`` compression with the framing of the asdf library.

The content is cut into parts of 4 MiB; a reader accepts any size.  A part is stored as

* the length of the following two fields together (4 bytes, big-endian),
* the length of the decoded part (4 bytes, little-endian),
* one LZ4 block.

Parts are decoded and encoded in parallel.  A decoder can start at each of them.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from asdffs.codecs.base import IN_WORK, LARGEST_PART, Source, in_parallel, is_installed, pieces
from asdffs.codecs.seeking.chain import RewritableChain
from asdffs.codecs.seeking.guesses import Guesses
from asdffs.codecs.seeking.lz4_slots import encode_part, encode_to_length

_STORED_LENGTH = struct.Struct(">I")
_LENGTH = struct.Struct("<I")
_PART = 1 << 22
_RATIO = 256
#: Parts that a decoder decodes one by one at first.
_ALONE = 3


@dataclass(frozen=True)
class Lz4:
    """See ``Codec``.  ``part``: bytes of content in each part that it encodes."""

    id = b"lz4\0"
    extra = "lz4"
    ratio = _RATIO
    part: int = _PART

    def in_pieces(self, size: int) -> Lz4:
        """See ``codecs.base.Divisible``."""
        return Lz4(size)

    def available(self) -> bool:
        """Return whether ``lz4`` is installed."""
        return is_installed("lz4")

    def memory(self, stored: Source) -> int:
        """Return the most memory that ``in_parallel`` uses for parts."""
        return IN_WORK

    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """See ``Codec``."""
        return _decoded(stored, 0)

    def seeker(self, stored: Source, size: int) -> RewritableChain:
        """Return a seeker that reads the lengths of the parts.  See ``codecs.seeking.seeker``."""
        ask = getattr(stored, "ask_ahead", None)
        return RewritableChain(
            lambda place: _measured(stored, place),
            lambda place: _decoded(stored, place),
            size,
            encode_to_length,
            Guesses(ask) if ask is not None else None,
        )

    def encode(self, content: Source) -> Iterator[bytes]:
        """See ``Codec``.  Never raises ``ValueError``."""
        yield from in_parallel(encode_part, pieces(content, length=self.part), lambda part: 2 * len(part))


def _decoded(stored: Source, place: int) -> Iterator[bytes]:
    """Yield the content of the parts from ``place`` of the stored bytes on: a few one by one, then in parallel.

    Who reads at random needs one part or two.  Threads that decode more would go on after this decoder was closed.
    """
    parts = _parts(stored, place)
    for part in itertools.islice(parts, _ALONE):
        yield _decoded_part(part)
        del part
    yield from in_parallel(_decoded_part, parts, lambda part: len(part) + _length(part))


def _decoded_part(part: bytes) -> bytes:
    import lz4.block

    try:
        content = bytes(lz4.block.decompress(part))
    except lz4.block.LZ4BlockError as err:
        raise ValueError(str(err)) from err
    if len(content) != _length(part):
        raise ValueError(f"a part decodes to {len(content)} bytes, and its length field says {_length(part)}")
    return content


def _parts(stored: Source, place: int) -> Iterator[bytes]:
    """Yield the compressed parts, without their stored lengths.  Raises ``ValueError`` if a length is impossible."""
    while head := stored.read_at(place, _STORED_LENGTH.size):
        length = _stored_length(stored, place, head)
        place += _STORED_LENGTH.size
        part = stored.read_at(place, length)
        _check_length(part, len(part))
        yield part
        place += length


def _measured(stored: Source, place: int) -> tuple[int, int] | None:
    """Return the decoded length of the part at ``place``, and where the next one begins; None at the end.

    Raises ``ValueError`` if a length is impossible.
    """
    head = stored.read_at(place, _STORED_LENGTH.size + _LENGTH.size)
    if not head:
        return None
    length = _stored_length(stored, place, head)
    _check_length(head[_STORED_LENGTH.size :], length)
    return _LENGTH.unpack_from(head, _STORED_LENGTH.size)[0], place + _STORED_LENGTH.size + length


def _stored_length(stored: Source, place: int, head: bytes) -> int:
    """Return the stored length of the part at ``place``, whose first bytes are ``head``."""
    if len(head) < _STORED_LENGTH.size:
        raise ValueError("the stored bytes end inside the length field of a part")
    length = int(_STORED_LENGTH.unpack_from(head)[0])
    if length > min(LARGEST_PART, stored.size - place - _STORED_LENGTH.size):
        raise ValueError(f"the length field of a part says {length} bytes, which is too large")
    return length


def _length(part: bytes) -> int:
    return int(_LENGTH.unpack_from(part)[0])


def _check_length(part: bytes, stored: int) -> None:
    """Raise ``ValueError`` unless a part of ``stored`` bytes, which begins with ``part``, can have its length."""
    if min(len(part), stored) < _LENGTH.size or _length(part) > min(LARGEST_PART, _RATIO * stored):
        raise ValueError("the length field of a part is not possible")


PLUGIN = Lz4()
