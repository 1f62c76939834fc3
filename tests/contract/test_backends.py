"""One suite for every store and folder; those that only read pass the part about reading."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.filesystems import KINDS, filesystem
from support.memory import MemoryFolder
from support.web_server import WebServer

from asdffs.features.remote.backends.remote import RemoteFolder
from asdffs.scheduling import SerialCalls
from asdffs.storage.backend import (
    Folder,
    MovableBackend,
    ReadBackend,
    RemoteFile,
    WindowBackend,
    read_bytes,
    read_into,
)
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.record import RecordImage
from asdffs.storage.unfinished import OverlayBackend, Segment
from asdffs.storage.urls import RemoteOptions

Make = Callable[[dict[str, bytes]], Folder]


@pytest.fixture(params=["file", "memory", *(pytest.param(kind, marks=pytest.mark.long) for kind in KINDS)])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    def make_files(files: dict[str, bytes]) -> Folder:
        for name, content in files.items():
            (where / name).write_bytes(content)
        return FileFolder(str(where))

    if request.param == "memory":
        yield MemoryFolder
    elif request.param == "file":
        (where := tmp_path / "files").mkdir()
        yield make_files
    else:
        with filesystem(request.param, tmp_path) as where:
            yield make_files


def content(folder: Folder, name: str) -> bytes:
    backend = folder.open(name, writable=False)
    try:
        return backend.read_at(0, backend.size())
    finally:
        backend.close()


def test_read_write_truncate(make: Make) -> None:
    folder = make({"a": b"0123456789"})
    backend = folder.open("a", writable=True)
    assert backend.name == "a"
    assert backend.read_at(8, 100) == b"89"
    assert backend.read_at(50, 1) == b""
    backend.write_at(2, b"xy")
    backend.write_at(12, memoryview(b"end"))
    assert backend.read_at(0, 99) == b"01xy456789\0\0end"
    backend.truncate(3)
    backend.truncate(5)
    backend.sync()
    assert content(folder, "a") == b"01x\0\0"
    assert backend.size() == 5
    backend.close()
    backend.close()


#: So long that a remote file is read with more than one request.
CONTENT = bytes(range(251)) * 800
SIZE = len(CONTENT)


def on_disk(tmp_path: Path, content: bytes, *, writable: bool) -> MovableBackend:
    (tmp_path / "a").write_bytes(content)
    return FileFolder(str(tmp_path)).open("a", writable=writable)


def window(tmp_path: Path) -> ReadBackend:
    return WindowBackend(on_disk(tmp_path, b"head" + CONTENT + b"tail", writable=False), 4, SIZE)


def overlay(tmp_path: Path) -> ReadBackend:
    """Made of an image, bytes from another place, and an image over a part of another one."""
    base = on_disk(tmp_path, b"?" * 9 + CONTENT[5:-251], writable=False)
    origin = [Segment(0, 5), Segment(5, SIZE - 251, origin=9), Segment(SIZE - 251, SIZE, origin=SIZE)]
    images = [
        RecordImage(0, b"", CONTENT[:5]),
        RecordImage(SIZE - 251, b"", bytes(251)),
        RecordImage(SIZE - 250, b"", CONTENT[-250:]),
    ]
    return OverlayBackend(base, SIZE, origin, images)


@pytest.fixture(params=["file", "memory", "overlay", "window", "remote"])
def reader(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ReadBackend]:
    """A backend named ``a`` that shows ``CONTENT`` and was opened to read."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with WebServer().running() if request.param == "remote" else contextlib.nullcontext() as server:
        if server is not None:
            url = server.put("/folder/a", CONTENT)
            backend: ReadBackend = RemoteFolder(url, RemoteOptions(), SerialCalls()).open("a", writable=False)
        elif request.param == "memory":
            backend = MemoryFolder({"a": CONTENT}).open("a", writable=False)
        elif request.param == "file":
            backend = on_disk(tmp_path, CONTENT, writable=False)
        else:
            backend = overlay(tmp_path) if request.param == "overlay" else window(tmp_path)
        yield backend
        backend.close()
        backend.close()


PARTS = [
    (0, 10),
    (3, 4),
    (SIZE - 260, 20),
    (SIZE - 2, 2),
    (SIZE - 2, 100),
    (SIZE, 1),
    (SIZE + 50, 1),
    (7, 0),
    (0, SIZE),
]


