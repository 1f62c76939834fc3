"""Mounts that other users may use, and directories that other users may change (``-o allow_other``).

The other user exchanges names while the mounter's daemon looks and opens: here by system calls that come in between.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import asdf
import pytest
from support.mounts import asdffs, environment_in, lazily_unmount, mounted, run

from asdffs.document.saves.keeping import Keeper
from asdffs.storage.file_backend import FileFolder

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="to be another user needs root")
OTHER = 65534


@needs_root
@pytest.mark.parametrize("swapped", ["directory", "leftover", "inside"])
def test_regression_what_is_kept_follows_no_link(tmp_path: Path, swapped: str) -> None:
    """bob, who owns the directory, puts a link to one of root's in its place before root's daemon keeps scratch."""
    bob, target, scratch = tmp_path / "bob", tmp_path / "target", tmp_path / "scratch"
    for folder in (bob, target):
        folder.mkdir()
    scratch.write_bytes(b"content")
    (bob / "x.asdf").write_bytes(b"")
    for path in (bob, bob / "x.asdf"):
        os.chown(path, OTHER, OTHER)
    folder = FileFolder(str(bob))
    assert folder.names() == ["x.asdf"]
    keeper = Keeper(SimpleNamespace(path=str(bob / "x.asdf"), folder=folder))
    if swapped == "directory":
        bob.rename(tmp_path / "moved")
        bob.symlink_to("target")
    elif swapped == "leftover":
        (bob / "x.asdf.leftover").symlink_to(target)
    else:
        (bob / "x.asdf.leftover").mkdir()
        os.chown(bob / "x.asdf.leftover", OTHER, OTHER)
        (bob / "x.asdf.leftover/a").symlink_to(target)
    keeper.keep_scratch("a/b.sh", str(scratch))
    keeper.keep_draft(str(scratch))
    assert (len(keeper.kept), keeper.failures) == (2, [])
    assert list(target.iterdir()) == []


@contextlib.contextmanager
def mount(environment: dict[str, str], what: Path, point: Path, *options: str) -> Iterator[None]:
    done = asdffs("mount", what, point, *options, environment=environment)
    assert done.returncode == 0, done.stderr
    try:
        yield
    finally:
        done = asdffs("umount", point, environment=environment)
        if os.path.ismount(point):
            lazily_unmount(point)
    assert done.returncode == 0, done.stderr


@pytest.mark.mount
def test_regression_two_archives_inside_each_other_do_not_wait_for_each_other(tmp_path: Path) -> None:
    one, two, environment = tmp_path / "one", tmp_path / "two", environment_in(tmp_path)
    for folder in (one, two):
        (folder / "inner").mkdir(parents=True)
        asdf.AsdfFile({"v": 1}).write_to(folder / "a.asdf")
    (one / "deep").mkdir()
    with mount(environment, one, two / "inner"), mount(environment, two, one / "inner"):
        for path in (one / "inner/inner", one / "inner/inner/inner/a.asdf.d/tree.yaml", two / "inner/inner/a.asdf"):
            assert "Operation not permitted" in run("stat", path).stderr
        for place in (one / "inner", two / "inner"):
            assert "inner" in run("ls", place).stdout.split()
            assert "v: 1" in (place / "a.asdf.d/tree.yaml").read_text()
            assert run("find", place).returncode == 1
        (one / "deep/new").mkdir()
        with mount(environment, two, one / "deep/new", "-o", "ro"):  # it comes while the other mount looks at it
            assert "Operation not permitted" in run("stat", two / "inner/deep/new/a.asdf").stderr
        assert (two / "inner/deep/new").is_dir()


@pytest.mark.mount
def test_regression_no_daemon_writes_into_another_mount(tmp_path: Path) -> None:
    for name in ("a.asdf", "b.asdf"):
        asdf.AsdfFile({"v": 1}).write_to(tmp_path / name)
    (tmp_path / "mnt").mkdir()
    with mounted(tmp_path / "a.asdf") as one:
        for option in (f"spool={one.point}", f"log={one.point}/log"):
            done = asdffs("mount", tmp_path / "b.asdf", tmp_path / "mnt", "-o", option, environment=one.environment)
            assert (done.returncode, "inside another asdffs mount" in done.stderr) == (6, True), done.stderr
