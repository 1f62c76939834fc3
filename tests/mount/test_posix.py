"""Scratch beside POSIX, as pjdfstest is ordered: docs/posix.md says what is otherwise, and why."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.mounts import mounted
from support.samples import odd_file, put

pytestmark = pytest.mark.mount
NOBODY = 65534
LONG = "x" * 256


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("owners need root")
    folder = tmp_path_factory.mktemp("posix")
    folder.chmod(0o755)
    for above in folder.parents[:2]:
        above.chmod(0o755)
    file = put(folder, odd_file())
    with mounted(file, "-o", "allow_other,default_permissions") as mount:
        work = mount.point / "work"
        work.mkdir()
        work.chmod(0o777)
        yield work
        subprocess.run(["rm", "-rf", work], check=True)


@pytest.fixture
def here(place: Path, request: pytest.FixtureRequest) -> Path:
    path = place / f"t{abs(hash(request.node.name))}"
    path.mkdir(exist_ok=True)
    path.chmod(0o777)
    return path


def as_nobody(code: str, folder: Path) -> str:
    """What the expression ``code`` is for another user in ``folder``: the name of an errno, or a value."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.chdir(folder)
            try:
                found = str(eval(code))  # written above, in this file
            except OSError as err:
                found = errno.errorcode[err.errno or 0]
            os.write(writer, found.encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with open(reader) as pipe:
        return pipe.read()


def code_of(call: Callable[[], object]) -> str:
    try:
        call()
    except OSError as err:
        return errno.errorcode[err.errno or 0]
    return "done"


WRITE = "[os.pwrite(fd := os.open('f', os.O_WRONLY), b'x', 0), os.close(fd)]"


@pytest.mark.parametrize(
    ("change", "by_other", "by_root"),
    [
        (WRITE, 0o777, 0o6777),
        ("os.truncate('f', 3)", 0o777, 0o6777),
        ("os.close(os.open('f', os.O_WRONLY | os.O_TRUNC))", 0o777, 0o6777),
    ],
)
def test_privileges_of_a_file_that_is_written(here: Path, change: str, by_other: int, by_root: int) -> None:
    """Whoever may not set them takes them away by a write; a set-group-ID bit without x is no privilege."""
    file = here / "f"
    for privileged, other, root in ((0o6777, by_other, by_root), (0o2766, 0o2766, 0o2766)):
        file.write_bytes(b"content")
        file.chmod(privileged)
        as_nobody(change, here)
        assert stat.S_IMODE(file.stat().st_mode) == other
        file.chmod(privileged)
        before = os.getcwd()
        os.chdir(here)
        eval(change)
        os.chdir(before)
        assert stat.S_IMODE(file.stat().st_mode) == root
    os.chown(file, NOBODY, -1)
    file.chmod(0o6777)
    os.chown(file, 0, 0)
    assert stat.S_IMODE(file.stat().st_mode) == 0o777


def moved_ctime(path: Path, change: Callable[[], object]) -> bool:
    before = os.lstat(path).st_ctime_ns
    change()
    return os.lstat(path).st_ctime_ns > before


def test_chmod(here: Path) -> None:
    file = here / "f"
    file.write_text("x")
    for mode in (0o0, 0o111, 0o755, 0o4755, 0o2755, 0o1644):
        assert moved_ctime(file, lambda mode=mode: file.chmod(mode))
        assert stat.S_IMODE(file.stat().st_mode) == mode
    assert as_nobody("os.chmod('f', 0o644)", here) == "EPERM"
    assert code_of(lambda: os.chmod(file / "x", 0o644)) == "ENOTDIR"
    assert code_of(lambda: os.chmod(here / "none", 0o644)) == "ENOENT"
    assert code_of(lambda: os.chmod(here / LONG, 0o644)) == "ENAMETOOLONG"


def test_chown(here: Path) -> None:
    file = here / "f"
    file.write_text("x")
    assert moved_ctime(file, lambda: os.chown(file, 123, 456))
    assert (file.stat().st_uid, file.stat().st_gid) == (123, 456)
    os.chown(file, -1, 789)
    assert (file.stat().st_uid, file.stat().st_gid) == (123, 789)
    assert as_nobody("os.chown('f', 65534, 65534)", here) == "EPERM"
    (here / "link").symlink_to("f")
    os.chown(here / "link", 5, 6, follow_symlinks=False)
    assert (os.lstat(here / "link").st_uid, file.stat().st_uid) == (5, 123)


def test_link(here: Path) -> None:
    file, other = here / "f", here / "g"
    file.write_text("x")
    assert moved_ctime(file, lambda: os.link(file, other))
    assert (file.stat().st_nlink, file.stat().st_ino) == (2, other.stat().st_ino)
    number = file.stat().st_ino
    assert {entry.name: entry.inode() for entry in os.scandir(here)} == {"f": number, "g": number}
    assert code_of(lambda: os.link(file, other)) == "EEXIST"
    assert code_of(lambda: os.link(here, here / "d")) == "EPERM"
    assert code_of(lambda: os.link(file, here / LONG)) == "ENAMETOOLONG"
    assert moved_ctime(other, file.unlink)
    assert (other.stat().st_nlink, other.read_text()) == (1, "x")


def test_mkdir(here: Path) -> None:
    before = here.stat()
    old = os.umask(0o022)
    try:
        os.mkdir(here / "d", 0o777)
    finally:
        os.umask(old)
    assert stat.S_IMODE((here / "d").stat().st_mode) == 0o755
    assert here.stat().st_nlink == before.st_nlink + 1
    assert here.stat().st_mtime_ns > before.st_mtime_ns
    assert code_of(lambda: os.mkdir(here / "d")) == "EEXIST"
    assert code_of(lambda: os.mkdir(here / LONG)) == "ENAMETOOLONG"
    assert code_of(lambda: os.mkdir(here / "none/d")) == "ENOENT"
    (here / "f").write_text("x")
    assert code_of(lambda: os.mkdir(here / "f/d")) == "ENOTDIR"
    (here / "closed").mkdir(0o755)
    assert as_nobody("os.mkdir('closed/d')", here) == "EACCES"
    made = as_nobody("os.mkdir('mine') or (os.stat('mine').st_uid, os.stat('mine').st_gid)", here)
    assert made == f"({NOBODY}, {NOBODY})"
    (here / "set").mkdir()
    os.chown(here / "set", 0, 99)
    os.chmod(here / "set", 0o2777)
    made = as_nobody("os.mkdir('set/d') or (os.stat('set/d').st_gid, os.stat('set/d').st_mode & 0o2000)", here)
    assert made == f"(99, {0o2000})"


def test_mkfifo_and_mknod(here: Path) -> None:
    """Not in scratch: docs/posix.md."""
    assert code_of(lambda: os.mkfifo(here / "p")) == "EPERM"
    assert code_of(lambda: os.mknod(here / "s", stat.S_IFSOCK | 0o600)) == "EPERM"


def test_open(here: Path) -> None:
    file = here / "f"
    old = os.umask(0o027)
    try:
        os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o666))
    finally:
        os.umask(old)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert code_of(lambda: os.open(file, os.O_CREAT | os.O_EXCL)) == "EEXIST"
    assert code_of(lambda: os.open(here, os.O_WRONLY)) == "EISDIR"
    assert code_of(lambda: os.open(file / "x", os.O_RDONLY)) == "ENOTDIR"
    assert code_of(lambda: os.open(here / "none", os.O_RDONLY)) == "ENOENT"
    assert code_of(lambda: os.open(here / LONG, os.O_CREAT | os.O_WRONLY)) == "ENAMETOOLONG"
    (here / ("é" * 127 + "x")).write_bytes(b"255 bytes")
    assert (here / ("é" * 127 + "x")).read_bytes() == b"255 bytes"
    (here / "loop").symlink_to("loop")
    assert code_of(lambda: os.open(here / "loop", os.O_RDONLY)) == "ELOOP"
    assert as_nobody("os.open('f', os.O_RDONLY)", here) == "EACCES"
    file.write_text("content")
    before = file.stat().st_mtime_ns
    os.close(os.open(file, os.O_WRONLY | os.O_TRUNC))
    assert (file.stat().st_size, file.stat().st_mtime_ns > before) == (0, True)


