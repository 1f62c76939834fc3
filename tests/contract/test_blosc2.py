"""Blocks of Blosc2: ``bls2`` as asdf-compression and asdf-cxx write it, and ``bsc2``."""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import asdf
import blosc2
import numpy as np
import pytest
from support.bls2 import library_with_bls2
from support.codecs import Bytes
from support.samples import odd_file

import asdffs
from asdffs.cli.main import main
from asdffs.codecs.base import Codec, name_of
from asdffs.codecs.bls2 import PLUGIN as BLS2
from asdffs.codecs.bls2 import Settings, compressed
from asdffs.codecs.bsc2 import PLUGIN as BSC2
from asdffs.codecs.seeking import seeker_of

VALUES = np.arange(300_000, dtype="<f8") % 1000
CONTENT = VALUES.tobytes()
CHUNK = 1 << 20
TREE = """\
%YAML 1.1
%TAG ! tag:stsci.edu:asdf/
--- !core/asdf-1.1.0
a: !core/ndarray-1.1.0 {source: 0, datatype: float64, byteorder: little, shape: [300000]}
...
"""


def as_chunk(content: bytes) -> bytes:
    """As asdf-compression does."""
    return bytes(blosc2.compress(content, typesize=1 if len(content) % 8 else 8))


def as_frame(content: bytes, item: int = 8) -> bytes:
    """As asdf-cxx does, but that its chunks have 2 GiB."""
    settings = {"typesize": item, "codec": blosc2.Codec.BLOSCLZ, "filters": [blosc2.Filter.BITSHUFFLE]}
    frame = blosc2.SChunk(chunksize=CHUNK, contiguous=True, cparams=settings)
    for place in range(0, len(content), CHUNK):
        frame.append_data(content[place : place + CHUNK])
    return bytes(frame.to_cframe())


def as_pieces(content: bytes) -> bytes:
    chunks = [as_chunk(content[place : place + CHUNK]) for place in range(0, len(content), CHUNK)]
    return b"".join(struct.pack(">I", len(chunk)) + chunk for chunk in chunks)


KINDS: dict[str, tuple[Codec, object]] = {
    "chunk": (BLS2, as_chunk),
    "frame": (BLS2, as_frame),
    "pieces": (BSC2, as_pieces),
}


def content_of(kind: str, stored: bytes) -> bytes:
    """By the library alone."""
    if kind == "chunk":
        return bytes(blosc2.decompress2(stored))
    if kind == "frame":
        frame = blosc2.schunk_from_cframe(stored)
        return b"".join(frame.decompress_chunk(number) for number in range(frame.nchunks))
    found, place = b"", 0
    while place < len(stored):
        (length,) = struct.unpack_from(">I", stored, place)
        found += blosc2.decompress2(stored[place + 4 : place + 4 + length])
        place += 4 + length
    return found


def write(path: Path, kind: str, stored: bytes) -> Path:
    lengths = (len(stored), len(stored), len(CONTENT))
    head = struct.pack(">HI4sQQQ16s", 48, 0, KINDS[kind][0].id, *lengths, hashlib.md5(stored).digest())
    path.write_bytes(odd_file(tree=TREE, blocks=[b"\xd3BLK" + head + stored]))
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_a_block_is_read_and_written_again_in_its_layout(tmp_path: Path, kind: str) -> None:
    codec, make = KINDS[kind]
    path = write(tmp_path / "a.asdf", kind, make(CONTENT))
    assert main(["check", "--deep", str(path)]) == 0
    with asdffs.open(path, "r+") as document:
        assert document.blocks[0].compression == name_of(codec.id)
        assert np.array_equal(document.arrays["a"][...], VALUES)
        assert document.arrays["a"][299_000] == 0
        document.arrays["a"][70_000] = -1
    changed = VALUES.copy()
    changed[70_000] = -1
    with asdffs.open(path) as document:
        stored = document.read_raw(document.blocks[0].offset + 54, document.blocks[0].header.used_size)
        assert np.array_equal(document.arrays["a"][...], changed)
    assert content_of(kind, stored) == changed.tobytes()
    assert codec.layout_of(Bytes(stored)) == codec.layout_of(Bytes(make(CONTENT)))


@pytest.fixture
def with_bls2() -> Iterator[None]:
    with library_with_bls2():
        yield


@pytest.mark.usefixtures("with_bls2")
def test_asdf_reads_what_is_written_and_writes_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.asdf"
    asdf.AsdfFile({"a": VALUES}).write_to(path, all_array_compression="bls2")
    with asdffs.open(path, "r+") as document:
        assert np.array_equal(document.arrays["a"][...], VALUES)
        document.arrays["a"][3] = -7
    with asdf.open(path) as opened:
        assert opened["a"][:5].tolist() == [0, 1, 2, -7, 4]
    assert main(["repack", "--compression", "none", str(path)]) == 0
    assert main(["repack", "--compression", "bls2", str(path)]) == 0
    with asdf.open(path) as opened:
        assert opened["a"][:5].tolist() == [0, 1, 2, -7, 4]


