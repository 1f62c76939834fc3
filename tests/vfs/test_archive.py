"""The documents of an archive: how many stay, without a kernel."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from weakref import WeakSet

import asdf
import numpy as np
import pytest
from support.samples import odd_file

from asdffs.cli.opened_file import open_for_mount
from asdffs.document.document import Document
from asdffs.errors import CrossViewError, NoSuchNameError, NotAsdfError, ReadOnlyError
from asdffs.mount.options import MountOptions
from asdffs.mount.served_file import ServedFile
from asdffs.scheduling import SingleThread
from asdffs.storage.backend import read_bytes
from asdffs.storage.beneath import Beneath
from asdffs.storage.file_backend import FileFolder
from asdffs.vfs.archive import OpenDocuments
from asdffs.vfs.archive_status import ArchiveStatus
from asdffs.vfs.areas import Areas
from asdffs.vfs.attributes import Shown
from asdffs.vfs.kernel import NoKernel
from asdffs.vfs.outside import ArchiveDirectory

MOST = 3


class Archive:
    """An archive that is not mounted; ``alive``: the documents that are in memory."""

    def __init__(self, root: Path) -> None:
        self.alive: WeakSet[Document] = WeakSet()
        self.opened: list[str] = []
        self.exchange: Callable[[], object] = lambda: None
        files = Beneath(str(root))
        self.documents = OpenDocuments(files, self._open, SingleThread(), most=MOST, idle=60)
        status = ArchiveStatus(self.documents, {"file": str(root)})
        outside = ArchiveDirectory(files, self.documents, status, Shown(), SingleThread())
        self.areas = Areas(outside, self.documents)

    def _open(self, folder: FileFolder, name: str, directory: str, number: int) -> ServedFile:
        self.exchange()
        opened = open_for_mount(folder.path(name), MountOptions(), SingleThread(), folder=folder)
        opened.keep_the_past()
        self.alive.add(opened.document)
        self.opened.append(directory)
        return ServedFile(opened, Shown(), NoKernel(), {"pid": 1}, number=number)

    def read(self, path: str) -> bytes:
        place = self.areas.enter(path)
        try:
            handle = place.area.open(place.path, write=False, truncate=False)
            found = read_bytes(place.area.read(handle, 0, 100))
            place.area.release(handle)
            return found
        finally:
            place.leave()


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
def test_closed_documents_leave_the_memory(root: Path, rare_collections: None) -> None:
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


def test_which_document_a_path_belongs_to(root: Path) -> None:
    (root / "sub.asdf.d").mkdir()
    for name in ("a.asdf", "sub.asdf", "sub.asdf.d/b.ASDF", "c.fits.asdf"):
        (root / name).write_bytes(odd_file())
    (root / "bad.asdf").write_bytes(b"nonsense")
    (root / "text.txt").write_bytes(b"")
    archive = Archive(root)
    split = archive.documents.split
    assert split("/a.asdf.d/blocks/0000.bin") == ("/a.asdf.d", "/blocks/0000.bin")
    assert split("/a.asdf.d") == ("/a.asdf.d", "/")
    assert split("/a.asdf.d", looking=True) is None
    assert split("/sub.asdf.d/b.ASDF.d/x.asdf.d") == ("/sub.asdf.d/b.ASDF.d", "/x.asdf.d")
    assert split("/c.fits.asdf.d/tree.yaml") == ("/c.fits.asdf.d", "/tree.yaml")
    for outside in ("/", "/a.asdf", "/sub.asdf.d", "/sub.asdf.d/x", "/text.txt.d", "/none.asdf.d/x", "/a.asdf.dx/y"):
        assert split(outside) is None
    assert archive.opened == []
    assert archive.read("/a.asdf.d/tree.yaml") == archive.read("/a.asdf")
    assert split("/a.asdf.d", looking=True) == ("/a.asdf.d", "/")
    with pytest.raises(NotAsdfError):
        archive.areas.enter("/bad.asdf.d/tree.yaml")
    with pytest.raises(ReadOnlyError):
        archive.areas.enter("/a.asdf").document.names.unlink("/a.asdf")
    place = archive.areas.enter("/a.asdf.d/x")
    assert archive.areas.within(place, "/a.asdf.d/y") == "/y"
    for other in ("/y", "/sub.asdf.d/b.ASDF.d/y"):
        with pytest.raises(CrossViewError):
            archive.areas.within(place, other)
    place.leave()
    (root / "a.asdf").unlink()
    with pytest.raises(NoSuchNameError):
        archive.areas.enter("/a.asdf.d/tree.yaml")
    archive.documents.end()
    assert archive.documents.outcome == ([], [], [], [], [])


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
        assert archive.read(block) == archive.read(block) == b"public", "the file that was looked at"
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
    outside = archive.areas.enter("/").area
    handle = outside.opendir("/sub")
    (root / "sub").rename(root / "old")
    (root / "sub").symlink_to(private)
    assert [name for name, _, _ in outside.kinds_from(handle, 0)] == [b".", b"..", b"key"]
    number = (root / "old/key").stat().st_ino
    shown = outside.directory_at(handle, b"key", number)
    assert shown is not None
    assert shown.size == len(b"public")
    for ask in (outside.attributes, outside.opendir):
        with pytest.raises((OSError, NoSuchNameError)):
            ask("/sub/key" if ask == outside.attributes else "/sub/")
    with pytest.raises(OSError, match="Not a directory"):
        archive.read("/sub/key")
    assert outside.attributes("/sub").kind == "link"
    archive.documents.end()
