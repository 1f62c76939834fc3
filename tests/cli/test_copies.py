"""A new file is never more open than the files that it is made of, and ``implode`` takes no file from elsewhere."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import asdf
import numpy as np
import pytest
from support.arrays import tree_file
from support.commands import command
from support.mounts import environment_in, needs_root, run
from support.samples import put

from asdffs.storage.file_backend import FileFolder
from asdffs.storage.permissions import make_directory

SECRET = b"only the owner reads this"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "f.asdf"
    daf = {"version": [1, 0], "scalars": {"s": {"type": "String", "value": "secret"}}}
    asdf.AsdfFile({"v": "secret", "a": np.frombuffer(SECRET, "u1").copy(), "daf": daf}).write_to(path)
    path.chmod(0o600)
    return path


def asdffs(folder: Path, *words: object, code: int = 0) -> str:
    done = command(*words, environment=environment_in(folder))
    assert done.code == code, done.err
    return done.err


def readable_for_others(path: Path) -> list[str]:
    """The files at or below ``path`` that others could read, if they could enter its directories."""
    return [str(inner) for inner in path.rglob("*") if inner.is_file() and inner.stat().st_mode & 0o044]


@pytest.mark.parametrize("parquet", [False, pytest.param(True, marks=pytest.mark.long)])
def test_regression_copies_of_a_private_file_are_private(file: Path, tmp_path: Path, parquet: bool) -> None:
    out = tmp_path / "out"
    out.mkdir()
    before = os.umask(0o022)
    try:
        asdffs(tmp_path, "repack", file, out / "repacked.asdf")
        asdffs(tmp_path, "explode", file, out / "exploded")
        asdffs(tmp_path, "implode", out / "exploded/f.asdf", out / "imploded.asdf")
        asdffs(tmp_path, "daf", "unpack", file, out / "unpacked")
        (out / "unpacked").chmod(0o755)
        asdffs(tmp_path, "daf", "pack", out / "unpacked", out / "packed.asdf")
        asdffs(tmp_path, "refs", file, "-o", out / "refs.json")
        asdffs(tmp_path, "show", file, "a", "--png", out / "a.png")
        asdffs(tmp_path, "index", "--catalog", out / "c.db", file)
        if parquet:
            asdffs(tmp_path, "index", "--catalog", out / "c.db", "--to", "parquet", out / "parquet")
        asdffs(tmp_path, "set", "--record", out / "record", "v=other", file)
    finally:
        os.umask(before)
    assert len(list(out.iterdir())) == 10 + parquet, "and the lock of the catalogue"
    assert readable_for_others(out) == []


def test_what_is_replaced_becomes_private_too(file: Path, tmp_path: Path) -> None:
    """With --force, what others could read before is no more open than the file that it is made of now."""
    out = tmp_path / "out"
    out.mkdir()
    commands = (
        ("repack", file, out / "repacked.asdf"),
        ("explode", file, out / "exploded"),
        ("refs", file, "-o", out / "refs.json"),
        ("show", file, "a", "--png", out / "a.png"),
    )
    file.chmod(0o644)
    for words in commands:
        asdffs(tmp_path, *words)
    for path in out.rglob("*"):
        path.chmod(0o644 if path.is_file() else 0o755)
    file.chmod(0o600)
    for words in commands:
        asdffs(tmp_path, *words, "--force")
    assert readable_for_others(out) == []
    asdffs(tmp_path, "repack", file)  # in its own place it stays as it was
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_file_of_several_files_is_as_open_as_all_of_them(tmp_path: Path) -> None:
    asdf.AsdfFile({"a": np.arange(9), "b": np.arange(9.0)}).write_to(tmp_path / "f.asdf")
    (tmp_path / "f.asdf").chmod(0o644)
    asdffs(tmp_path, "explode", tmp_path / "f.asdf", tmp_path / "d")
    (tmp_path / "d/f0001.asdf").chmod(0o600)
    asdffs(tmp_path, "implode", tmp_path / "d/f.asdf", tmp_path / "new.asdf")
    assert stat.S_IMODE((tmp_path / "new.asdf").stat().st_mode) == 0o600


def test_regression_the_group_of_a_copy_reads_only_what_it_could_read(file: Path, tmp_path: Path) -> None:
    """A new file has the group of the user, or of a directory with the set-group-ID bit."""
    other = (set(range(1, 9)) - {os.getegid()}).pop()
    try:
        os.chown(file, -1, other)
    except PermissionError:
        pytest.skip("needs the right to give a file another group")
    shared = tmp_path / "shared"
    shared.mkdir()
    os.chown(shared, -1, other)
    shared.chmod(0o2755)
    before = os.umask(0o002)
    try:
        for number, (mode, elsewhere) in enumerate({0o640: 0o600, 0o644: 0o644, 0o664: 0o644, 0o604: 0o600}.items()):
            file.chmod(mode)
            for folder, expected in ((tmp_path, elsewhere), (shared, mode)):
                asdffs(tmp_path, "repack", file, folder / f"{number}.asdf")
                assert stat.S_IMODE((folder / f"{number}.asdf").stat().st_mode) == expected
    finally:
        os.umask(before)


@pytest.mark.parametrize(
    "source",
    [
        "../f0000.asdf",
        "file://{above}/f0000.asdf",
        "%2e%2e/f0000.asdf",
        "link.asdf",
        "inside/f0000.asdf",
        "f0001.asdf",
    ],
)
def test_regression_implode_takes_nothing_from_outside_the_directory(tmp_path: Path, source: str) -> None:
    asdf.AsdfFile({"a": np.frombuffer(SECRET, "u1").copy()}).write_to(tmp_path / "f.asdf")
    asdffs(tmp_path, "explode", tmp_path / "f.asdf", tmp_path / "d")
    (tmp_path / "d/f0000.asdf").rename(tmp_path / "f0000.asdf")
    folder = tmp_path / "stranger"
    folder.mkdir()
    for link in ("link.asdf", "f0001.asdf", "f0000.asdf"):
        (folder / link).symlink_to("../f0000.asdf")
    (folder / "inside").symlink_to("..")
    text = (tmp_path / "d/f.asdf").read_text().replace("f0000.asdf", f'"{source.format(above=tmp_path)}"')
    (folder / "f.asdf").write_text(text)
    said = asdffs(tmp_path, "implode", folder / "f.asdf", tmp_path / "new.asdf", code=2)
    assert f"{tmp_path}/f0000.asdf, which is outside its directory" in said
    assert "--follow takes them" in said
    assert not (tmp_path / "new.asdf").exists()
    asdffs(tmp_path, "implode", "--follow", folder / "f.asdf", tmp_path / "new.asdf")
    assert SECRET in (tmp_path / "new.asdf").read_bytes()


def test_parts_may_lie_in_directories_inside(tmp_path: Path) -> None:
    asdf.AsdfFile({"a": np.frombuffer(SECRET, "u1").copy()}).write_to(tmp_path / "f.asdf")
    asdffs(tmp_path, "explode", tmp_path / "f.asdf", tmp_path / "d")
    (tmp_path / "d/parts").mkdir()
    (tmp_path / "d/f0000.asdf").rename(tmp_path / "d/parts/f0000.asdf")
    main = tmp_path / "d/f.asdf"
    main.write_text(main.read_text().replace("f0000.asdf", "parts/f0000.asdf"))
    asdffs(tmp_path, "implode", main, tmp_path / "new.asdf")
    assert SECRET in (tmp_path / "new.asdf").read_bytes()


#: What is kept beside a file is for those who may read the file, and for nobody else.
GROUP, USER, STRANGER = 65533, 65534, 12345


def of_a_group(path: Path) -> None:
    os.chown(path, 0, GROUP)
    path.chmod(0o640)


def not_of_a_group(path: Path) -> None:
    """Everybody but the group."""
    os.chown(path, 0, GROUP)
    path.chmod(0o604)


def of_another_user(path: Path) -> None:
    os.chown(path, USER, USER)
    path.chmod(0o600)


def with_an_acl(path: Path) -> None:
    if shutil.which("setfacl") is None:
        pytest.skip("setfacl is not installed")
    path.chmod(0o600)
    assert run("setfacl", "-m", f"u:{USER}:rw,g::---", path).returncode == 0


def below_a_default_acl(path: Path) -> None:
    """The directory gives each new file to another user as well."""
    if shutil.which("setfacl") is None:
        pytest.skip("setfacl is not installed")
    path.chmod(0o640)
    assert run("setfacl", "-d", "-m", f"u:{STRANGER}:rw", path.parent).returncode == 0


def can_read(path: Path, user: int, group: int) -> bool:
    return run("setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "cat", path).returncode == 0


@needs_root
@pytest.mark.parametrize("give", [of_a_group, not_of_a_group, of_another_user, with_an_acl, below_a_default_acl])
def test_the_same_people_may_read_it(tmp_path: Path, give: Callable[[Path], None]) -> None:
    for folder in (tmp_path, *list(tmp_path.parents)[:2]):
        folder.chmod(0o755)
    path = put(tmp_path, tree_file("v: 1\n", []))
    give(path)
    where = {**environment_in(tmp_path), "EDITOR": "sed -i s/v:/[/"}
    assert command("edit", path, environment=where).code == 7
    kept = tmp_path / "data.asdf.rejected-1.yaml"
    for user, group in ((USER, USER), (STRANGER, STRANGER), (STRANGER, GROUP), (STRANGER, 0), (USER, 0)):
        assert can_read(kept, user, group) == can_read(path, user, group), (user, group)


@needs_root
def test_a_directory_that_somebody_else_made_is_not_used(tmp_path: Path) -> None:
    path, planted = tmp_path / "data.asdf", tmp_path / "data.asdf.leftover"
    path.write_bytes(b"")
    planted.mkdir()
    folder = FileFolder(str(tmp_path))
    assert make_directory(folder, planted.name, path.name)
    planted.chmod(0o777)
    assert not make_directory(folder, planted.name, path.name)
    planted.chmod(0o755)
    os.chown(planted, STRANGER, STRANGER)
    assert not make_directory(folder, planted.name, path.name)
    (tmp_path / "link").symlink_to(tmp_path)
    assert not make_directory(folder, "link", path.name)