@pytest.mark.parametrize(("offset", "length"), PARTS)
def test_read_and_extent_are_the_bytes(reader: ReadBackend, offset: int, length: int) -> None:
    wanted = CONTENT[offset : offset + length]
    assert reader.read_at(offset, length) == wanted
    assert read_bytes(reader.extent(offset, length)) == wanted
    buffer = bytearray(length)
    assert read_into(reader.extent(offset, length), memoryview(buffer)) == len(wanted)
    assert buffer == wanted.ljust(length, b"\0")


def test_who_reads_changes_nothing(reader: ReadBackend) -> None:
    """What only reads has no methods to write; a file that was opened to read refuses them."""
    assert (reader.name, reader.size()) == ("a", SIZE)
    before, unit = reader.signature(), reader.unit()
    changes: dict[str, tuple[object, ...]] = {
        "write_at": (0, b"x"),
        "truncate": (0,),
        "allocate": (0, SIZE + 1),
        "insert_range": (unit, unit),
        "collapse_range": (unit, unit),
    }
    for name, arguments in changes.items():
        with pytest.raises((AttributeError, OSError), match="."):
            getattr(reader, name)(*arguments)
    assert reader.signature() == before
    assert reader.read_at(0, SIZE) == CONTENT


def test_a_remote_folder_has_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with WebServer().running() as server:
        folder = RemoteFolder(server.put("/folder/a", CONTENT), RemoteOptions(), SerialCalls())
        backend = folder.open("a", writable=False)
        assert isinstance(backend, RemoteFile)
        assert folder.signature("a") == backend.signature()
        with pytest.raises(FileNotFoundError):
            folder.signature("b")
        with pytest.raises(OSError, match="Read-only"):
            folder.open("a", writable=True)
        backend.close()


def test_signature_tells_changes(make: Make) -> None:
    folder = make({"a": b"abc", "b": b"abc"})
    backend = folder.open("a", writable=True)
    before = backend.signature()
    assert folder.signature("a") == before
    assert folder.signature("b").inode != before.inode
    backend.write_at(0, b"xyzt")
    assert backend.signature() != before
    assert folder.signature("a") == backend.signature()
    backend.close()


def test_lock_is_exclusive_until_close(make: Make) -> None:
    folder = make({"a": b""})
    first, second = folder.open("a", writable=True), folder.open("a", writable=True)
    assert folder.lock(first)
    assert not folder.lock(second)
    first.close()
    assert folder.lock(second)
    second.close()


def test_create_replace_remove(make: Make) -> None:
    folder = make({"a": b"old"})
    new = folder.open("new", writable=True, create=True)
    with pytest.raises(FileExistsError):
        folder.open("new", writable=True, create=True)
    new.write_at(0, b"whole")
    assert folder.lock(new)
    renamed = folder.replace(new, "a")
    folder.sync()
    assert renamed.name == "a"
    assert "new" not in folder.names()
    assert content(folder, "a") == b"whole"
    other = folder.open("a", writable=True)
    assert not folder.lock(other), "the lock goes with the file"
    other.close()
    renamed.close()
    folder.remove("a")
    assert "a" not in folder.names()
    with pytest.raises(FileNotFoundError):
        folder.open("a", writable=False)
    with pytest.raises(FileNotFoundError):
        folder.signature("a")


def test_copy_range(make: Make) -> None:
    folder = make({"a": bytes(range(200)), "b": b"head"})
    source, target = folder.open("a", writable=False), folder.open("b", writable=True)
    folder.copy_range(source, 10, target, 20, 100)
    folder.copy_attributes(source, target)
    assert content(folder, "b") == b"head" + bytes(16) + bytes(range(10, 110))
    source.close()
    target.close()


def test_a_file_can_be_replaced(make: Make) -> None:
    assert make({"a": b""}).why_kept("a") == ""


def supports(folder: Folder, feature: str) -> bool:
    """Whether a feature is there; where it must be is told by ``KINDS``."""
    if isinstance(folder, MemoryFolder):
        return True
    kind = Path(folder.path("")).name.removeprefix("on-")
    if kind in KINDS:
        return feature in KINDS[kind][1]
    probe = folder.open("probe", writable=True, create=True)
    try:
        return feature == "insert" and probe.can_insert()
    finally:
        probe.close()
        folder.remove("probe")


def test_allocate_extends_with_zeros(make: Make) -> None:
    folder = make({"a": b"abc"})
    backend = folder.open("a", writable=True)
    backend.allocate(1, 9000)
    assert backend.size() == 9001
    assert backend.read_at(0, 9001) == b"abc" + bytes(8998)
    backend.allocate(0, 10)
    assert backend.size() == 9001
    backend.close()


