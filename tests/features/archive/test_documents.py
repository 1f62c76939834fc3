"""The documents of an archive: how many stay, without a kernel."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from weakref import WeakSet

import asdf
import numpy as np
import pytest
from support.paths import NoKernel
from support.samples import odd_file

from asdffs.cli.writing import open_for_mount
from asdffs.document.document import Document
from asdffs.errors import CrossViewError, GoneError, NoSuchNameError, NotAsdfError, ReadOnlyError
from asdffs.features.archive import documents
from asdffs.features.archive.content import ArchiveStatus
from asdffs.features.archive.directory import ArchiveDirectory
from asdffs.features.archive.documents import OpenDocuments
from asdffs.mount.options import MountOptions
from asdffs.scheduling import SingleThread
from asdffs.storage.backend import read_bytes
from asdffs.storage.beneath import Beneath
from asdffs.storage.file_backend import FileFolder
from asdffs.vfs.areas import Areas, check_same, document_of
from asdffs.vfs.attributes import Shown
from asdffs.vfs.inodes import ROOT, Place
from asdffs.vfs.served_file import ServedFile

MOST = 3


class Archive:
    """An archive that is not mounted; ``alive``: the documents that are in memory."""

    def __init__(self, root: Path, *, most: int | None = MOST) -> None:
        self.alive: WeakSet[Document] = WeakSet()
        self.opened: list[str] = []
        self.exchange: Callable[[], object] = lambda: None
        files = Beneath(str(root))
        self.documents = OpenDocuments(files, self._open, SingleThread(), most=most, idle=60)
        status = ArchiveStatus(self.documents, lambda: {"file": str(root)})
        outside = ArchiveDirectory(files, self.documents, status, Shown(), SingleThread())
        self.areas = Areas(outside, self.documents)
        self.documents.ending = self.areas.ending

    def _open(self, folder: FileFolder, name: str, directory: str, number: int) -> ServedFile:
        self.exchange()
        opened = open_for_mount(folder.path(name), MountOptions(), SingleThread(), folder=folder)
        opened.recover_edits()
        self.alive.add(opened.document)
        self.opened.append(directory)
        return ServedFile(opened, Shown(), NoKernel(), {"pid": 1}, number=number)

    @contextlib.contextmanager
    def at(self, path: str) -> Iterator[Place]:
        """The place of ``path``, which a program looks up as the kernel does, and forgets."""
        numbers = [ROOT]
        for name in filter(None, path.split("/")):
            with self.entered(numbers[-1]) as above:
                item, _ = above.area.lookup(above.item, name)
                numbers.append(self.areas.inodes.give(above, item))
        try:
            with self.entered(numbers[-1]) as place:
                yield place
        finally:
            for number in reversed(numbers):
                self.areas.forget(number, 1)

    @contextlib.contextmanager
    def entered(self, number: int, *, looking: bool = False) -> Iterator[Place]:
        place = self.areas.enter(number, looking=looking)
        try:
            yield place
        finally:
            self.areas.leave(place)

    def read(self, path: str) -> bytes:
        with self.at(path) as place:
            handle = place.area.open(place.item, write=False, truncate=False)
            found = read_bytes(place.area.read(handle, 0, 100))
            place.area.release(handle)
            return found


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "archive").mkdir()
    return tmp_path / "archive"


@pytest.fixture
def rare_collections() -> Iterator[None]:
    """The collector as a daemon sets it: full collections are very rare."""
    before = gc.get_threshold()
    gc.set_threshold(20_000, 5, 1_000)
    yield
    gc.set_threshold(*before)


@pytest.mark.long
def test_closed_documents_leave_the_memory(
    root: Path, rare_collections: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "_CLOSED", 32 * documents._DOCUMENT)
    for number in range(100):
        (root / f"{number}.asdf").write_bytes(odd_file())
    archive = Archive(root)
    for number in range(100):
        assert archive.read(f"/{number}.asdf.d/tree.yaml").startswith(b"#ASDF")
        assert len(archive.documents.open_now()) <= MOST
        assert len(archive.alive) <= MOST + 33
    archive.documents.end()
    assert archive.documents.open_now() == []
    assert len(archive.opened) == 100


def test_a_document_that_weighs_more_than_all_may_stays_open(root: Path) -> None:
    """To read a large tree again for each request would cost more; and beside it small ones stay, too."""
    head = b"#ASDF 1.0.0\n%YAML 1.1\n---\n"
    (root / "large.asdf").write_bytes(head + b"a: " + b"1" * 20_000_000 + b"\n...\n")
    (root / "small.asdf").write_bytes(odd_file())
    archive = Archive(root, most=None)
    for _ in range(5):
        for name in ("large", "small"):
            assert archive.read(f"/{name}.asdf.d/tree.yaml").startswith(b"#ASDF")
    assert archive.opened == ["/large.asdf.d", "/small.asdf.d"]
    archive.documents.end()


def test_which_document_a_path_belongs_to(root: Path) -> None:
    (root / "sub.asdf.d").mkdir()
    for name in ("a.asdf", "sub.asdf", "sub.asdf.d/b.ASDF", "c.fits.asdf"):
        (root / name).write_bytes(odd_file())
    (root / "bad.asdf").write_bytes(b"nonsense")
    (root / "text.txt").write_bytes(b"")
    archive = Archive(root)
    for path, directory, inner in (
        ("/a.asdf.d/blocks/0000.bin", "/a.asdf.d", "/blocks/0000.bin"),
        ("/a.asdf.d", "/a.asdf.d", ""),
        ("/sub.asdf.d/b.ASDF.d/tree.yaml", "/sub.asdf.d/b.ASDF.d", "/tree.yaml"),
        ("/c.fits.asdf.d/tree.yaml", "/c.fits.asdf.d", "/tree.yaml"),
        ("/", "", ""),
        ("/a.asdf", "", "/a.asdf"),
        ("/sub.asdf.d", "", "/sub.asdf.d"),
    ):
        with archive.at(path) as place:
            assert (place.directory, place.item.path) == (directory, inner)
    assert archive.opened == ["/a.asdf.d", "/sub.asdf.d/b.ASDF.d", "/c.fits.asdf.d"]
    for path in ("/text.txt.d", "/none.asdf.d", "/a.asdf.dx", "/sub.asdf.d/x", "/a.asdf.d/x"):
        with pytest.raises(NoSuchNameError), archive.at(path):
            pass
    assert archive.read("/a.asdf.d/tree.yaml") == archive.read("/a.asdf")
    with pytest.raises(NotAsdfError), archive.at("/bad.asdf.d/tree.yaml"):
        pass
    with archive.at("/a.asdf") as place, pytest.raises(ReadOnlyError):
        document_of(place)
    with archive.at("/a.asdf.d/tree.yaml") as place, archive.at("/a.asdf.d") as same, archive.at("/a.asdf") as file:
        check_same(place, same)
        with archive.at("/c.fits.asdf.d") as other:
            for each in (file, other):
                with pytest.raises(CrossViewError):
                    check_same(place, each)
    archive.documents.end()
    assert archive.documents.outcome == ([], [], [], [], [])


def test_to_look_at_a_directory_opens_no_document(root: Path) -> None:
    (root / "a.asdf").write_bytes(odd_file())
    archive = Archive(root)
    item, shown = archive.areas.root.lookup(archive.areas.root.root, "a.asdf.d")
    number = archive.areas.inodes.give(Place(archive.areas.root, item), item)
    with archive.entered(number, looking=True) as place:
        assert place.area.attributes(place.item) == shown
    assert archive.opened == []
    with archive.entered(number):
        assert archive.opened == ["/a.asdf.d"]
    archive.documents.end()


def test_a_node_survives_the_closing_of_its_document(root: Path) -> None:
    """The kernel goes on with its numbers; the document is opened again, unless it is another file by now."""
    for name in ("a.asdf", "b.asdf"):
        write(root / name, name.encode())
    archive = Archive(root)
    numbers = {}
    with archive.at("/a.asdf.d/blocks") as place:
        for name in ("0000.bin",):
            item, _ = place.area.lookup(place.item, name)
            numbers[name] = archive.areas.inodes.give(place, item)
    archive.documents.end()
    assert archive.documents.open_now() == []
    with archive.entered(numbers["0000.bin"]) as place:
        handle = place.area.open(place.item, write=False, truncate=False)
        assert read_bytes(place.area.read(handle, 0, 100)) == b"a.asdf"
        place.area.release(handle)
        assert place.item.inode == numbers["0000.bin"]
    archive.documents.end()
    os.replace(root / "b.asdf", root / "a.asdf")
    with pytest.raises(GoneError):
        archive.areas.enter(numbers["0000.bin"])
    archive.documents.end()
    (root / "a.asdf").unlink()
    with pytest.raises(NoSuchNameError):
        archive.areas.enter(numbers["0000.bin"])


def write(path: Path, content: bytes) -> None:
    asdf.AsdfFile({"a": np.frombuffer(content, "u1").copy()}).write_to(path)


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A directory of the mounter outside of the archive, with files of the same names."""
    (tmp_path / "private").mkdir()
    write(tmp_path / "private/00.asdf", b"private")
    (tmp_path / "private/key").write_bytes(b"private")
    return tmp_path / "private"


