"""Mounts that other users may use, and directories that other users may change (``-o allow_other``).

The other user exchanges names while the mounter's daemon looks and opens: here by system calls that come in between.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

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
