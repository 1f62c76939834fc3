"""The ``lz4`` compression with the framing of the asdf library.

The content is cut into parts of 4 MiB; a reader accepts any size.  A part is stored as

* the length of the following two fields together (4 bytes, big-endian),
* the length of the decoded part (4 bytes, little-endian),
* one LZ4 block.

Parts are decoded and encoded in parallel.  A decoder can start at each of them.

The format has no filler, but a slot must keep its exact length when a part is written again.  So a few bytes of the
content are stored as many tiny parts.  A part of n bytes that is not compressed takes n bytes, and 9 more if n is
less than 15, or 10 more if n is 15 to 269.  The numbers of both kinds decide how many bytes are added: any number
from 310 on, and most below.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from asdffs.codecs.base import IN_WORK, LARGEST_PART, Codec, Source, in_parallel, pieces
from asdffs.codecs.seeking import Guesses, RewritableChain, fitting

_STORED_LENGTH: Final = struct.Struct(">I")
_LENGTH: Final = struct.Struct("<I")
_PART: Final = 1 << 22
_RATIO: Final = 256
#: Parts that a decoder decodes one by one at first.
_ALONE: Final = 3
#: The most content of a tiny part of each kind, and the bytes that it takes besides (the LZ4 block format).
_SMALL: Final = 14
_MEDIUM: Final = 269
_SMALL_COST: Final = 9
_MEDIUM_COST: Final = 10
#: How many bytes of the content are stored as tiny parts; each is tried.
_TINY: Final = (0, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True)
class Lz4(Codec):
    """The codec ``lz4``.  ``part``: bytes of content in each part that it encodes."""

    id = b"lz4\0"
    library = "lz4"
    extra = "lz4"
    ratio = _RATIO
    part: int = _PART

    def in_pieces(self, size: int) -> Lz4:
        """See ``codecs.base.Divisible``."""
        return Lz4(size)

    def memory(self, stored: Source) -> int:
        """Return the most memory that ``in_parallel`` uses for parts."""
        return IN_WORK

    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """See ``Codec``."""
        return _decoded(stored, 0)

    def seeker(self, stored: Source, size: int) -> RewritableChain:
        """Return a seeker that reads the lengths of the parts."""
        ask = getattr(stored, "ask_ahead", None)
        return RewritableChain(
            functools.partial(_measured, stored),
            functools.partial(_decoded, stored),
            size,
            encode_to_length,
            Guesses(ask) if ask is not None else None,
        )

    def encode(self, content: Source) -> Iterator[bytes]:
        """See ``Codec``.  Never raises ``ValueError``."""
        yield from in_parallel(encode_part, pieces(content, length=self.part), lambda part: 2 * len(part))


def _decoded(stored: Source, place: int) -> Iterator[bytes]:
    """Yield the content of the parts from ``place`` of the stored bytes on."""
    parts = _parts(stored, place)
    return in_parallel(_decoded_part, parts, lambda part: len(part) + _length(part), _ALONE)


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


def encode_part(content: bytes | memoryview) -> bytes:
    """Return ``content`` as one part, as the asdf library stores it."""
    import lz4.block

    stored: bytes = lz4.block.compress(content, mode="default")
    return _STORED_LENGTH.pack(len(stored)) + stored


def encode_to_length(content: bytes, length: int, grain: int) -> bytes | None:
    """Return parts with ``content`` that take ``length`` bytes, or more by a multiple of ``grain``.

    None if no number of tiny parts gives such a length.
    """
    best: tuple[int, int, bytes] | None = None
    for tiny in _TINY:
        if tiny > len(content):
            break
        part = encode_part(memoryview(content)[tiny:])
        wanted = _possible(tiny, len(part) + tiny, length, grain)
        if wanted is not None and (best is None or wanted < best[0]):
            best = wanted, tiny, part
        if best is not None and best[0] <= fitting(length, len(part), grain):
            break
    if best is None:
        return None
    wanted, tiny, part = best
    return b"".join(_tiny_parts(content[:tiny], wanted - tiny - len(part))) + part


def _possible(tiny: int, least: int, length: int, grain: int) -> int | None:
    """Return the shortest length that fits the slot and can be reached; None if there is none.

    ``least``: bytes of all parts without the cost of ``tiny`` bytes of content as tiny parts.
    """
    first = fitting(length, least, grain)
    return next((n for n in (first, first + grain) if _counts(tiny, n - least) is not None), None)


def _counts(tiny: int, cost: int) -> tuple[int, int] | None:
    """Return how many small and how many medium parts have ``tiny`` bytes together and cost ``cost`` bytes."""
    medium = cost % _SMALL_COST
    small = (cost - _MEDIUM_COST * medium) // _SMALL_COST
    least, most = small + (_SMALL + 1) * medium, _SMALL * small + _MEDIUM * medium
    return (small, medium) if small >= 0 and least <= tiny <= most else None


def _tiny_parts(content: bytes, cost: int) -> Iterator[bytes]:
    """Yield ``content`` in parts that are not compressed and cost ``cost`` bytes together."""
    counts = _counts(len(content), cost)
    if counts is None:
        raise ValueError(f"{len(content)} bytes in tiny parts cannot cost {cost} bytes")
    lows = [1] * counts[0] + [_SMALL + 1] * counts[1]
    highs = [_SMALL] * counts[0] + [_MEDIUM] * counts[1]
    spare, place = len(content) - sum(lows), 0
    for low, high in zip(lows, highs, strict=True):
        more = min(spare, high - low)
        spare -= more
        yield _literal_part(content[place : place + low + more])
        place += low + more


def _literal_part(content: bytes) -> bytes:
    """Return a part of 1 to 269 bytes that is not compressed: one LZ4 sequence of literals."""
    length = len(content)
    token = bytes([length << 4]) if length <= _SMALL else bytes([0xF0, length - _SMALL - 1])
    stored = _LENGTH.pack(length) + token + content
    return _STORED_LENGTH.pack(len(stored)) + stored


PLUGIN = Lz4()
