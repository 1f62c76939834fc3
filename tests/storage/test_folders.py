"""A folder stays the same directory, whoever changes its path, and leads nowhere else."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from asdffs.storage.file_backend import FileFolder


@pytest.fixture
def swapped(tmp_path: Path) -> FileFolder:
    """A folder whose path has become a symbolic link to ``target``."""
    for name in ("folder/inner", "target/inner"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "target/private").write_bytes(b"private")
    folder = FileFolder(str(tmp_path / "folder"))
    assert folder.names() == ["inner"]
    (tmp_path / "folder").rename(tmp_path / "moved")
    (tmp_path / "folder").symlink_to("target")
    return folder


def test_regression_everything_goes_through_the_descriptor(swapped: FileFolder, tmp_path: Path) -> None:
    new = swapped.open("new", writable=True, create=True)
    new.write_at(0, b"x")
    new = swapped.place(new, "placed")
    new = swapped.replace(new, "replaced")
    with swapped.exclusive():
        swapped.sync()
    assert (swapped.has("replaced"), swapped.has("private"), swapped.why_kept("replaced")) == (True, False, "")
    assert swapped.signature("replaced") == new.signature()
    assert swapped.free() > 0
    assert swapped.below("inner").names() == []
    new.close()
    assert sorted(swapped.names()) == ["inner", "replaced"]
    swapped.remove("replaced")
    assert sorted(os.listdir(tmp_path / "moved")) == ["inner"]
    assert sorted(os.listdir(tmp_path / "target")) == ["inner", "private"]


@pytest.mark.parametrize("path", ["link", "inner/../inner", "..", "link/inner", "inner/link"])
def test_regression_a_way_down_follows_no_link(tmp_path: Path, path: str) -> None:
    (tmp_path / "folder/inner").mkdir(parents=True)
    for link in ("folder/link", "folder/inner/link"):
        (tmp_path / link).symlink_to(tmp_path)
    folder = FileFolder(str(tmp_path / "folder"))
    assert folder.below("inner").path("x") == f"{tmp_path}/folder/inner/x"
    with pytest.raises(NotADirectoryError):
        folder.below(path)


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "file").write_bytes(b"")
    folder = FileFolder(str(tmp_path))
    for name in ("pipe", "link"):
        with pytest.raises(OSError, match=name):
            folder.open(name, writable=False)


def test_descriptors_are_closed(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        FileFolder(str(tmp_path)).names()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="to be another user needs root")
def test_a_directory_that_can_only_be_searched() -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place, "file").write_bytes(b"text")
        os.chmod(place, 0o711)
        os.seteuid(65534)
        try:
            backend = FileFolder(place).open("file", writable=False)
            assert backend.read_at(0, 4) == b"text"
            backend.close()
        finally:
            os.seteuid(0)
