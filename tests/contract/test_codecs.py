"""Every codec decodes what the asdf library encodes, and the other way round; damage is told, memory is bounded."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import asdf
import numpy as np
import pytest
from asdf import _compression as library
from support import codecs
from support.codecs import Bytes

from asdffs.codecs.base import LARGEST_PART, in_parallel

CODECS = codecs.CODECS
RNG = np.random.default_rng(7)
CONTENTS = {
    "empty": np.zeros(0, "u1"),
    "one byte": np.ones(1, "u1"),
    "zeros": np.zeros(3 << 20, "u1"),
    "noise": RNG.integers(0, 256, 700_001, "u1"),
    "numbers": RNG.normal(size=300_000).astype("f4").view("u1"),
    "two parts": np.repeat(RNG.integers(0, 9, 5 << 18, "u1"), 4)[: (4 << 20) + 13],
}


class Output:
    """What ``asdf`` writes to and reads from."""

    def __init__(self, content: bytes = b"") -> None:
        self.content = content

    def write(self, data: bytes) -> None:
        self.content += bytes(data)

    def read_blocks(self, size: int) -> Iterator[bytes]:
        for place in range(0, size, 60_000):
            yield self.content[place : min(place + 60_000, size)]


def encoded(name: str, content: np.ndarray) -> bytes:
    """By the asdf library."""
    output = Output()
    library.compress(output, content, name)
    return output.content


def test_all_the_codecs_of_the_library_are_there() -> None:
    with_extensions = {c.label.strip(b"\0").decode() for e in asdf.get_config().extensions for c in e.compressors}
    assert {"zlib", "bzp2", "lz4"} | with_extensions == set(CODECS) == {"zlib", "bzp2", "lz4", "lz4f", "zstd", "blsc"}
    assert all(codec.available() for codec in CODECS.values())


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("kind", CONTENTS)
def test_decodes_what_the_library_encodes(name: str, kind: str) -> None:
    content = CONTENTS[kind]
    stored = b"" if kind == "empty" and name == "blsc" else encoded(name, content)
    if stored:
        assert b"".join(CODECS[name].decode(Bytes(stored), content.size)) == content.tobytes()
        assert len(stored) * CODECS[name].ratio >= content.size


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("kind", CONTENTS)
def test_the_library_decodes_what_is_encoded(name: str, kind: str) -> None:
    content = CONTENTS[kind].tobytes()
    stored = b"".join(CODECS[name].encode(Bytes(content)))
    if stored:
        assert library.decompress(Output(stored), len(stored), len(content), name).tobytes() == content
        assert b"".join(CODECS[name].decode(Bytes(stored), len(content))) == content


@pytest.mark.sampled(5)
@pytest.mark.parametrize("shuffle", [0, 1, 2])
@pytest.mark.parametrize("typesize", [1, 2, 4, 8, 13])
@pytest.mark.parametrize("cname", ["blosclz", "lz4", "zlib", "zstd"])
def test_every_kind_of_blosc_buffer(shuffle: int, typesize: int, cname: str) -> None:
    import blosc

    content = (np.cumsum(RNG.integers(0, 5, 900_000)).astype("i4").tobytes() + b"end")[:3_000_017]
    stored = blosc.compress(content, typesize=typesize, shuffle=shuffle, cname=cname, clevel=5)
    assert b"".join(CODECS["blsc"].decode(Bytes(stored), len(content))) == content


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CODECS)
def test_pieces_are_small_and_come_before_all_is_read(name: str) -> None:
    content = np.repeat(np.arange(1 << 16, dtype="u4"), 96)
    stored = encoded(name, content.view("u1"))
    decoded = CODECS[name].decode(Bytes(stored), content.nbytes)
    first = next(piece for piece in decoded if piece)
    assert content.tobytes().startswith(first)
    assert max(len(first), *map(len, decoded)) <= 8 << 20


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("damage", ["flip", "cut", "zeros", "nothing"])
def test_damage_raises_or_gives_the_wrong_size_or_bytes(name: str, damage: str) -> None:
    content = RNG.integers(0, 99, 200_000, "u1")
    stored = bytearray(encoded(name, content))
    if damage == "flip":
        for place in (len(stored) // 3, len(stored) // 2, 30):
            stored[place] ^= 0xFF
    elif damage == "cut":
        del stored[len(stored) // 2 :]
    elif damage == "zeros":
        stored[:] = bytes(len(stored))
    else:
        stored.clear()
    try:
        out = b"".join(CODECS[name].decode(Bytes(bytes(stored)), content.size))
    except ValueError as err:
        assert str(err)
    else:
        assert out != content.tobytes()


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("missing", [1, 4, 20])
def test_a_stream_that_ends_too_early_is_told(name: str, missing: int) -> None:
    """Also where all of the content came out before: what is missing verifies it."""
    content = RNG.integers(0, 99, 200_000, "u1")
    stored = encoded(name, content)[:-missing]
    try:
        out = b"".join(CODECS[name].decode(Bytes(stored), content.size))
    except ValueError:
        return
    assert len(out) < content.size


@pytest.mark.parametrize("length", [2**32 - 1, LARGEST_PART + 1])
def test_lz4_parts_that_lie_take_no_memory(length: int) -> None:
    part = struct.pack("<I", length) + b"x" * 40
    for stored in (struct.pack(">I", len(part)) + part, struct.pack(">I", length) + part):
        with pytest.raises(ValueError, match="part"):
            list(CODECS["lz4"].decode(Bytes(stored), 2**60))


@pytest.mark.parametrize("place", range(0, 40, 4))
def test_a_header_of_blosc_that_lies_is_refused_or_harmless(place: int) -> None:
    content = np.cumsum(RNG.integers(0, 5, 500_000)).astype("i4").tobytes()
    stored = bytearray(encoded("blsc", np.frombuffer(content, "u1")))
    stored[place : place + 4] = b"\xff\xff\xff\x7f"
    try:
        out = b"".join(CODECS["blsc"].decode(Bytes(bytes(stored)), len(content)))
    except ValueError:
        return
    assert out != content or place >= 4 * (4 + -(-len(content) // struct.unpack_from("<I", stored, 8)[0]))


def test_parallel_work_keeps_its_order_and_its_bounds() -> None:
    taken = []

    def parts() -> Iterator[int]:
        for number in range(40):
            taken.append(number)
            yield number

    out = in_parallel(lambda number: bytes([number]), parts(), lambda number: 20 << 20)
    for number, piece in enumerate(out):
        assert piece == bytes([number])
        assert len(taken) <= number + 3


def test_what_blsc_cannot_hold_is_refused() -> None:
    class Huge(Bytes):
        size = 1 << 31

    with pytest.raises(ValueError, match="2147483631"):
        next(CODECS["blsc"].encode(Huge(b"")))