def test_rename(here: Path) -> None:
    file, other = here / "f", here / "g"
    file.write_text("x")
    number = file.stat().st_ino
    assert code_of(lambda: os.rename(file, other)) == "done"
    assert (other.stat().st_ino, file.exists()) == (number, False)
    (here / "d/e").mkdir(parents=True)
    (here / "empty").mkdir()
    assert code_of(lambda: os.rename(other, here / "d")) == "EISDIR"
    assert code_of(lambda: os.rename(here / "d", other)) == "ENOTDIR"
    assert code_of(lambda: os.rename(here / "empty", here / "d")) in ("ENOTEMPTY", "EEXIST")
    assert code_of(lambda: os.rename(here / "d", here / "d/e/f")) == "EINVAL"
    assert code_of(lambda: os.rename(here / "d", here / "empty")) == "done"
    assert os.listdir(here / "empty") == ["e"]
    assert code_of(lambda: os.rename(other, here / LONG)) == "ENAMETOOLONG"
    (here / "sticky").mkdir()
    os.chmod(here / "sticky", 0o1777)
    (here / "sticky/theirs").write_text("x")
    assert as_nobody("os.rename('sticky/theirs', 'sticky/mine')", here) in ("EPERM", "EACCES")


def test_rmdir_and_unlink(here: Path) -> None:
    (here / "d/e").mkdir(parents=True)
    (here / "f").write_text("x")
    assert code_of(lambda: os.rmdir(here / "d")) in ("ENOTEMPTY", "EEXIST")
    assert code_of(lambda: os.rmdir(here / "f")) == "ENOTDIR"
    assert code_of(lambda: os.rmdir(f"{here}/d/e/.")) == "EINVAL"
    assert code_of(lambda: os.rmdir(here / "none")) == "ENOENT"
    assert code_of(lambda: os.unlink(here / "d")) in ("EISDIR", "EPERM")
    assert code_of(lambda: os.unlink(here / LONG)) == "ENAMETOOLONG"
    with open(here / "f", "rb") as kept:
        os.unlink(here / "f")
        assert kept.read() == b"x"
        assert os.fstat(kept.fileno()).st_nlink == 0
    (here / "g").mkdir()
    removed, replaced = (os.open(here / name, os.O_RDONLY) for name in ("d/e", "g"))
    assert code_of(lambda: os.rmdir(here / "d/e")) == "done"
    assert code_of(lambda: os.rename(here / "d", here / "g")) == "done"
    assert os.fstat(removed).st_nlink == os.fstat(replaced).st_nlink == 0
    os.close(removed)
    os.close(replaced)


