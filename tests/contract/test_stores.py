"""One suite for every store and folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from asdffs.storage.file_store import FileFolder
from asdffs.storage.memory_store import MemoryFolder
from asdffs.storage.store import Extent, Folder

Make = Callable[[dict[str, bytes]], Folder]


@pytest.fixture(params=["file", "memory"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    def make_files(files: dict[str, bytes]) -> Folder:
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
        return FileFolder(str(tmp_path))

    return make_files if request.param == "file" else MemoryFolder


def content(folder: Folder, name: str) -> bytes:
    store = folder.open(name, writable=False)
    try:
        return store.read_at(0, store.size())
    finally:
        store.close()


def test_read_write_truncate(make: Make) -> None:
    folder = make({"a": b"0123456789"})
    store = folder.open("a", writable=True)
    assert store.name == "a"
    assert store.writable
    assert store.read_at(8, 100) == b"89"
    assert store.read_at(50, 1) == b""
    store.write_at(2, b"xy")
    store.write_at(12, memoryview(b"end"))
    assert store.read_at(0, 99) == b"01xy456789\0\0end"
    store.truncate(3)
    store.truncate(5)
    store.sync()
    assert content(folder, "a") == b"01x\0\0"
    assert store.size() == 5
    store.close()
    store.close()


def test_extent_means_the_bytes(make: Make) -> None:
    store = make({"a": b"0123456789"}).open("a", writable=False)
    found = store.extent(3, 4)
    if isinstance(found, Extent):
        import os

        found = os.pread(found.fd, found.length, found.offset)
    assert found == b"3456"
    store.close()


def test_read_only_refuses(make: Make) -> None:
    store = make({"a": b"abc"}).open("a", writable=False)
    with pytest.raises(OSError, match="."):
        store.write_at(0, b"x")
    with pytest.raises(OSError, match="."):
        store.truncate(0)
    store.close()


def test_signature_tells_changes(make: Make) -> None:
    folder = make({"a": b"abc", "b": b"abc"})
    store = folder.open("a", writable=True)
    before = store.signature()
    assert folder.signature("a") == before
    assert folder.signature("b").inode != before.inode
    store.write_at(0, b"xyzt")
    assert store.signature() != before
    assert folder.signature("a") == store.signature()
    store.close()


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
    assert sorted(folder.names()) == ["a"]
    assert content(folder, "a") == b"whole"
    other = folder.open("a", writable=True)
    assert not folder.lock(other), "the lock goes with the file"
    other.close()
    renamed.close()
    folder.remove("a")
    assert folder.names() == []
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


def test_links(make: Make) -> None:
    assert make({"a": b""}).links("a") == 1


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
