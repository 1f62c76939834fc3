"""Copies by two threads: each byte arrives once, errors of both come through, and nothing is written afterwards."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import resource
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from support.mounts import LIMIT
from support.processes import until

from asdffs.storage.copying import copy_bytes

MIB = 1 << 20
CONTENT = random.Random(5).randbytes(20 * MIB + 12_345)

pytestmark = pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one processor: the kernel copies")


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


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    opened = Files(tmp_path)
    if os.major(os.fstat(opened.source).st_dev) == 0:
        opened.close()
        pytest.skip("not on a block device: the kernel copies")
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


def test_both_threads_copy(files: Files) -> None:
    real, seen = os.pwrite, set[int]()
    both = threading.Barrier(2, timeout=LIMIT)

    def met(*arguments: Any) -> int:
        if threading.get_ident() not in seen:
            seen.add(threading.get_ident())
            both.wait()
        return real(*arguments)

    with mock.patch.object(os, "pwrite", met):
        copy_bytes(files.source, 0, files.target, 0, 16 * MIB)
    assert len(seen) == 2
    assert files.path.read_bytes() == CONTENT[: 16 * MIB]


def test_the_end_of_the_other_thread_is_awaited(files: Files) -> None:
    """One thread is stopped before its piece until the other has copied all others."""
    real, first = os.pwrite, threading.Event()
    written = list[int]()

    def held(fd: int, piece: memoryview, offset: int) -> int:
        if threading.current_thread().name == "copying" and not first.is_set():
            first.set()
            until(lambda: len(written) == 15)
        written.append(offset)
        return real(fd, piece, offset)

    with mock.patch.object(os, "pwrite", held):
        copy_bytes(files.source, 0, files.target, 0, 16 * MIB)
    assert sorted(written) == [n * MIB for n in range(16)]
    assert files.path.read_bytes() == CONTENT[: 16 * MIB]


def test_short_writes(files: Files) -> None:
    real = os.pwrite
    with mock.patch.object(os, "pwrite", lambda fd, piece, offset: real(fd, piece[: 1 + len(piece) // 2], offset)):
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
    assert [thread.name for thread in threading.enumerate()].count("copying") == 0


def test_an_error_of_the_other_thread_is_not_lost(files: Files) -> None:
    """Whatever it is: else its piece would be left out."""
    real = os.pwrite

    def short_of_memory(fd: int, piece: memoryview, offset: int) -> int:
        if threading.current_thread().name == "copying":
            raise MemoryError
        until(helper_ended)
        return real(fd, piece, offset)

    def helper_ended() -> bool:
        return all(thread.name != "copying" for thread in threading.enumerate())

    with mock.patch.object(os, "pwrite", short_of_memory), pytest.raises(MemoryError):
        copy_bytes(files.source, 0, files.target, 0, 16 * MIB)


def test_an_interrupt_ends_both(files: Files) -> None:
    """Ctrl-C in the calling thread: when it has the error, the other one writes nothing any more."""
    real = os.pwrite

    def interrupted(fd: int, piece: memoryview, offset: int) -> int:
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return real(fd, piece, offset)

    with mock.patch.object(os, "pwrite", interrupted), contextlib.suppress(KeyboardInterrupt):
        copy_bytes(files.source, 0, files.target, 0, 18 * MIB)
        pytest.fail("the interrupt was lost")
    assert [thread.name for thread in threading.enumerate()].count("copying") == 0


def test_without_more_threads(files: Files) -> None:
    with mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("can't start new thread")):
        copy_bytes(files.source, 0, files.target, 4, 9 * MIB)
    assert files.path.read_bytes() == b"head" + CONTENT[: 9 * MIB]
