"""Pieces of a decoder: gathered while they are small, and never lost before an error."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from support.filesystems import filesystem

from asdffs.codecs.seeking import FromStart
from asdffs.document.blocks.decoding import DecodedBlock
from asdffs.document.blocks.spool import SpoolRoom
from asdffs.document.report import Progress
from asdffs.errors import DamagedBlockError, SpoolFullError
from asdffs.scheduling import RankedLock, SingleThread
from asdffs.storage.backend import read_bytes


class Counting(SingleThread):
    """Counts how often others have their turn."""

    turns = 0

    def waiting(self):
        self.turns += 1
        return super().waiting()


@contextlib.contextmanager
def block(
    folder: Path, size: int, pieces: Iterator[bytes], scheduler: SingleThread | None = None
) -> Iterator[DecodedBlock]:
    room = SpoolRoom(str(folder), 1 << 30)
    decoded = DecodedBlock(
        3,
        size,
        lambda: (0, FromStart(lambda: pieces)),
        room,
        scheduler=scheduler or SingleThread(),
        progress=Progress(),
    )
    yield decoded
    decoded.restart()


def test_small_pieces_are_gathered(tmp_path: Path) -> None:
    content = bytes(range(256)) * 800
    scheduler = Counting()
    pieces = (content[n : n + 10] for n in range(0, len(content), 10))
    with block(tmp_path, len(content), pieces, scheduler) as decoded:
        assert read_bytes(decoded.read(0, len(content))) == content
    assert scheduler.turns < 100, "20,480 pieces"


def test_a_block_larger_than_the_disk_of_the_spool_is_read_by_a_window(tmp_path: Path) -> None:
    """Forward, back, and with no room at all; what is written needs room."""
    content = bytes(range(251)) * (12 << 12)
    with filesystem("tmpfs", tmp_path, 1 << 20) as tiny:
        for ballast in (0, 1 << 20):
            with contextlib.suppress(OSError):
                (tiny / "ballast").write_bytes(bytes(ballast))
            decoded = DecodedBlock(
                3,
                len(content),
                lambda: (0, FromStart(lambda: (content[n : n + 70_000] for n in range(0, len(content), 70_000)))),
                SpoolRoom(str(tiny)),
                scheduler=SingleThread(),
                progress=Progress(),
            )
            for offset in [*range(0, len(content), 128 << 10), 5, len(content) - 1000]:
                assert read_bytes(decoded.read(offset, 128 << 10)) == content[offset : offset + (128 << 10)]
            with pytest.raises((SpoolFullError, OSError)):
                decoded.write(0, b"x")
            assert read_bytes(decoded.read(0, 10)) == content[:10]
            decoded.restart()


@pytest.mark.parametrize("limit", [None, 1 << 30])
def test_regression_a_disk_that_was_full_for_a_while(tmp_path: Path, limit: int | None) -> None:
    """The limit was half of what was free at the first use, so it stayed 0."""
    content = bytes(range(250)) * (48 << 10)
    parts = Parts(content)
    with filesystem("tmpfs", tmp_path, 32 << 20) as disk:
        room, ballast = SpoolRoom(str(disk), limit), disk / "ballast"
        decoded = DecodedBlock(
            3, len(content), lambda: (0, parts), room, scheduler=SingleThread(), progress=Progress()
        )
        with contextlib.suppress(OSError):
            ballast.write_bytes(bytes(32 << 20))
        for _ in range(2):
            with pytest.raises((SpoolFullError, OSError)):
                decoded.write(0, b"x")
            assert read_bytes(decoded.read(500_000, 10)) == content[500_000:500_010]
            assert "memfd" in os.readlink(f"/proc/self/fd/{decoded.read(0, 10).fd}")
        ballast.unlink()
        assert room.limit in (16 << 20, 32 << 20)
        assert "memfd" not in os.readlink(f"/proc/self/fd/{decoded.read(12_000_000, 10).fd}")
        decoded.write(0, b"x")
        assert read_bytes(decoded.read(0, len(content))) == b"x" + content[1:]
        assert room.limit in (16 << 20, 32 << 20), "what the blocks themselves take is room"
        decoded.restart()


@pytest.mark.parametrize("error", [ValueError, MemoryError])
def test_what_comes_before_an_error_is_there(tmp_path: Path, error: type[Exception]) -> None:
    def pieces() -> Iterator[bytes]:
        yield b""
        yield b"0123"
        yield b"4567"
        raise error("the bytes are wrong")

    with block(tmp_path, 20, pieces()) as decoded:
        assert read_bytes(decoded.read(0, 8)) == b"01234567"
        with pytest.raises(DamagedBlockError if error is ValueError else OSError, match="wrong|memory"):
            decoded.read(4, 8)
        assert read_bytes(decoded.read(2, 6)) == b"234567"


def test_empty_pieces_do_not_end_it(tmp_path: Path) -> None:
    with block(tmp_path, 2, iter([b"", b"", b"a", b"", b"b", b""])) as decoded:
        assert read_bytes(decoded.read(0, 5)) == b"ab"


class Parts:
    """A seeker with parts of ``PART`` bytes.  ``starts``: where its decoders began."""

    PART = 1 << 16

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.starts: list[int] = []

    def start_before(self, offset: int) -> int:
        return offset // self.PART * self.PART

    def decode_from(self, start: int) -> Iterator[bytes]:
        self.starts.append(start)
        for place in range(start, len(self.content), self.PART):
            yield self.content[place : place + self.PART]


class Behind:
    """The lock of a block, which another reader takes first."""

    def __init__(self, lock: RankedLock, other: Callable[[], object]) -> None:
        self.lock = lock
        self.others = [other]

    def __enter__(self) -> None:
        while self.others:  # it enters the lock as well
            self.others.pop()()
        self.lock.__enter__()

    def __exit__(self, *_: object) -> None:
        self.lock.__exit__()


def test_regression_a_reader_behind_another_one_stopped_the_decoder(tmp_path: Path) -> None:
    """It waited, and found its bytes decoded.  Then it sought the end of the block."""
    content = bytes(range(256)) * (20 << 8)
    parts = Parts(content)
    decoded = DecodedBlock(
        3,
        len(content),
        lambda: (0, parts),
        SpoolRoom(str(tmp_path), 1 << 30),
        scheduler=SingleThread(),
        progress=Progress(),
    )
    lock, step = decoded.exclusive, 1 << 14
    for offset in range(0, len(content), 2 * step):
        decoded.exclusive = Behind(lock, partial(decoded.read, offset, step))  # type: ignore[assignment]
        behind = offset + step
        assert read_bytes(decoded.read(behind, step)) == content[behind : behind + step]
    assert parts.starts == [0]
    decoded.restart()
