"""Answers without libfuse, byte by byte: a file in the place of the kernel's queue."""

from __future__ import annotations

import errno
import os
import resource
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from asdffs.mount.direct import Direct
from asdffs.mount.request import (
    FUSE_FLUSH,
    FUSE_GETATTR,
    FUSE_GETXATTR,
    FUSE_IOCTL,
    FUSE_OPEN,
    FUSE_READ,
    FUSE_RELEASE,
    FUSE_RENAME,
    FUSE_RENAME2,
    FUSE_WRITE,
    inode_of,
    is_mapped_write,
    opcode_of,
    process_of,
    rename_target_of,
)
from asdffs.storage.backend import Extent

HEADER = struct.Struct("=IIQQIIIHH")  # linux/fuse.h, struct fuse_in_header
CONTENT = os.urandom(3 << 20)
HELPER = 4711


def request(opcode: int, arguments: bytes = b"", *, unique: int = 77, inode: int = 5, process: int = 9) -> memoryview:
    header = HEADER.pack(HEADER.size + len(arguments), opcode, unique, inode, 1000, 100, process, 0, 0)
    return memoryview((header + arguments).ljust(16 << 10, b"?"))


def read(handle: int, offset: int, size: int) -> memoryview:
    return request(FUSE_READ, struct.pack("=QQIIQII", handle, offset, size, 0, 0, 0, 0))


class Files:
    """Handle 1: bytes; 2: an extent; 3: an error; 4: a fault; 5: an extent of a file that was cut; 6: of no file."""

    def __init__(self, folder: Path) -> None:
        (folder / "whole").write_bytes(CONTENT)
        (folder / "cut").write_bytes(CONTENT[:100_000])
        self.whole = os.open(folder / "whole", os.O_RDONLY)
        self.cut = os.open(folder / "cut", os.O_RDONLY)
        self.none = 1 << 20

    def read(self, path: str | None, size: int, offset: int, fh: int) -> bytes | Extent:
        if fh == 3:
            raise OSError(errno.EBADMSG, "damaged")
        if fh == 4:
            raise KeyError(fh)
        if fh == 1:
            return CONTENT[offset : offset + size]
        return Extent({2: self.whole, 5: self.cut, 6: self.none}[fh], offset, size)

    def is_clean(self, fh: int) -> bool:
        return fh == 1

    def is_helper(self, pid: int) -> bool:
        return pid == HELPER


class Kernel:
    """Takes answers one after the other."""

    def __init__(self, files: Files, queue: Path) -> None:
        self.device = os.open(queue, os.O_RDWR | os.O_CREAT)
        self.direct = Direct(self.device, files)
        self.taken = 0

    def answer(self, asked: memoryview) -> tuple[int, int, bytes] | None:
        """Errno, unique and content; None when it is libfuse's business."""
        if not self.direct.answer(asked):
            return None
        found = os.pread(self.device, 2 << 20, self.taken)
        self.taken += len(found)
        length, code, unique = struct.unpack_from("=IiQ", found)
        assert length == len(found)
        return -code, unique, found[16:]


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    files = Files(tmp_path)
    kernel = Kernel(files, tmp_path / "queue")
    yield kernel
    kernel.direct.close()
    for fd in (kernel.device, files.whole, files.cut):
        os.close(fd)


@pytest.mark.parametrize("handle", [1, 2])
@pytest.mark.parametrize("offset", [0, 1, 4095, 123_457])
@pytest.mark.parametrize("size", [0, 1, 4096, (32 << 10) - 1, 32 << 10, 131_072, 896 << 10, (1 << 20) - 8192])
def test_what_is_read(kernel: Kernel, handle: int, offset: int, size: int) -> None:
    for _ in range(2):
        assert kernel.answer(read(handle, offset, size)) == (0, 77, CONTENT[offset : offset + size])


def test_an_answer_that_no_pipe_holds_is_copied(kernel: Kernel) -> None:
    assert kernel.answer(read(2, 3, (1 << 20) - 4096)) == (0, 77, CONTENT[3 : (1 << 20) - 4093])
    assert kernel.answer(read(2, 3, 1 << 19)) == (0, 77, CONTENT[3 : (1 << 19) + 3])


@pytest.mark.parametrize("size", [30_000, 100_000])
def test_a_file_that_another_program_cut(kernel: Kernel, size: int) -> None:
    """The answer has what is there, and the next one is whole again: nothing is left in the pipe."""
    assert kernel.answer(read(5, 90_000, size)) == (0, 77, CONTENT[90_000:100_000])
    assert kernel.answer(read(2, 90_000, size)) == (0, 77, CONTENT[90_000 : 90_000 + size])


