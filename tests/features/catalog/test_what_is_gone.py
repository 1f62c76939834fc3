"""Which files leave a catalogue: those that were looked for and are not there, and no others."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.commands import Done, command
from support.mounts import environment_in

HEAD = b"#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n--- !<tag:stsci.edu:asdf/core/asdf-1.1.0>\n"


@pytest.fixture
def call(tmp_path: Path) -> Callable[..., Done]:
    return partial(command, environment=environment_in(tmp_path) | {"XDG_CACHE_HOME": str(tmp_path / "cache")})


@pytest.fixture
def folder(tmp_path: Path, call: Callable[..., Done]) -> Path:
    """An archive of ``a.asdf`` and ``sub/deep/``, with two files, that is in the catalogue."""
    folder = tmp_path / "archive"
    (folder / "sub/deep").mkdir(parents=True)
    for name in ("a", "sub/deep/b", "sub/deep/c"):
        (folder / f"{name}.asdf").write_bytes(HEAD + b"{value: 1}\n...\n")
    assert call("index", folder).code == 0
    return folder


def found(call: Callable[..., Done]) -> list[str]:
    return [os.path.basename(line) for line in call("find", "value == 1").out.splitlines()]


def index(call: Callable[..., Done], *words: Any) -> tuple[int, int, int, str]:
    done = call("index", "--json", *words)
    return done.code, done.json["removed"], done.json["kept"], done.err


@pytest.mark.parametrize("number", [errno.EACCES, errno.ESTALE, errno.EIO, errno.ENOTCONN])
@pytest.mark.parametrize("words", [(), ("--forget",)])
def test_regression_a_directory_that_cannot_be_read_keeps_its_files(
    call: Callable[..., Done], folder: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: tuple[str, ...]
) -> None:
    real = os.scandir

    def scandir(place: Any) -> Any:
        if os.fsencode(place).endswith(b"/sub"):
            raise OSError(number, os.strerror(number))
        return real(place)

    monkeypatch.setattr(os, "scandir", scandir)
    (folder / "a.asdf").unlink()
    code, removed, kept, said = index(call, *words, folder)
    # without --forget, ``a`` is kept as well: nothing at all is left in the archive
    assert (code, removed, kept) == (1, len(words), 3 - len(words)), said
    assert f"{folder}/sub: {os.strerror(number)}" in said
    assert "not found, and kept, such as" in said
    assert found(call)[-2:] == ["b.asdf", "c.asdf"]


def test_regression_a_root_that_is_empty_now_keeps_its_files(call: Callable[..., Done], folder: Path) -> None:
    """As an empty mount point.  The files that come back are not read again."""
    aside = folder.rename(folder.parent / "aside")
    assert "there is no such file" in call("index", folder).sentence
    folder.mkdir()
    (folder / "lost+found").mkdir()
    for words in (
        ("index", folder),
        ("index", folder, folder / "lost+found"),
        ("find", "--fresh", "value == 1", folder),
    ):
        assert "archive/a.asdf: the directory cannot be read, or is empty" in call(*words).err
    assert index(call, folder)[:3] == (1, 0, 3)
    assert call("index", "--json", folder.parent).json["kept"] == 0  # its parent has files: those of ``aside``
    shutil.rmtree(folder)
    aside.rename(folder)
    assert call("index", "--json", folder).json["found"] == 3


@pytest.mark.parametrize("gone", [True, False])
def test_forget_removes_what_is_really_gone(call: Callable[..., Done], folder: Path, *, gone: bool) -> None:
    shutil.rmtree(folder)
    if not gone:
        folder.mkdir()
    assert index(call, "--forget", folder)[:3] == (0, 3, 0)
    assert found(call) == []


def test_regression_an_empty_mount_point_in_a_root_keeps_its_files(
    tmp_path: Path, call: Callable[..., Done], folder: Path
) -> None:
    """The files in ``deep`` were on another file system, and nothing is there now."""
    with closing(sqlite3.connect(tmp_path / "cache/asdffs/catalog.sqlite")) as connection, connection:
        connection.execute("UPDATE files SET identity = '9' || identity WHERE instr(path, CAST('deep' AS BLOB))")
    for path in (folder / "sub/deep").iterdir():
        path.unlink()
    assert index(call, folder)[:3] == (1, 0, 2)
    assert found(call) == ["a.asdf", "b.asdf", "c.asdf"]
    assert index(call, "--forget", folder)[:3] == (0, 2, 0)


def test_files_that_are_gone_leave_at_once(call: Callable[..., Done], folder: Path) -> None:
    (folder / "sub/deep/b.asdf").unlink()
    assert index(call, folder)[:3] == (0, 1, 0)
    (folder / "sub/deep/c.asdf").unlink()  # an empty directory of the same file system
    assert index(call, folder)[:3] == (0, 1, 0)
    (folder / "sub/deep/d.asdf").symlink_to("../../a.asdf")
    assert index(call, folder)[:3] == (0, 0, 0)
    (folder / "a.asdf").rename(folder / "e.asdf")
    code, removed, kept, said = index(call, folder)
    assert (code, removed, kept) == (1, 1, 1), said  # the link is there: its target may not be mounted
    shutil.rmtree(folder / "sub")
    assert index(call, folder)[:3] == (0, 1, 0)
    assert found(call) == ["e.asdf"]


def test_another_part_is_not_looked_for(call: Callable[..., Done], folder: Path) -> None:
    for number in (1, 2, 3):
        assert index(call, "--part", f"{number}/3", folder)[:3] == (0, 0, 0)
    assert len(found(call)) == 3


def test_regression_a_file_of_a_list_never_left_the_catalogue(
    tmp_path: Path, call: Callable[..., Done], folder: Path
) -> None:
    """And its name ended the work on all others."""
    names = tmp_path / "names"
    names.write_bytes(b"".join(os.fsencode(path) + b"\n" for path in sorted(folder.rglob("*.asdf"))))
    (folder / "a.asdf").unlink()
    (folder / "sub/deep/b.asdf").write_bytes(HEAD + b"{value: 2}\n...\n")
    assert index(call, "--files-from", names) == (0, 1, 0, "")
    assert found(call) == ["c.asdf"]
    code, _, _, said = index(call, "--files-from", names)
    assert (code, f"{folder}/a.asdf: there is no such file or directory" in said) == (3, True)
    shutil.rmtree(folder)
    assert index(call, "--files-from", names)[1:3] == (2, 0)
    assert call("index", folder).code == 3
    assert call("index", "--files-from", tmp_path / "none").code == 3


def test_a_file_of_a_list_that_may_not_be_mounted_is_kept(
    tmp_path: Path, call: Callable[..., Done], folder: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "cache/asdffs/catalog.sqlite")) as connection, connection:
        connection.execute("UPDATE files SET identity = '9' || identity")
    names = tmp_path / "names"
    names.write_bytes(os.fsencode(folder / "sub/deep/b.asdf") + b"\0")
    shutil.rmtree(folder / "sub")
    assert index(call, "-0", "--files-from", names)[:3] == (1, 0, 1)
    assert index(call, "-0", "--forget", "--files-from", names)[:3] == (0, 1, 0)


def test_names_with_ends_of_lines(tmp_path: Path, call: Callable[..., Done], folder: Path) -> None:
    (folder / "a\nb.asdf").write_bytes(HEAD + b"{value: 1}\n...\n")
    (tmp_path / "names").write_bytes(os.fsencode(folder / "a\nb.asdf"))
    assert call("index", "--json", "-0", "--files-from", tmp_path / "names").json["read"] == 1
    assert call("index", "-0", folder).sentence == "-0 is for --files-from"


def test_regression_a_catalogue_has_what_set_wrote(call: Callable[..., Done], folder: Path) -> None:
    (folder / "link.asdf").symlink_to("a.asdf")
    done = call("set", "--where", "value == 1", "value=2", folder)
    assert (done.code, done.err) == (0, "")
    assert found(call) == []
    assert call("find", "value == 2").out.count("\n") == 4
    assert call("set", "--dry-run", "--where", "value == 2", "value=3", folder).code == 0
    assert call("unset", "--where", "value == 2", "value", folder).code == 0
    assert call("find", "exists value").out == ""


def test_regression_a_typing_error_made_directories(tmp_path: Path, call: Callable[..., Done], folder: Path) -> None:
    done = call("index", "--catalog", tmp_path / "missing/x.db", folder)
    assert (done.code, "missing: there is no such directory for a catalogue" in done.sentence) == (3, True)
    assert not (tmp_path / "missing").exists()


def test_who_may_write_a_catalogue_may_lock_it(tmp_path: Path, call: Callable[..., Done], folder: Path) -> None:
    catalog = tmp_path / "cache/asdffs/catalog.sqlite"
    for mode, expected in ((0o600, 0o600), (0o664, 0o660), (0o666, 0o666), (0o644, 0o600)):
        catalog.chmod(mode)
        assert call("index", folder).code == 0
        assert (catalog.parent / "catalog.sqlite.lock").stat().st_mode & 0o777 == expected
        assert catalog.stat().st_mode & 0o777 == mode
