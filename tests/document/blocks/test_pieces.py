"""Reads of any part of a compressed block: equal to the content, with few bytes decoded, whatever the spool keeps."""

from __future__ import annotations

import random
import struct
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import lz4.block
import numpy as np
import pytest
import zstandard
from support.codecs import Bytes

from asdffs.codecs import zlib as zlib_codec
from asdffs.codecs.base import Codec
from asdffs.codecs.blsc import PLUGIN as BLSC
from asdffs.codecs.lz4 import PLUGIN as LZ4
from asdffs.codecs.seeking import FromStart, seeker_of
from asdffs.codecs.zlib import PLUGIN as ZLIB
from asdffs.codecs.zstd import PLUGIN as ZSTD
from asdffs.document.blocks.compressed import StoredBytes
from asdffs.document.blocks.decoding import DecodedBlock
from asdffs.document.blocks.spool import SpoolRoom
from asdffs.document.report import Progress
from asdffs.errors import DamagedBlockError
from asdffs.scheduling import SingleThread
from asdffs.storage.backend import read_bytes

RNG = np.random.default_rng(7)
#: 20 MiB and a bit: not a multiple of anything.
CONTENT = np.repeat(RNG.integers(0, 250, (20 << 20) // 5 + 3, "u1"), 5).tobytes()
PIECE = 1 << 20


def lz4_parts(sizes: list[int]) -> bytes:
    stored, place = b"", 0
    for size in sizes:
        part = lz4.block.compress(CONTENT[place : place + size])
        stored, place = stored + struct.pack(">I", len(part)) + part, place + size
    return stored


def zstd_frames(*, table: bool, checksum: bool = False) -> bytes:
    compressor = zstandard.ZstdCompressor(write_checksum=checksum)
    pieces = [CONTENT[n : n + PIECE] for n in range(0, len(CONTENT), PIECE)]
    frames = [compressor.compress(piece) for piece in pieces]
    if not table:
        return frames[0] + b"\x50\x2a\x4d\x18\x03\0\0\0abc" + b"".join(frames[1:])
    rows = b"".join(struct.pack("<II", len(a), len(b)) for a, b in zip(frames, pieces, strict=True))
    foot = rows + struct.pack("<IBI", len(frames), 0, 0x8F92EAB1)
    return b"".join(frames) + struct.pack("<II", 0x184D2A5E, len(foot)) + foot


def odd_sizes() -> list[int]:
    sizes, chosen = [], random.Random(3)
    while (left := len(CONTENT) - sum(sizes)) > 0:
        sizes.append(min(left, chosen.choice([1, 1000, 300_000, 1 << 20, 4 << 20])))
    return sizes


#: Name -> codec, stored bytes, the most bytes that one read may decode beside what was asked.
CASES: dict[str, tuple[Codec, bytes, int]] = {
    "lz4": (LZ4, b"".join(LZ4.encode(Bytes(CONTENT))), 4 << 20),
    "lz4 odd": (LZ4, lz4_parts(odd_sizes()), 5 << 20),
    "blsc": (BLSC, b"".join(BLSC.encode(Bytes(CONTENT))), 5 << 20),
    "zstd": (ZSTD, zstd_frames(table=False), 4 << 20),
    "zstd sums": (ZSTD, zstd_frames(table=False, checksum=True), 4 << 20),
    "zstd table": (ZSTD, zstd_frames(table=True), 4 << 20),
    "zlib": (ZLIB, zlib.compress(CONTENT, 1), len(CONTENT)),
}


class Counted:
    """A seeker that counts the bytes that are decoded, and the starts."""

    def __init__(self, codec: Codec, stored: bytes) -> None:
        self._seeker = seeker_of(codec, Bytes(stored), len(CONTENT))
        self.bytes = 0
        self.starts: list[int] = []

    def start_before(self, offset: int) -> int:
        return self._seeker.start_before(offset)

    def decode_from(self, start: int) -> Iterator[bytes]:
        self.starts.append(start)
        for piece in self._seeker.decode_from(start):
            self.bytes += len(piece)
            yield piece


def block(folder: Path, seeker: object, room: int) -> DecodedBlock:
    return DecodedBlock(
        3,
        len(CONTENT),
        lambda: (0, seeker),
        SpoolRoom(str(folder), room),
        scheduler=SingleThread(),
        progress=Progress(),
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("room", [8 << 20, 1 << 30], ids=["small", "large"])
@pytest.mark.parametrize("name", CASES)
def test_two_readers_at_any_place(name: str, room: int, tmp_path: Path) -> None:
    codec, stored, _ = CASES[name]
    counted, chosen = Counted(codec, stored), random.Random(5)
    decoded = block(tmp_path, counted, room)
    ahead = [0, len(CONTENT) // 2]
    for _ in range(150):
        reader = chosen.randrange(4)
        offset = ahead[reader] if reader < 2 else chosen.randrange(len(CONTENT))
        length = chosen.choice([1, 4096, 131072, 700_000])
        assert read_bytes(decoded.read(offset, length)) == CONTENT[offset : offset + length]
        if reader < 2:
            ahead[reader] = (offset + length) % len(CONTENT)
        assert decoded.kept <= room
    decoded.restart()


@pytest.mark.parametrize("name", CASES)
def test_each_boundary_and_what_a_read_costs(name: str, tmp_path: Path) -> None:
    codec, stored, most = CASES[name]
    seeker = Counted(codec, stored)
    starts = sorted({seeker.start_before(n) for n in range(0, len(CONTENT) + 1, 10_000)})
    for start in starts[-6:] if len(starts) > 6 else starts:
        for offset in (start - 1, start, start + 1, len(CONTENT) - 1):
            if 0 <= offset < len(CONTENT):
                decoded, before = block(tmp_path, seeker, 1 << 30), seeker.bytes
                assert read_bytes(decoded.read(offset, 2)) == CONTENT[offset : offset + 2]
                assert seeker.bytes - before <= most * (2 if offset < start else 1)
                decoded.restart()


def test_zlib_starts_again_where_it_was(tmp_path: Path) -> None:
    codec, stored, _ = CASES["zlib"]
    counted = Counted(codec, stored)
    decoded = block(tmp_path, counted, 4 << 20)
    for offset in (len(CONTENT) - 10, 9 << 20, len(CONTENT) - 10, 17 << 20):
        before = counted.bytes
        assert read_bytes(decoded.read(offset, 10)) == CONTENT[offset : offset + 10]
        assert offset == len(CONTENT) - 10 or counted.bytes - before <= 10 << 20
    assert counted.starts[0] == 0
    assert len(counted.starts) > 1
    assert all(start >= 8 << 20 for start in counted.starts[1:])
    decoded.restart()


def test_damage_concerns_its_own_piece(tmp_path: Path) -> None:
    sizes = [1 << 20] * 20
    sizes.append(len(CONTENT) - sum(sizes))
    stored = bytearray(lz4_parts(sizes))
    place = 0
    for _ in range(7):
        place += 4 + struct.unpack_from(">I", stored, place)[0]
    stored[place + 5000 : place + 5100] = bytes(100)
    decoded = block(tmp_path, Counted(LZ4, bytes(stored)), 1 << 30)
    bad = range(7 << 20, 8 << 20)
    for _ in range(2):
        for offset in (0, bad.start - 10, bad.stop, len(CONTENT) - 10):
            assert read_bytes(decoded.read(offset, 10)) == CONTENT[offset : offset + 10]
        with pytest.raises(DamagedBlockError):
            decoded.read(bad.start + 10, 10)
        with pytest.raises(DamagedBlockError):
            decoded.read(bad.stop - 10, 20)
    decoded.restart()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["lz4", "blsc", "zstd", "zstd table"])
def test_bytes_that_lie_give_the_content_or_an_error(name: str, tmp_path: Path) -> None:
    """Anything may be wrong: each read gives what decoding from the beginning gives there, or an error."""
    codec, stored, _ = CASES[name]
    chosen = random.Random(9)
    for _ in range(40):
        hostile = bytearray(stored)
        for _ in range(chosen.randrange(1, 4)):
            place = chosen.choice(
                [chosen.randrange(64), chosen.randrange(len(stored)), len(stored) - chosen.randrange(64)]
            )
            hostile[place - 1] = chosen.randrange(256)
        decoded = block(tmp_path, Counted(codec, bytes(hostile)), 1 << 30)
        for offset in (len(CONTENT) - 100, 5 << 20, 0):
            try:
                found = read_bytes(decoded.read(offset, 100))
            except (DamagedBlockError, OSError):
                continue
            assert len(found) == 100
        decoded.restart()


def test_a_frame_without_a_size_and_a_single_frame_have_no_pieces() -> None:
    compressor = zstandard.ZstdCompressor(write_content_size=False)
    for stored in (compressor.compress(CONTENT), zstandard.compress(CONTENT)):
        seeker = seeker_of(ZSTD, Bytes(stored), len(CONTENT))
        assert isinstance(seeker, FromStart)
        assert b"".join(seeker.decode_from(seeker.start_before(9 << 20))) == CONTENT


def test_large_frames_and_frames_without_a_size_between_small_ones() -> None:
    """The small ones before them are decoded in parallel, and all from there on one by one."""
    cuts = [0, 1 << 20, 2 << 20, 11 << 20, 12 << 20, 13 << 20, len(CONTENT)]
    unsized = zstandard.ZstdCompressor(write_content_size=False)
    frames = [zstandard.compress(CONTENT[start:stop]) for start, stop in pairwise(cuts)]
    for large in (frames[2], unsized.compress(CONTENT[cuts[2] : cuts[3]])):
        stored = b"".join([*frames[:2], b"\x50\x2a\x4d\x18\x03\0\0\0abc", large, *frames[3:]])
        assert b"".join(ZSTD.decode(Bytes(stored), len(CONTENT))) == CONTENT
        with pytest.raises(ValueError, match=r"\w"):
            list(ZSTD.decode(Bytes(stored[: len(frames[0]) + 9] + b"\xff" * 99), len(CONTENT)))


@pytest.mark.parametrize("room", [0, 1 << 16])
def test_a_single_frame_is_not_read_to_its_end_first(room: int) -> None:
    """The headers of its parts are all over it, so of a file on a server all bytes would come."""
    stored = zstandard.compress(CONTENT) + struct.pack("<II", 0x184D2A50, room) + bytes(room)
    asked: list[int] = []

    class Noted(Bytes):
        def read_at(self, offset: int, length: int) -> bytes:
            asked.append(offset)
            return super().read_at(offset, length)

    pieces = ZSTD.decode(Noted(stored), len(CONTENT))
    first = next(piece for piece in pieces if piece)
    assert CONTENT.startswith(first)
    assert set(asked) == {0}
    assert first + b"".join(pieces) == CONTENT


def test_pieces_are_in_order() -> None:
    for name, (codec, stored, _) in CASES.items():
        seeker = seeker_of(codec, Bytes(stored), len(CONTENT))
        starts = [seeker.start_before(n) for n in range(0, len(CONTENT), 50_000)]
        assert all(a <= b for a, b in pairwise(starts)), name
        assert all(start <= n for start, n in zip(starts, range(0, len(CONTENT), 50_000), strict=True)), name


def stream_of_level(level: int) -> bytes:
    return zlib.compress(CONTENT, level)


def stream_by(strategy: int, bits: int) -> bytes:
    stream = zlib.compressobj(1, zlib.DEFLATED, bits, strategy=strategy)
    return stream.compress(CONTENT) + stream.flush()


def flushed_stream() -> bytes:
    """A stream whose blocks end at a byte here and there."""
    stream = zlib.compressobj(1)
    pieces = [CONTENT[at : at + PIECE] for at in range(0, len(CONTENT), PIECE)]
    return b"".join(stream.compress(piece) + stream.flush(zlib.Z_SYNC_FLUSH) for piece in pieces) + stream.flush()


#: Each kind of deflate block (RFC 1951), and a small window.
STREAMS = {
    "stored": partial(stream_of_level, 0),
    "dynamic": partial(stream_of_level, 1),
    "fixed": partial(stream_by, zlib.Z_FIXED, 15),
    "huffman": partial(stream_by, zlib.Z_HUFFMAN_ONLY, 15),
    "small window": partial(stream_by, zlib.Z_DEFAULT_STRATEGY, 9),
    "flushed": flushed_stream,
}


@pytest.mark.long
@pytest.mark.parametrize("name", STREAMS)
def test_points_of_zlib_are_used_by_another_seeker(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each point gives the rest of the content; bytes that are damaged are ignored."""
    monkeypatch.setattr(zlib_codec, "_APART", 1 << 20)
    stored = STREAMS[name]()
    first = zlib_codec.ZlibPoints(Bytes(stored), len(CONTENT))
    assert first.remembered() == b""
    first.start_before(len(CONTENT))
    assert b"".join(first.decode_from(0)) == CONTENT
    kept = first.remembered()
    second = zlib_codec.ZlibPoints(Bytes(stored), len(CONTENT))
    for bad in (b"", kept[:-1], kept[:50] + b"?" + kept[51:], kept + b"?"):
        second.recall(bad)
        assert second.start_before(len(CONTENT)) == 0
    second.recall(kept)
    assert second.remembered() == b""
    starts = sorted({second.start_before(offset) for offset in range(0, len(CONTENT), PIECE // 2)})
    assert len(starts) >= (15 if name != "stored" else 10)
    for start in starts:
        piece = next(second.decode_from(start))
        assert piece == CONTENT[start : start + len(piece)]
    assert b"".join(second.decode_from(starts[-1])) == CONTENT[starts[-1] :]
    other = zlib_codec.ZlibPoints(Bytes(stored), len(CONTENT) - 1)
    other.recall(kept)
    assert other.start_before(len(CONTENT)) == 0


def test_damage_behind_a_point_of_zlib_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zlib_codec, "_APART", 1 << 20)
    stored = bytearray(zlib.compress(CONTENT, 1))
    seeker = zlib_codec.ZlibPoints(Bytes(bytes(stored)), len(CONTENT))
    seeker.start_before(len(CONTENT))
    list(seeker.decode_from(0))
    kept = seeker.remembered()
    for bad in (bytes(stored[: len(stored) // 2]), bytes(stored[: len(stored) // 2]) + bytes(len(stored) // 2)):
        damaged = zlib_codec.ZlibPoints(Bytes(bad), len(CONTENT))
        damaged.start_before(len(CONTENT))
        with pytest.raises(ValueError, match="."):
            list(damaged.decode_from(0))
    assert kept


def test_without_libz_decoding_begins_at_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zlib_codec, "libz", lambda: None)
    seeker = zlib_codec.ZlibPoints(Bytes(zlib.compress(CONTENT, 1)), len(CONTENT))
    assert seeker.start_before(len(CONTENT)) == 0
    assert b"".join(seeker.decode_from(0)) == CONTENT
    assert seeker.remembered() == b""


@pytest.mark.parametrize("library", ["isal", "libz"])
def test_both_libraries_of_zlib_agree(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Content, streams that end too early, and damage."""
    monkeypatch.setattr(zlib_codec, "is_installed", lambda name: library == "isal")
    stored = zlib.compress(CONTENT, 1)
    assert b"".join(ZLIB.decode(Bytes(stored), len(CONTENT))) == CONTENT
    for bad in (
        stored[:-1],
        stored[: len(stored) // 2],
        b"",
        b"nonsense",
        stored[:-1] + b"?",
        stored[:900] + stored[901:],
    ):
        with pytest.raises(ValueError, match="."):
            list(ZLIB.decode(Bytes(bad), len(CONTENT)))


class Far(NamedTuple):
    """Stored bytes on a server: what was asked for comes without another round trip."""

    content: bytes
    here: list[tuple[int, int]]
    trips: list[int]

    @property
    def size(self) -> int:
        return len(self.content)

    def ask_ahead(self, parts: list[tuple[int, int]]) -> None:
        self.trips.append(len(parts))
        self.here.extend((offset, offset + length) for offset, length in parts)

    def read_at(self, offset: int, length: int) -> bytes:
        if not any(start <= offset and offset + length <= stop for start, stop in self.here):
            self.trips.append(1)
            self.here.append((offset, offset + length))
        return self.content[offset : offset + length]


@pytest.mark.parametrize("kind", ["even", "odd"])
def test_lengths_of_far_pieces_need_few_round_trips(kind: str) -> None:
    """Where the lengths are alike: 20 pieces in 3 trips.  Where they are not, the places are right all the same."""
    sizes = [1 << 20] * 20 if kind == "even" else odd_sizes()
    stored = lz4_parts([*sizes, len(CONTENT) - sum(sizes)] if kind == "even" else sizes)
    far = Far(stored, [], [])
    seeker = seeker_of(LZ4, far, len(CONTENT))
    start = seeker.start_before(len(CONTENT) - 1)
    assert start == seeker_of(LZ4, Bytes(stored), len(CONTENT)).start_before(len(CONTENT) - 1)
    assert b"".join(seeker.decode_from(start)) == CONTENT[start:]
    assert sum(far.trips) >= len(far.trips)
    if kind == "even":
        assert len(far.trips) <= 6


class Noted(SingleThread):
    """Counts how often the main lock was taken."""

    taken = 0

    def resumed(self) -> AbstractContextManager[None]:
        self.taken += 1
        return nullcontext()


def noted(content: bytes, slow: float = 0.0) -> tuple[StoredBytes, Noted, list[tuple[int, int]]]:
    """Return stored bytes, their scheduler, and a list.

    It gets how often the lock was taken before each read, and its number of bytes.  A read takes ``slow`` seconds.
    """
    scheduler, reads = Noted(), list[tuple[int, int]]()

    def read(offset: int, length: int) -> bytes:
        reads.append((scheduler.taken, length))
        began = time.monotonic()
        while time.monotonic() < began + slow:
            pass
        return content[offset : offset + length]

    return StoredBytes(len(content), lambda: read, lambda parts: None, scheduler), scheduler, reads


def test_headers_in_a_frame_of_zstd_take_the_main_lock_rarely() -> None:
    frame = b"\x28\xb5\x2f\xfd\x20\x00" + b"\0\0\0" * 40 + b"\1\0\0"
    stored, _, reads = noted(frame + zstandard.compress(b"after"))
    assert seeker_of(ZSTD, stored, 5).start_before(0) == 0
    headers = [taken for taken, length in reads if length == 3]
    assert len(headers) == 40  # the header of the frame came with that of its first block
    assert len(set(headers)) < 40


@pytest.mark.parametrize(("slow", "most"), [(0.0, 64), (0.002, 1)], ids=["fast", "slow"])
def test_many_headers_in_a_frame_of_zstd_let_others_have_the_main_lock(slow: float, most: int) -> None:
    """A frame of a thousand empty blocks, which a stranger may write; a disk may be slow."""
    count = 1000 if not slow else 20
    frame = b"\x28\xb5\x2f\xfd\x20\x00" + b"\0\0\0" * count + b"\1\0\0"
    stored, _, reads = noted(frame + zstandard.compress(b"after"), slow)
    seeker = seeker_of(ZSTD, stored, 5)
    assert seeker.start_before(0) == 0
    assert b"".join(seeker.decode_from(0)) == b"after"
    assert len(reads) > count
    assert max(Counter(taken for taken, _ in reads).values()) <= most


def test_frames_of_one_block_take_the_main_lock_once_each() -> None:
    content = CONTENT[: 100 << 10]
    frames = b"".join(zstandard.compress(content[at : at + 1024]) for at in range(0, len(content), 1024))
    stored, scheduler, reads = noted(frames)
    seeker = seeker_of(ZSTD, stored, len(content))
    before = scheduler.taken, len(reads)
    assert seeker.start_before(len(content) - 1) == 0  # small pieces count as one
    assert scheduler.taken - before[0] == len(reads) - before[1] >= 99
