"""Requests and answers byte by byte: a file stands for /dev/fuse, and the area has files of each kind."""

from __future__ import annotations

import errno
import os
import random
import resource
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.paths import NoKernel
from support.requests import Client, request
from support.samples import odd_file

from asdffs.document.opening import Settings, open_document
from asdffs.document.saves.history import Places
from asdffs.errors import InvalidArrayError, InvalidTreeError
from asdffs.mount import protocol
from asdffs.mount.answers import ENTRY, LISTED, OPENED, STATUS
from asdffs.mount.loop import Loop
from asdffs.mount.protocol import Opcode, OpenFlag, Read, SetFlag
from asdffs.storage.backend import Extent
from asdffs.vfs.areas import Areas
from asdffs.vfs.handles import new_handle
from asdffs.vfs.inodes import Place
from asdffs.vfs.namespace import Node
from asdffs.vfs.vfs import Vfs
from asdffs.views.blocks import BlockFile

CONTENT = os.urandom(3 << 20)
HELPER, OTHER = 4711, 65534


class Files(Vfs):
    """Handle 1: bytes; 2: an extent; 3: an error; 4: a fault; 5: an extent of a file that was cut; 6: of no file."""

    def prepare(self, folder: Path) -> None:
        (folder / "whole").write_bytes(CONTENT)
        (folder / "cut").write_bytes(CONTENT[:100_000])
        self.whole = os.open(folder / "whole", os.O_RDONLY)
        self.cut = os.open(folder / "cut", os.O_RDONLY)

    def read(self, handle: int, offset: int, length: int) -> bytes | Extent:
        if handle == 3:
            raise InvalidTreeError("damaged")
        if handle == 4:
            raise KeyError(handle)
        if handle == 1:
            return CONTENT[offset : offset + length]
        return Extent({2: self.whole, 5: self.cut, 6: 1 << 20}[handle], offset, length)


class Kernel(Client):
    """A client of ``Files``."""

    def __init__(self, folder: Path, **options: Any) -> None:
        (folder / "data.asdf").write_bytes(odd_file())
        (folder / "spool").mkdir()
        loop = Loop()
        document = open_document(str(folder / "data.asdf"), writable=True, settings=Settings(scheduler=loop))
        self.files = Files(document, Places(str(folder / "spool"), str(folder / "spool")), kernel=NoKernel())
        self.files.prepare(folder)
        areas = Areas(self.files)
        areas.handles.update((number, Place(self.files, self.files.root)) for number in range(1, 7))
        while new_handle() < 7:  # what is really opened has other numbers
            pass
        super().__init__(areas, loop, folder / "queue", is_helper=lambda pid: pid == HELPER, **options)

    def read(self, handle: int, offset: int, size: int) -> tuple[int, bytes] | None:
        return self.answer(request(Opcode.READ, 5, Read(handle, offset, size)))

    def end(self) -> None:
        super().end()
        self.files.document.close()
        os.close(self.files.whole)
        os.close(self.files.cut)


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    kernel = Kernel(tmp_path)
    yield kernel
    kernel.end()


@pytest.mark.parametrize("handle", [1, 2])
@pytest.mark.parametrize("offset", [0, 1, 4095, 123_457])
@pytest.mark.parametrize("size", [0, 1, 4096, (32 << 10) - 1, 32 << 10, 131_072, 896 << 10, (1 << 20) - 8192])
def test_what_is_read(kernel: Kernel, handle: int, offset: int, size: int) -> None:
    for _ in range(2):
        assert kernel.read(handle, offset, size) == (0, CONTENT[offset : offset + size])


def test_an_answer_that_no_pipe_holds_is_copied(kernel: Kernel) -> None:
    assert kernel.read(2, 3, (1 << 20) - 4096) == (0, CONTENT[3 : (1 << 20) - 4093])
    assert kernel.read(2, 3, 1 << 19) == (0, CONTENT[3 : (1 << 19) + 3])


