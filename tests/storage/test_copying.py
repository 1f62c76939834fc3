"""Copies in the kernel, and where it cannot: each byte arrives once, and errors come through."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from asdffs.storage.copying import Stretch, copy_bytes, misplaced
from asdffs.storage.file_backend import FileBackend

MIB = 1 << 20
CONTENT = random.Random(5).randbytes(20 * MIB + 12_345)


class Files:
    def __init__(self, folder: Path) -> None:
        (folder / "source").write_bytes(CONTENT)
        self.path = folder / "target"
        self.path.write_bytes(b"head")
        self.source = os.open(folder / "source", os.O_RDONLY)
        self.target = os.open(self.path, os.O_RDWR)

    def close(self) -> None:
        os.close(self.source)
        os.close(self.target)


@pytest.fixture(params=["by the kernel", "by reads and writes"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Files]:
    opened = Files(tmp_path)
    unsupported = OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    with contextlib.ExitStack() as stack:
        if request.param != "by the kernel":
            stack.enter_context(mock.patch.object(os, "copy_file_range", side_effect=unsupported))
        yield opened
    opened.close()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(30))
def test_each_byte_arrives(seed: int, files: Files) -> None:
    rng = random.Random(seed)
    length = rng.choice([8 * MIB, 8 * MIB + 1, 16 * MIB - 1, rng.randrange(8 * MIB, len(CONTENT))])
    start, to = rng.randrange(len(CONTENT) - length), rng.choice([4, 4096, rng.randrange(4, MIB)])
    copy_bytes(files.source, start, files.target, to, length)
    assert files.path.read_bytes() == b"head" + bytes(to - 4) + CONTENT[start : start + length]


def test_short_copies(files: Files) -> None:
    copy, write = os.copy_file_range, os.pwrite
    with (
        mock.patch.object(os, "copy_file_range", lambda old, new, n, *at: copy(old, new, 1 + n // 2, *at)),
        mock.patch.object(os, "pwrite", lambda fd, piece, offset: write(fd, piece[: 1 + len(piece) // 2], offset)),
    ):
        copy_bytes(files.source, 3, files.target, 4, 9 * MIB)
    assert files.path.read_bytes() == b"head" + CONTENT[3 : 3 + 9 * MIB]


def test_a_source_that_became_shorter(files: Files) -> None:
    with pytest.raises(OSError, match="shorter") as caught:
        copy_bytes(files.source, 10 * MIB, files.target, 0, len(CONTENT) - 10 * MIB + 1)
    assert caught.value.errno == errno.EIO


def test_a_full_disk(files: Files) -> None:
    """A limit of the file size stands for it: the write ends early with an error."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (12 * MIB + 5, before[1]))
    try:
        with pytest.raises(OSError, match="large") as caught:
            copy_bytes(files.source, 0, files.target, 0, 18 * MIB)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert caught.value.errno == errno.EFBIG


@pytest.mark.parametrize(
    ("unit", "length", "moved"),
    [(4096, 64 << 10, 1004), (4096, MIB >> 5, 0), (1 << 16, MIB, 1004), (MIB, MIB, 1004), (16 * MIB, MIB, 1004)],
)
def test_regression_room_before_a_block_is_not_that_of_a_network_file_system(
    files: Files, unit: int, length: int, moved: int
) -> None:
    """It says how much it transfers at a time, not where bytes can be shared."""
    target = FileBackend(os.dup(files.target), "target")
    with mock.patch.object(target, "unit", return_value=unit), contextlib.closing(target):
        assert misplaced(Stretch(target, 5100, length), target, 4096) == moved
