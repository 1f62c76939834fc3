"""The files that a process keeps open: at most a quarter of its descriptors, none when others are needed."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from asdffs.document.blocks.spool import SpoolRoom
from asdffs.storage.backend import read_bytes
from asdffs.storage.descriptors import KeptFiles, kept_files
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.own_files import ScratchFile


@contextlib.contextmanager
def limited_to(count: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextlib.contextmanager
def none_left() -> Iterator[None]:
    """Use all descriptors of this process inside the block."""
    taken: list[int] = []
    try:
        with limited_to(512):
            with contextlib.suppress(OSError):
                while True:
                    taken.append(os.open(os.devnull, os.O_RDONLY))
            yield
    finally:
        for fd in taken:
            os.close(fd)


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[list[ScratchFile]]:
    """Return 20 files that were just written."""
    kept_files.close_below("/")
    files = [ScratchFile(str(tmp_path / str(number))) for number in range(20)]
    for file in files:
        kept_files.create(file.path)
        file.write(0, file.path.encode())
    yield files
    kept_files.close_below(str(tmp_path))


def test_at_most_a_quarter_of_the_descriptors_are_kept_as_the_limit_is_now(tmp_path: Path) -> None:
    files = KeptFiles()
    for limit, kept in ((1024, 256), (512, 128), (4096, 256)):
        with limited_to(limit):
            for number in range(300):
                files.create(str(tmp_path / f"{limit}-{number}"))
            assert len(files) == kept
    files.close_below(str(tmp_path))
    assert len(files) == 0


def test_regression_kept_files_are_closed_when_there_is_no_descriptor_left(
    tmp_path: Path, scratch: list[ScratchFile]
) -> None:
    folder = FileFolder(str(tmp_path))
    with none_left():
        folder.open("0", writable=True).close()
        assert len(kept_files) < len(scratch)
        assert "0" in folder.names()
        for file in scratch:
            assert read_bytes(file.read(0, 1000)) == file.path.encode()


def test_without_anything_to_close_the_error_stays(tmp_path: Path) -> None:
    kept_files.close_below("/")
    (tmp_path / "file").touch()
    folder = FileFolder(str(tmp_path))
    with none_left(), pytest.raises(OSError, match="Too many") as refused:
        folder.open("file", writable=False)
    assert refused.value.errno == errno.EMFILE


def test_a_file_of_the_same_path_is_another_one(tmp_path: Path) -> None:
    file = ScratchFile(str(tmp_path / "file"))
    kept_files.create(file.path)
    file.write(0, b"old")
    os.unlink(file.path)
    kept_files.create(file.path)
    assert read_bytes(file.read(0, 3)) == b""
    kept_files.close(file.path)


class Decoded:
    """A decoded block of one byte."""

    ended, dirty, busy, held, kept, memory = True, False, False, 0, 1, 0

    def __init__(self, number: int, room: SpoolRoom) -> None:
        self.number = number
        self.room = room
        self.file = room.create()
        room.touch(self)

    def free(self, wanted: int) -> int:
        return 0

    def stop_decoding(self) -> None:
        raise NotImplementedError

    def restart(self) -> None:
        self.file.close()
        self.room.forget(self)


def test_decoded_blocks_leave_half_of_the_descriptors(tmp_path: Path) -> None:
    room = SpoolRoom(str(tmp_path))
    with limited_to(512):
        blocks = [Decoded(number, room) for number in range(600)]
        assert all(block.file.fileno() <= 256 for block in blocks if not block.file.closed)
        assert not blocks[-1].file.closed
    for block in blocks:
        block.file.close()