@pytest.mark.parametrize("size", [30_000, 100_000])
def test_a_file_that_another_program_cut(kernel: Kernel, size: int) -> None:
    """The answer has what is there, and the next one is whole again: nothing is left in the pipe."""
    assert kernel.read(5, 90_000, size) == (0, CONTENT[90_000:100_000])
    assert kernel.read(2, 90_000, size) == (0, CONTENT[90_000 : 90_000 + size])


def test_errors_are_answers(kernel: Kernel, caplog: pytest.LogCaptureFixture) -> None:
    assert kernel.read(3, 0, 10) == (errno.EBADMSG, b"")
    assert "KeyError" not in caplog.text
    assert kernel.read(4, 0, 10) == (errno.EIO, b"")
    assert "KeyError" in caplog.text
    assert kernel.read(99, 0, 10) == (errno.EBADF, b"")


def test_an_extent_that_cannot_be_read(kernel: Kernel) -> None:
    """A descriptor that is none, as a disk that fails: small and large."""
    for size in (4096, 100_000):
        assert kernel.read(6, 0, size) == (errno.EBADF, b"")
    assert kernel.read(2, 0, 100_000) == (0, CONTENT[:100_000])


def test_without_descriptors_it_is_copied(kernel: Kernel) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (kernel.fd, before[1]))
    try:
        assert kernel.read(2, 5, 100_000) == (0, CONTENT[5:100_005])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_helpers_have_the_pages_of_a_file_kept_or_dropped(kernel: Kernel) -> None:
    """The handle that they get is told from all others when they close it."""
    tree = kernel.node("/tree.yaml")
    for flags, kept in ((os.O_RDONLY, 0), (os.O_RDONLY | os.O_NONBLOCK, OpenFlag.KEEP_CACHE)):
        answer = kernel.ask(Opcode.OPEN, tree, protocol.Open(flags, 0), process=HELPER)
        handle, said, _ = OPENED.unpack(answer)
        assert said & OpenFlag.KEEP_CACHE == kept
        assert kernel.ask(Opcode.FLUSH, tree, protocol.Handle(handle)) == b""
        assert kernel.ask(Opcode.RELEASE, tree, protocol.Handle(handle)) == b""


@pytest.mark.parametrize("name", ["security.capability", "system.posix_acl_access", "trusted.user.x", "user"])
def test_attributes_that_no_file_has_are_refused(kernel: Kernel, name: str) -> None:
    """The kernel asks for security.capability before each write."""
    with pytest.raises(OSError, match="not supported"):
        kernel.ask(Opcode.GETXATTR, kernel.node("/blocks/0000.bin"), protocol.GetAttribute(64, name))


def test_sizes_of_attributes(kernel: Kernel) -> None:
    node, name = kernel.node("/blocks/0000.bin"), "user.asdf.index"
    assert kernel.ask(Opcode.GETXATTR, node, protocol.GetAttribute(64, name)) == b"0"
    assert kernel.ask(Opcode.GETXATTR, node, protocol.GetAttribute(0, name)) == struct.pack("=II", 1, 0)
    names = kernel.ask(Opcode.LISTXATTR, node, protocol.ListAttributes(4096))
    assert name.encode() in names.split(b"\0")
    for size in (1, len(names) - 1):
        with pytest.raises(OSError, match="out of range"):
            kernel.ask(Opcode.LISTXATTR, node, protocol.ListAttributes(size))


def test_no_file_is_a_terminal(kernel: Kernel) -> None:
    """open() of Python asks each file."""
    with pytest.raises(OSError, match="ioctl"):
        kernel.ask(Opcode.IOCTL, 5)


@pytest.mark.parametrize("opcode", [0, 7, 19, 31, 34, 46, 47, 50, 51, 52, 4096, (1 << 32) - 1])
def test_unknown_requests_are_refused(kernel: Kernel, opcode: int) -> None:
    raw = bytearray(request(Opcode.DESTROY))
    struct.pack_into("=I", raw, 4, opcode)
    assert kernel.answer(bytes(raw)) == (errno.ENOSYS, b"")