def test_insert_and_collapse(make: Make) -> None:
    folder = make({"a": b""})
    backend = folder.open("a", writable=True)
    unit = backend.unit()
    whole = b"".join(bytes([n + 1]) * unit for n in range(5)) + b"tail"
    backend.write_at(0, whole)
    if not supports(folder, "insert"):
        assert not backend.can_insert()
        with pytest.raises(OSError, match="."):
            backend.insert_range(unit, unit)
        assert backend.read_at(0, len(whole)) == whole
        return
    assert backend.can_insert()
    backend.sync()
    before = backend.extents()
    assert sum(extent.length for extent in before) >= len(whole)
    backend.insert_range(2 * unit, 3 * unit)
    assert backend.read_at(0, backend.size()) == whole[: 2 * unit] + bytes(3 * unit) + whole[2 * unit :]
    after = backend.extents()
    addresses = {(e.physical, e.length) for e in before}
    assert {(e.physical, e.length) for e in after} != addresses or len(before) > 1
    last = max(before, key=lambda extent: extent.logical)
    moved = max(after, key=lambda extent: extent.logical)
    assert moved.logical + moved.length == last.logical + last.length + 3 * unit
    assert moved.physical + moved.length == last.physical + last.length
    for wrong in ((2 * unit + 1, unit), (unit, 7), (backend.size() + unit, unit)):
        with pytest.raises(OSError, match="."):
            backend.insert_range(*wrong)
    backend.collapse_range(2 * unit, 3 * unit)
    assert backend.read_at(0, backend.size()) == whole
    backend.close()


def test_clone(make: Make) -> None:
    folder = make({"a": b"", "b": b""})
    source, target = folder.open("a", writable=True), folder.open("b", writable=True)
    unit = source.unit()
    whole = b"".join(bytes([n + 1]) * unit for n in range(3)) + b"tail"
    source.write_at(0, whole)
    if not supports(folder, "clone"):
        with pytest.raises(OSError, match="."):
            folder.clone_range(source, unit, target, 2 * unit, 0)
        return
    folder.clone_range(source, unit, target, 2 * unit, 0)
    folder.clone_range(source, 0, target, 0, unit)
    assert target.read_at(0, target.size()) == whole[:unit] + bytes(unit) + whole[unit:]
    target.write_at(2 * unit, b"other")
    assert source.read_at(0, len(whole)) == whole, "a clone is a copy"
    with pytest.raises(OSError, match="."):
        folder.clone_range(source, 1, target, 0, 0)
    assert folder.free() > 0
    source.close()
    target.close()


def test_sparse_copy_stays_sparse(tmp_path: Path) -> None:
    """Only on disk: memory has no holes."""
    with open(tmp_path / "a", "wb") as file:
        file.truncate(64 << 20)
        file.seek(32 << 20)
        file.write(b"island")
    folder = FileFolder(str(tmp_path))
    source = folder.open("a", writable=False)
    target = folder.open("b", writable=True, create=True)
    folder.copy_range(source, 0, target, 4096, 64 << 20)
    assert target.size() == (64 << 20) + 4096
    assert target.read_at((32 << 20) + 4096, 6) == b"island"
    assert (tmp_path / "b").stat().st_blocks * 512 < 1 << 20
    source.close()
    target.close()


def test_a_new_name_is_placed_once(make: Make) -> None:
    folder = make({"a": b"old"})
    first, second = (folder.open(name, writable=True, create=True) for name in ("1.tmp", "2.tmp"))
    first.write_at(0, b"whole")
    folder.set_mode(first, 0o640)
    with pytest.raises(FileExistsError):
        folder.place(first, "a")
    assert content(folder, "a") == b"old"
    placed = folder.place(first, "b")
    assert placed.name == "b"
    assert content(folder, "b") == b"whole"
    assert set(folder.names()) - {"lost+found"} == {"2.tmp", "a", "b"}
    with pytest.raises(FileExistsError):
        folder.place(second, "b")
    placed.write_at(0, b"W")
    assert content(folder, "b") == b"Whole"
    placed.close()
    second.close()


def test_files_can_be_cloned(make: Make) -> None:
    folder = make({"a": bytes(range(256)) * 256})
    source = folder.open("a", writable=False)
    target = folder.open("new", writable=True, create=True)
    if supports(folder, "clone"):
        unit = target.unit()
        folder.clone_range(source, unit, target, 2 * unit, unit)
        assert target.read_at(2 * unit, unit) == source.read_at(unit, unit)
    else:
        with pytest.raises(OSError):  # noqa: PT011  # each file system has its own errno
            folder.clone_range(source, 0, target, 0, target.unit())
    for backend in (source, target):
        backend.close()