@pytest.mark.parametrize("which", ["file", "directory"])
def test_regression_a_name_that_becomes_a_link_before_the_open(root: Path, private: Path, which: str) -> None:
    (root / "sub").mkdir()
    write(root / "sub/00.asdf", b"public")
    archive = Archive(root)

    def exchange() -> None:
        place = root / "sub" if which == "directory" else root / "sub/00.asdf"
        place.rename(root / "old")
        place.symlink_to(private if which == "directory" else private / "00.asdf")

    archive.exchange = exchange
    block = "/sub/00.asdf.d/blocks/0000.bin"
    if which == "directory":
        assert archive.read(block) == b"public", "the file that was looked at"
        archive.exchange = lambda: None
        with pytest.raises(NoSuchNameError):
            archive.read(block)
    else:
        with pytest.raises(OSError, match="symbolic links"):
            archive.read(block)
        archive.exchange = lambda: None
        with pytest.raises((OSError, NoSuchNameError)):
            archive.read(block)
    archive.documents.end()


def test_regression_a_directory_that_becomes_a_link(root: Path, private: Path) -> None:
    (root / "sub").mkdir()
    (root / "sub/key").write_bytes(b"public")
    archive = Archive(root)
    outside = archive.areas.root
    sub, _ = outside.lookup(outside.root, "sub")
    handle = outside.opendir(sub)
    (root / "sub").rename(root / "old")
    (root / "sub").symlink_to(private)
    assert [name for name, _, _ in outside.entries_from(handle, 0)] == [b".", b"..", b"key"]
    assert outside.entry(handle, "key") is None, "the kernel asks by name, and finds no such directory"
    for ask in (outside.attributes, outside.opendir):
        with pytest.raises(GoneError):
            ask(sub)
    with pytest.raises((OSError, NoSuchNameError)):
        outside.lookup(sub, "key")
    with pytest.raises((OSError, NoSuchNameError)):
        archive.read("/sub/key")
    assert outside.lookup(outside.root, "sub")[1].kind == "link"
    archive.documents.end()
