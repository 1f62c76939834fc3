"""Mounts that other users may use, and directories that other users may change (``-o allow_other``).

The other user exchanges names while the mounter's daemon looks and opens: here by system calls that come in between.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import asdf
import numpy as np
import pytest
from support.arrays import tree_file
from support.mounts import NOBODY, as_user, asdffs, environment_in, mounted, needs_root, run

from asdffs.document.opening import Settings, open_document
from asdffs.document.saves.keeping import Keeper
from asdffs.errors import InvalidArrayError, LockedError
from asdffs.storage.file_backend import FileFolder


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
        os.chown(path, NOBODY, NOBODY)
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
        os.chown(bob / "x.asdf.leftover", NOBODY, NOBODY)
        (bob / "x.asdf.leftover/a").symlink_to(target)
    keeper.keep_scratch("a/b.sh", str(scratch))
    keeper.keep_draft(str(scratch))
    assert (len(keeper.kept), keeper.failures) == (2, [])
    assert list(target.iterdir()) == []


@pytest.mark.mount
def test_regression_two_archives_inside_each_other_do_not_wait_for_each_other(tmp_path: Path) -> None:
    one, two, environment = tmp_path / "one", tmp_path / "two", environment_in(tmp_path)
    for folder in (one, two):
        (folder / "inner").mkdir(parents=True)
        asdf.AsdfFile({"v": 1}).write_to(folder / "a.asdf")
    (one / "deep").mkdir()
    with (
        mounted(one, at=two / "inner", environment=environment),
        mounted(two, at=one / "inner", environment=environment),
    ):
        for path in (one / "inner/inner", one / "inner/inner/inner/a.asdf.d/tree.yaml", two / "inner/inner/a.asdf"):
            assert "Operation not permitted" in run("stat", path).stderr
        for place in (one / "inner", two / "inner"):
            assert "inner" in run("ls", place).stdout.split()
            assert "v: 1" in (place / "a.asdf.d/tree.yaml").read_text()
            assert run("find", place).returncode == 1
        (one / "deep/new").mkdir()
        with mounted(
            two, "-o", "ro", at=one / "deep/new", environment=environment
        ):  # it comes while the other mount looks at it
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


SECRET = b"the mounter's secret"
LINKS = """\
r: {{$ref: "{file}#/a"}}
s: !core/ndarray-1.0.0 {{source: "{file}", datatype: uint8, byteorder: little, shape: [20]}}
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A directory that everybody may search."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        (Path(place) / "v").mkdir(mode=0o755)
        asdf.AsdfFile({"a": np.frombuffer(SECRET, "u1").copy()}).write_to(f"{place}/v/linked.asdf")
        (Path(place) / "x.asdf").write_bytes(tree_file(LINKS.format(file="v/linked.asdf"), []))
        yield Path(place)


@pytest.mark.parametrize(
    ("shown", "linked", "directory", "others", "follows"),
    [
        (0o644, 0o644, 0o755, 0, True),
        (0o644, 0o600, 0o755, 0, False),
        (0o644, 0o640, 0o755, 0, False),
        (0o644, 0o604, 0o755, 0, False),
        (0o644, 0o644, 0o700, 0, False),
        (0o644, 0o644, 0o750, 0, False),
        (0o640, 0o640, 0o750, 0, True),
        (0o640, 0o600, 0o750, 0, False),
        (0o600, 0o600, 0o700, 0, True),
        (0o600, 0o600, 0o700, 0o044, False),
        (0o644, 0o600, 0o700, None, True),
    ],
)
def test_regression_a_linked_file_is_followed_if_all_may_read_it(
    open_folder: Path, shown: int, linked: int, directory: int, others: int | None, follows: bool
) -> None:
    (open_folder / "x.asdf").chmod(shown)
    (open_folder / "v/linked.asdf").chmod(linked)
    (open_folder / "v").chmod(directory)
    settings = Settings(others=others)
    with contextlib.closing(
        open_document(str(open_folder / "x.asdf"), writable=False, settings=settings)
    ) as document:
        if follows:
            assert bytes(document.arrays["s"][:]) == bytes(document.arrays["r"][:]) == SECRET
            (open_folder / "v/linked.asdf").chmod(0)
            if others is not None and shown != 0o600:
                with pytest.raises(InvalidArrayError, match="may not all read"):
                    document.linked_files.find("v/linked.asdf", document)
        else:
            for name in ("r", "s"):
                with pytest.raises(InvalidArrayError, match="may not all read"):
                    document.arrays[name][:]


