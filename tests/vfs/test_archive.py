"""The documents of an archive: how many stay, without a kernel."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from weakref import WeakSet

import pytest
from support.samples import odd_file

from asdffs.cli.opened_file import open_for_mount
from asdffs.document.document import Document
from asdffs.errors import CrossViewError, NoSuchNameError, NotAsdfError, ReadOnlyError
from asdffs.mount.options import MountOptions
from asdffs.mount.served_file import ServedFile
from asdffs.scheduling import SingleThread
from asdffs.storage.backend import read_bytes
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
        self.documents = OpenDocuments(str(root), self._open, SingleThread(), most=MOST, idle=60)
        status = ArchiveStatus(self.documents, {"file": str(root)})
        outside = ArchiveDirectory(str(root), self.documents, status, Shown(), SingleThread())
        self.areas = Areas(outside, self.documents)

    def _open(self, path: str, directory: str, number: int) -> ServedFile:
        opened = open_for_mount(path, MountOptions(), SingleThread())
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
