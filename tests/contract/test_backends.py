"""One suite for every store and folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.filesystems import KINDS, filesystem

from asdffs.storage.backend import Extent, Folder
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.memory_backend import MemoryFolder

Make = Callable[[dict[str, bytes]], Folder]


@pytest.fixture(params=["file", "memory", *KINDS])
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
    assert backend.writable
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


def test_extent_means_the_bytes(make: Make) -> None:
    backend = make({"a": b"0123456789"}).open("a", writable=False)
    found = backend.extent(3, 4)
    if isinstance(found, Extent):
        import os

        found = os.pread(found.fd, found.length, found.offset)
    assert found == b"3456"
    backend.close()


def test_read_only_refuses(make: Make) -> None:
    backend = make({"a": b"abc"}).open("a", writable=False)
    with pytest.raises(OSError, match="."):
        backend.write_at(0, b"x")
    with pytest.raises(OSError, match="."):
        backend.truncate(0)
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


def test_links(make: Make) -> None:
    assert make({"a": b""}).links("a") == 1


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


def test_whether_files_can_be_cloned_is_found_by_trying(make: Make) -> None:
    folder = make({"a": bytes(range(256)) * 256, "tiny": b"x"})
    source, tiny = (folder.open(name, writable=False) for name in ("a", "tiny"))
    target = folder.open("new", writable=True, create=True)
    assert folder.can_clone(source, target) == supports(folder, "clone")
    assert not folder.can_clone(tiny, target)
    assert target.size() == 0
    if supports(folder, "clone"):
        unit = target.unit()
        folder.clone_range(source, unit, target, 2 * unit, unit)
        assert target.read_at(2 * unit, unit) == source.read_at(unit, unit)
    for backend in (source, tiny, target):
        backend.close()
