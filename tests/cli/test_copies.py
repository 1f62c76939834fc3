"""A new file is never more open than the files that it is made of, and ``implode`` takes no file from elsewhere."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import asdf
import numpy as np
import pytest
from support.commands import command
from support.mounts import environment_in

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
