"""A file that is a mount point itself, as containers make it of a single file: no other file can take its place."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.commands import Call
from support.filesystems import filesystem, needs_filesystem
from support.mounts import run
from support.samples import check_saved, odd_file, opened, put

from asdffs.document.opening import Settings, open_document
from asdffs.errors import NoRoomError

LONG = "g" * 100_000


def bind(source: Path, target: Path) -> None:
    needs_filesystem("tmpfs")
    done = run("mount", "--bind", source, target)
    if done.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")


GROWING = ["here", pytest.param("ext4", marks=pytest.mark.long)]


@pytest.fixture(params=["tmpfs", *GROWING])
def bound(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Yield a file that is a mount point: its bytes are on the same file system as the directory, or on another."""
    folder = tmp_path / "folder"
    folder.mkdir()
    file = folder / "data.asdf"
    file.touch()
    if request.param == "here":
        yield from _bound(tmp_path, file)
    else:
        with filesystem(request.param, tmp_path) as place:
            yield from _bound(place, file)


def _bound(place: Path, file: Path) -> Iterator[Path]:
    real = put(place, odd_file(), "real.asdf")
    bind(real, file)
    try:
        yield file
    finally:
        assert run("umount", file).returncode == 0


def is_whole(file: Path, note: str | None) -> None:
    check_saved(file, 1)
    with opened(file) as content:
        assert content.tree.get("note") == note
    assert os.listdir(file.parent) == [file.name]


def test_without_an_insertion_growth_is_refused(tmp_path: Path, call: Call) -> None:
    """A mount point on tmpfs can neither be replaced nor get a gap."""
    file = tmp_path / "data.asdf"
    file.touch()
    with filesystem("tmpfs", tmp_path) as place:
        for bound in _bound(place, file):
            done = call("set", f"note={LONG}", bound)
            assert done.code == 8
            assert done.sentence.startswith(f"{bound}: the blocks cannot be moved to make room (clone: ")
            assert done.sentence.endswith(f"'asdffs repack {bound} OUT' makes a copy that can be changed")
            check_saved(bound, 1)
            assert bound.read_bytes() == odd_file()


@pytest.mark.parametrize("bound", GROWING, indirect=True)
def test_regression_growth_keeps_the_file(bound: Path, tmp_path: Path, call: Call) -> None:
    inode, record = bound.stat().st_ino, tmp_path / "record"
    assert call("set", f"note={LONG}", bound, "--record", record).code == 0
    is_whole(bound, LONG)
    assert call("undo", record).code == 0
    is_whole(bound, None)
    assert bound.stat().st_ino == inode


def test_regression_growth_by_another_path_of_the_directory(tmp_path: Path, call: Call) -> None:
    """There the file is no mount point, but rename(2) is EBUSY all the same."""
    folder, other = tmp_path / "folder", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    (folder / "data.asdf").write_bytes(odd_file())
    (tmp_path / "cover").write_bytes(b"")
    bind(folder, other)
    try:
        bind(tmp_path / "cover", folder / "data.asdf")
        try:
            assert call("set", f"note={LONG}", other / "data.asdf").code == 0
            is_whole(other / "data.asdf", LONG)
        finally:
            assert run("umount", folder / "data.asdf").returncode == 0
    finally:
        gc.collect()  # the document had the directory open, and may be in a cycle
        assert run("umount", other).returncode == 0


def test_what_replaces_files_says_what_to_do(bound: Path, tmp_path: Path, call: Call) -> None:
    before = bound.read_bytes()
    other = put(tmp_path, odd_file(), "other.asdf")
    for arguments in (("repack", bound), ("repack", other, bound, "--force")):
        done = call(*arguments)
        assert (done.code, done.sentence) == (
            8,
            f"{bound}: cannot be replaced, because it is a mount point; write to another file",
        )
    (tmp_path / "source").mkdir()
    (tmp_path / "source/data.asdf").write_bytes(odd_file())
    done = call("explode", tmp_path / "source/data.asdf", bound.parent, "--force")
    assert (done.code, done.sentence) == (
        8,
        f"{bound}: is a mount point, so it cannot be replaced; choose another directory",
    )
    assert bound.read_bytes() == before
    assert os.listdir(bound.parent) == [bound.name]
    assert call("repack", bound, tmp_path / "out.asdf").code == 0


def test_other_means_are_refused_before_anything_is_copied(bound: Path) -> None:
    with closing(open_document(str(bound), writable=True, settings=Settings(growth="copy"))) as document:
        text = document.tree.text().replace(b"value: 1\n", b"value: 1\nnote: " + LONG.encode() + b"\n")
        with pytest.raises(NoRoomError, match="copy: it is a mount point"):
            document.commit_tree(text)
    assert bound.read_bytes() == odd_file()