def test_symlink(here: Path) -> None:
    os.symlink("target", here / "s")
    assert os.readlink(here / "s") == "target"
    assert os.lstat(here / "s").st_size == len("target")
    assert code_of(lambda: os.symlink("x", here / "s")) == "EEXIST"
    assert code_of(lambda: os.symlink("x", here / LONG)) == "ENAMETOOLONG"
    assert as_nobody("os.symlink('x', 'mine') or os.lstat('mine').st_uid", here) == str(NOBODY)


def test_truncate(here: Path) -> None:
    file = here / "f"
    file.write_text("content")
    before = file.stat()
    os.truncate(file, 3)
    assert (file.read_text(), file.stat().st_ctime_ns > before.st_ctime_ns) == ("con", True)
    os.truncate(file, 5)
    assert file.read_bytes() == b"con\0\0"
    assert code_of(lambda: os.truncate(file, -1)) == "EINVAL"
    assert code_of(lambda: os.truncate(here, 1)) == "EISDIR"
    assert code_of(lambda: os.truncate(here / LONG, 1)) == "ENAMETOOLONG"
    file.chmod(0o444)
    assert as_nobody("os.truncate('f', 0)", here) == "EACCES"


def test_utimensat(here: Path) -> None:
    file = here / "f"
    file.write_text("x")
    assert moved_ctime(file, lambda: os.utime(file, ns=(1, 2)))
    assert (file.stat().st_atime_ns, file.stat().st_mtime_ns) == (1, 2)
    for words, expected in ((("-a", "-d", "@7"), (7 * 10**9, 2)), (("-m", "-d", "@8"), (7 * 10**9, 8 * 10**9))):
        subprocess.run(["touch", *words, file], check=True)
        assert (file.stat().st_atime_ns, file.stat().st_mtime_ns) == expected
    assert file.stat().st_ctime_ns > time.time_ns() - 60 * 10**9, "not the time that was set"
    assert as_nobody("os.utime('f', ns=(3, 4))", here) == "EPERM"
    assert as_nobody("os.utime('f')", here) == "EACCES"


def test_posix_fallocate(here: Path) -> None:
    with open(here / "f", "wb") as file:
        os.posix_fallocate(file.fileno(), 10, 90)
        assert os.fstat(file.fileno()).st_size == 100
    for words in (("-n", "-l", "1M"), ("-p", "-l", "4096")):
        done = subprocess.run(["fallocate", *words, here / "f"], capture_output=True, text=True, check=False)
        assert done.returncode == 0 or "unsupported" in done.stderr or "not supported" in done.stderr, done.stderr
        assert (here / "f").stat().st_size == 100
    with contextlib.suppress(FileNotFoundError):
        os.unlink(here / "f")