@pytest.mark.parametrize("size", [1, 7, 8, CHUNK - 1, CHUNK + 3, 3 * CHUNK + 5])
@pytest.mark.parametrize("kind", KINDS)
def test_sizes(kind: str, size: int) -> None:
    """Also those that end within an item."""
    content = (CONTENT * 2)[:size]
    codec, make = KINDS[kind]
    for stored in (make(content), b"".join(codec.layout_of(Bytes(make(CONTENT))).encode(Bytes(content)))):
        found = Bytes(stored)
        assert b"".join(codec.layout_of(found).decode(found, size)) == content
        assert content_of(kind, stored) == content


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_starts_before_what_it_needs(kind: str) -> None:
    codec, make = KINDS[kind]
    stored = Bytes(make(CONTENT))
    seeker = seeker_of(codec.layout_of(stored), stored, len(CONTENT))
    for place in (0, 1, CHUNK + 4, len(CONTENT) - 1):
        start = seeker.start_before(place)
        assert place - CHUNK < start <= place
        assert b"".join(seeker.decode_from(start)) == CONTENT[start:]


@pytest.mark.parametrize("settings", [Settings(1, 0, 2), Settings(4, 1, 1), Settings(8, 5, 0), Settings(2, 4, 2)])
def test_settings(settings: Settings) -> None:
    stored = as_chunk(CONTENT)
    assert Settings.of(stored) != settings
    assert Settings.of(compressed(CONTENT, settings)) == settings


def test_digits_are_not_lost_again() -> None:
    """A filter that rounds is for who makes the data."""
    filters = {"filters": [blosc2.Filter.TRUNC_PREC, blosc2.Filter.SHUFFLE], "filters_meta": [10, 0]}
    stored = bytes(blosc2.compress2(CONTENT, typesize=8, **filters))
    codec = BLS2.layout_of(Bytes(stored))
    exact = np.random.default_rng(1).normal(size=1000).tobytes()
    assert blosc2.decompress2(b"".join(codec.encode(Bytes(exact)))) == exact


@pytest.mark.parametrize("kind", KINDS)
def test_damage_raises_a_reason(kind: str) -> None:
    codec, make = KINDS[kind]
    whole, chance = make(CONTENT), random.Random(3)
    for _ in range(300):
        stored = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            stored[chance.randrange(min(len(stored), chance.choice((40, 200, 10**6))))] = chance.randrange(256)
        del stored[len(stored) - chance.choice((0, 0, 0, 1, 40, len(stored) // 2)) :]
        found = Bytes(bytes(stored))
        try:
            parts = codec.layout_of(found).decode(found, len(CONTENT))
            assert sum(map(len, parts)) <= 2 * len(CONTENT)
        except ValueError as err:
            assert str(err)


def test_what_a_chunk_cannot_hold_is_refused() -> None:
    class Huge(Bytes):
        size = 1 << 31

    with pytest.raises(ValueError, match="2147483615"):
        next(BLS2.encode(Huge(b"")))


def test_a_chunk_that_says_it_is_large_takes_no_memory() -> None:
    chunk = bytearray(as_chunk(bytes(CHUNK)))
    for place in (4, 8):
        chunk[place : place + 4] = b"\xff\xff\xff\x7f"
    for codec, stored in ((BLS2, bytes(chunk)), (BSC2, struct.pack(">I", len(chunk)) + bytes(chunk))):
        with pytest.raises(ValueError, match="too large|not supported|contradicts"):
            next(codec.decode(Bytes(stored), (1 << 31) - 1))


@pytest.mark.parametrize("first", [-1, -200, 1 << 30])
def test_a_frame_leads_nowhere_outside_of_its_block(first: int) -> None:
    """What its header says of its length is where its chunks begin."""
    frame = bytearray(as_frame(CONTENT))
    frame[11:15] = first.to_bytes(4, "big", signed=True)
    stored = Bytes(bytes(frame))
    with pytest.raises(ValueError, match="outside of the stored bytes|contradicts"):
        next(BLS2.layout_of(stored).decode(stored, len(CONTENT)))


def test_a_chunk_that_ends_within_an_item_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    content = (CONTENT * 3)[: 6 * CHUNK + 5]
    stored = Bytes(bytes(blosc2.compress2(content, typesize=8)))
    calls = []
    decode = blosc2.SChunk.decompress_chunk
    monkeypatch.setattr(blosc2.SChunk, "decompress_chunk", lambda *given: (calls.append(given), decode(*given))[1])
    assert b"".join(BLS2.layout_of(stored).decode(stored, len(content))) == content
    assert len(calls) == 1