NO_ANSWER = {Opcode.FORGET, Opcode.BATCH_FORGET, Opcode.INTERRUPT}


def test_short_and_random_requests_have_one_answer_each(kernel: Kernel, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever comes from /dev/fuse: an answer, and no traceback in the log."""
    rng = random.Random(7)
    for _ in range(20_000):
        opcode = rng.choice(list(Opcode))
        body = rng.choice([rng.randbytes(rng.randrange(120)), bytes(rng.randrange(120)), b"a\0b\0"])
        if opcode in (Opcode.INIT, Opcode.READ) or rng.random() < 0.1:
            body = body[:20]
        node = rng.choice([0, 1, 2, 3, rng.getrandbits(64)])
        raw = bytearray(request(opcode, node) + body)
        found = kernel.answer(bytes(raw))
        assert (found is None) <= (opcode in NO_ANSWER)
    assert "Traceback" not in caplog.text


def test_a_request_that_is_too_short_is_an_error(kernel: Kernel, caplog: pytest.LogCaptureFixture) -> None:
    for opcode in (Opcode.LOOKUP, Opcode.READ, Opcode.RENAME2, Opcode.GETATTR):
        assert kernel.answer(request(opcode) + b"x") == (errno.EIO, b"")
    assert "a request cannot be answered" in caplog.text


@pytest.mark.parametrize(("user", "code"), [(OTHER, errno.EACCES), (0, 0), (os.getuid(), 0)])
def test_who_may_use_a_mount_with_allow_root(tmp_path: Path, user: int, code: int) -> None:
    kernel = Kernel(tmp_path, users=(0, os.getuid()))
    try:
        found = kernel.answer(request(Opcode.GETATTR, 1, protocol.GetAttributes(0, 0), user=user))
        assert found is not None
        assert found[0] == code
        read = kernel.answer(request(Opcode.READ, 5, Read(1, 0, 10), user=user))
        assert read == (0, CONTENT[:10]), "who got an open file may use it"
    finally:
        kernel.end()


def test_regression_one_file_that_cannot_be_shown_hid_its_directory(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listing has its name alone; a program that asks for its attributes gets the error."""

    def damaged(self: BlockFile) -> int:
        raise InvalidArrayError("damaged")

    monkeypatch.setattr(BlockFile, "size", damaged)
    blocks = kernel.node("/blocks")
    handle, *_ = OPENED.unpack(kernel.ask(Opcode.OPENDIR, blocks, opening()))
    assert b"0000.bin" in kernel.ask(Opcode.READDIRPLUS, blocks, Read(handle, 0, 4096))
    with pytest.raises(OSError, match="Input/output error"):
        kernel.node("/blocks/0000.bin")


def test_a_listing_without_attributes_has_the_same_names_and_numbers(kernel: Kernel) -> None:
    """And makes no node that the kernel would have to forget."""
    known = kernel.answerer._areas.inodes.known
    for path in ("/blocks", "/arrays", "/"):
        node = kernel.node(path)
        handle, *_ = OPENED.unpack(kernel.ask(Opcode.OPENDIR, node, opening()))
        lookups = {number: inode.lookups for number, inode in known.items()}
        nodes = dict(known[node].item.seen)
        plain = kernel.ask(Opcode.READDIR, node, Read(handle, 0, 1 << 16))
        assert {number: inode.lookups for number, inode in known.items()} == lookups
        assert known[node].item.seen == nodes
        full = kernel.ask(Opcode.READDIRPLUS, node, Read(handle, 0, 1 << 16))
        assert listed(plain, 0) == listed(full, ENTRY.size + STATUS.size)
        assert len(listed(plain, 0)) > 2


def test_a_listing_keeps_nodes_that_another_request_may_be_about_to_tell(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = kernel.node("/arrays")
    handle, *_ = OPENED.unpack(kernel.ask(Opcode.OPENDIR, node, opening()))
    monkeypatch.setattr(Loop, "alone", False)
    kernel.ask(Opcode.READDIR, node, Read(handle, 0, 1 << 16))
    assert kernel.answerer._areas.inodes.known[node].item.seen


def listed(raw: bytes, lead: int) -> list[tuple[bytes, int, int, int]]:
    """The name, number, kind and position of each entry of a listing; ``lead``: bytes before each."""
    found, place = [], 0
    while place < len(raw):
        number, position, length, kind = LISTED.unpack_from(raw, place + lead)
        start = place + lead + LISTED.size
        found.append((raw[start : start + length], number, kind, position))
        place = start + length + -length % 8
    return found


def test_regression_a_listing_had_a_file_that_was_removed_since_it_began(kernel: Kernel) -> None:
    """With a number that no file has."""
    kernel.ask(Opcode.CREATE, 1, protocol.Create(os.O_RDWR, 0o644, 0, "scratch-file"))
    handle, *_ = OPENED.unpack(kernel.ask(Opcode.OPENDIR, 1, opening()))
    assert b"scratch-file" in kernel.ask(Opcode.READDIRPLUS, 1, Read(handle, 0, 4096))
    kernel.ask(Opcode.UNLINK, 1, protocol.Name("scratch-file"))
    assert b"scratch-file" not in kernel.ask(Opcode.READDIRPLUS, 1, Read(handle, 1, 4096))


@pytest.mark.parametrize("create", [False, True])
def test_regression_an_open_that_fails_at_its_end_left_a_handle(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, *, create: bool
) -> None:
    """The program does not get the handle, so it would never be closed."""
    handles, tree = kernel.files._handles, kernel.node("/tree.yaml")
    before = dict(kernel.answerer._areas.handles)

    def damaged(self: Vfs, node: object, handle: int | None = None) -> None:
        raise InvalidArrayError("damaged")

    monkeypatch.setattr(Vfs, "attributes", damaged)
    made = protocol.Create(os.O_RDWR, 0o644, 0, "x")
    with pytest.raises(OSError, match="Input/output error"):
        kernel.ask(*((Opcode.CREATE, 1, made) if create else (Opcode.OPEN, tree, opening())))
    assert not handles.any
    assert kernel.answerer._areas.handles == before


def opening() -> protocol.Open:
    return protocol.Open(os.O_RDONLY, 0)


@pytest.mark.parametrize("direct", [False, True])
def test_which_pages_a_request_may_have_locked(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, *, direct: bool
) -> None:
    """Those of a file that it cuts or writes to, unless the kernel keeps no pages for the descriptor."""
    locked: list[str] = []

    def tell(node: Node | None = None, *, wait: bool) -> None:
        locked.extend([node.path if node is not None else ""] if wait else [])

    monkeypatch.setattr(kernel.files, "tell_changes", tell)
    monkeypatch.setattr(kernel.files, "is_direct", lambda handle: direct)
    block = kernel.node("/blocks/0000.bin")
    handle, _, _ = OPENED.unpack(kernel.ask(Opcode.OPEN, block, protocol.Open(os.O_RDWR, 0)))
    kernel.ask(Opcode.WRITE, block, protocol.Write(handle, 0, 1, 0, memoryview(b"x")))
    kernel.ask(Opcode.FSYNC, block, protocol.Handle(handle))
    kernel.ask(Opcode.SETATTR, block, protocol.SetAttributes(SetFlag.MODE, 0, 0, 0, 0, 0, 0, 0o600, 0, 0))
    assert locked == ["" if direct else "/blocks/0000.bin", "", "/blocks/0000.bin"]
    kernel.ask(Opcode.RELEASE, block, protocol.Handle(handle))