def test_errors_are_answers(kernel: Kernel, caplog: pytest.LogCaptureFixture) -> None:
    assert kernel.answer(read(3, 0, 10)) == (errno.EBADMSG, 77, b"")
    assert not caplog.text
    assert kernel.answer(read(4, 0, 10)) == (errno.EIO, 77, b"")
    assert "KeyError" in caplog.text


def test_an_extent_that_cannot_be_read(kernel: Kernel) -> None:
    """A descriptor that is none, as a disk that fails: small and large."""
    for size in (4096, 100_000):
        assert kernel.answer(read(6, 0, size)) == (errno.EBADF, 77, b"")
    assert kernel.answer(read(2, 0, 100_000)) == (0, 77, CONTENT[:100_000])


def test_without_descriptors_it_is_copied(kernel: Kernel) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (kernel.device, before[1]))
    try:
        kernel.direct.answer(read(2, 5, 100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert os.pread(kernel.device, 1 << 20, 16) == CONTENT[5:100_005]


def test_only_clean_files_are_flushed_here(kernel: Kernel) -> None:
    assert kernel.answer(request(FUSE_FLUSH, struct.pack("=QIIQ", 1, 0, 0, 0))) == (0, 77, b"")
    assert kernel.answer(request(FUSE_FLUSH, struct.pack("=QIIQ", 2, 0, 0, 0))) is None
    assert kernel.answer(request(FUSE_OPEN, struct.pack("=II", 0, 0))) is None


def test_helpers_have_the_pages_of_a_file_kept_or_dropped(kernel: Kernel) -> None:
    """The handle that they get is told from all others when they close it."""
    for flags, kept in ((os.O_RDONLY, 0), (os.O_RDONLY | os.O_NONBLOCK, 2)):
        answer = kernel.answer(request(FUSE_OPEN, struct.pack("=II", flags, 0), process=HELPER))
        assert answer is not None
        handle, said, _ = struct.unpack("=QII", answer[2])
        assert said & 2 == kept
        for opcode in (FUSE_FLUSH, FUSE_RELEASE):
            assert kernel.answer(request(opcode, struct.pack("=QIIQ", handle, 0, 0, 0))) == (0, 77, b"")
    assert kernel.answer(request(FUSE_RELEASE, struct.pack("=QIIQ", 1, 0, 0, 0))) is None


@pytest.mark.parametrize("name", [b"security.capability", b"system.posix_acl_access", b"trusted.user.x", b"user"])
def test_attributes_that_no_file_has_are_refused_here(kernel: Kernel, name: bytes) -> None:
    """The kernel asks for security.capability before each write."""
    assert kernel.answer(request(FUSE_GETXATTR, struct.pack("=II", 64, 0) + name + b"\0")) == (errno.ENOTSUP, 77, b"")


def test_attributes_of_users_are_for_libfuse(kernel: Kernel) -> None:
    asked = struct.pack("=II", 64, 0) + b"user.asdf.compression\0"
    assert kernel.answer(request(FUSE_GETXATTR, asked)) is None


def test_no_file_is_a_terminal(kernel: Kernel) -> None:
    """open() of Python asks each file."""
    tcgets = 0x5401
    asked = struct.pack("=QIIQII", 1, 0, tcgets, 0, 0, 60)
    assert kernel.answer(request(FUSE_IOCTL, asked)) == (errno.ENOTTY, 77, b"")


def test_what_requests_say() -> None:
    asked = request(FUSE_GETATTR, inode=1234, process=4321)
    assert (opcode_of(asked), inode_of(asked), process_of(asked)) == (FUSE_GETATTR, 1234, 4321)
    assert inode_of(request(1, b"name\0", inode=1234)) == 0, "a lookup is about the directory"
    for flags in (0, 1, 2, 3):
        write = request(FUSE_WRITE, struct.pack("=QQIIQII", 1, 2, 3, flags, 0, 0, 0))
        assert is_mapped_write(write) == bool(flags & 1)
    for opcode, begin in ((FUSE_RENAME, struct.pack("=Q", 3)), (FUSE_RENAME2, struct.pack("=QII", 3, 1, 0))):
        assert rename_target_of(request(opcode, begin + b"old name\0new\xff\0")) == b"new\xff"
        long = b"x" * 4095
        assert rename_target_of(request(opcode, begin + long + b"\0" + long + b"\0")) == long
