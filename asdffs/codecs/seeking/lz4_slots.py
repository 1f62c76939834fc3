"""Stored bytes of ``lz4`` that have an exact length.

The format has no filler.  But a few bytes of the content can be stored as many tiny parts.  A part of n bytes that
is not compressed takes n bytes, and 9 more if n is less than 15, or 10 more if n is 15 to 269.  So the numbers of
both kinds decide how many bytes are added: any number from 310 on, and most below.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from asdffs.codecs.seeking.slots import fitting

_HEAD: Final = struct.Struct(">I")
_LENGTH: Final = struct.Struct("<I")
#: The most content of a tiny part of each kind, and the bytes that it takes besides (the LZ4 block format).
_SMALL: Final = 14
_MEDIUM: Final = 269
_SMALL_COST: Final = 9
_MEDIUM_COST: Final = 10
#: How many bytes of the content are stored as tiny parts; each is tried.
_TINY: Final = (0, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


def encode_part(content: bytes | memoryview) -> bytes:
    """Return ``content`` as one part, as the asdf library stores it."""
    import lz4.block

    stored: bytes = lz4.block.compress(content, mode="default")
    return _HEAD.pack(len(stored)) + stored


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
    return _HEAD.pack(len(stored)) + stored