@needs_root
@pytest.mark.mount
def test_regression_others_do_not_see_files_of_the_mounter_through_links(open_folder: Path) -> None:
    (open_folder / "mnt").mkdir()
    (open_folder / "v/linked.asdf").chmod(0o600)
    environment = environment_in(open_folder)
    with mounted(open_folder / "x.asdf", "-o", "allow_other", at=open_folder / "mnt", environment=environment):
        assert sorted(os.listdir(open_folder / "mnt/arrays")) == ["s.fits", "s.npy"]
        other = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        assert run(*other, "cat", open_folder / "mnt/tree.yaml").returncode == 0
        assert SECRET.decode() not in run(*other, "cat", open_folder / "mnt/arrays/s.npy").stdout


@needs_root
@pytest.mark.mount
def test_the_process_of_another_user_that_has_the_file_is_named(open_folder: Path) -> None:
    (open_folder / "mnt").mkdir()
    (open_folder / "x.asdf").chmod(0o666)
    with mounted(open_folder / "x.asdf", at=open_folder / "mnt", environment=environment_in(open_folder)):
        pid = json.loads((open_folder / "mnt/.asdffs/status.json").read_bytes())["pid"]
        with as_user(), pytest.raises(LockedError) as refused:
            open_document(str(open_folder / "x.asdf"), writable=True)
    assert f"another asdffs is writing this file (process {pid}: " in str(refused.value)
    assert f"; mounted at {open_folder / 'mnt'})" in str(refused.value)


@needs_root
@pytest.mark.mount
@pytest.mark.parametrize(
    "what", ["x.asdf", "x.asdf.d/blocks/0000.bin", "x.asdf.d/arrays/a.npy", "x.asdf.d/tree.yaml"]
)
@pytest.mark.parametrize("looked", [True, False])
def test_regression_a_private_file_gets_the_name_of_a_public_one(open_folder: Path, what: str, looked: bool) -> None:
    """The kernel asked for the permissions of the name when it was another file's."""
    shared, point = open_folder / "shared", open_folder / "mnt"
    for folder in (shared, point):
        folder.mkdir()
    for name, content in (("x", b"public"), ("p", SECRET)):
        asdf.AsdfFile({"a": np.frombuffer(content, "u1").copy()}).write_to(shared / f"{name}.asdf")
    (shared / "x.asdf").chmod(0o644)
    (shared / "p.asdf").chmod(0o600)
    with mounted(shared, "-o", "allow_other", at=point, environment=environment_in(open_folder)), as_user():
        held = os.open(point / "x.asdf.d/tree.yaml", os.O_RDONLY)
        assert (point / what).read_bytes()
        if looked:
            (point / what).stat()
        with as_user(0):
            (shared / "p.asdf").rename(shared / "x.asdf")
        with contextlib.suppress(OSError):
            assert SECRET not in (point / what).read_bytes()
            assert what != "x.asdf"
        os.close(held)


@needs_root
def test_allow_root_lets_no_third_user_in(open_folder: Path) -> None:
    """The kernel lets all users in, and asdffs refuses them; who got an open file may use it."""
    path, point = open_folder / "x.asdf", open_folder / "mnt"
    path.write_bytes(tree_file("{a: 1}\n", []))
    path.chmod(0o644)
    point.mkdir()
    with mounted(path, "-o", "allow_root", at=point, environment=environment_in(open_folder)):
        held = os.open(point / "tree.yaml", os.O_RDONLY)
        with as_user():
            for ask in (lambda: os.listdir(point), (point / "tree.yaml").read_bytes, (point / "x").touch):
                with pytest.raises(PermissionError):
                    ask()
            assert b"a: 1" in os.pread(held, 10_000, 0)
        os.close(held)
        assert (point / "tree.yaml").exists()
