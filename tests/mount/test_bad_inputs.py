"""Each bad input: one clear sentence, a documented exit code, and not a byte of the file changed."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.mounts import asdffs, environment_in, run
from support.namespaces import in_own_namespace
from support.processes import wait_for
from support.samples import BAD_UTF8_FILE, DATA, MAGIC, MASK, ODD_FILES, block_bytes, odd_file

import asdffs as asdffs_package

pytestmark = pytest.mark.mount


class Place:
    """A folder with a file and a mount point; ``mount`` runs the command, ``refused`` checks its end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "data.asdf"
        self.file.write_bytes(odd_file(padding=b" " * 500))
        self.point = folder / "mnt"
        self.point.mkdir()
        self.environment = environment_in(folder)

    def mount(self, *words: object, file: object = None, point: object = None) -> subprocess.CompletedProcess[str]:
        return asdffs("mount", file or self.file, point or self.point, *words, environment=self.environment)

    def refused(self, code: int, sentence: str, *words: object, file: object = None, point: object = None) -> None:
        before = self.file.read_bytes()
        done = self.mount(*words, file=file, point=point)
        lines = done.stderr.splitlines()
        assert done.returncode == code, done.stderr
        assert len(lines) == 1, lines
        assert lines[0].startswith("asdffs: ")
        assert sentence in lines[0]
        assert self.file.read_bytes() == before
        assert [p.name for p in self.folder.iterdir() if p.name.endswith("-journal")] == []

    def umount(self, point: Path | None = None, code: int = 0) -> str:
        done = asdffs("umount", point or self.point, environment=self.environment)
        assert done.returncode == code, done.stderr
        return done.stderr


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    while os.path.ismount(place.point):
        run("umount", "-l", place.point)


NOT_ASDF = {
    "empty": b"",
    "text": b"hello\n",
    "binary": bytes(range(256)) * 10,
    "later version": b"#ASDF 9.9.9\n",
    "fits": b"SIMPLE  =                    T" + b" " * 2850,
}


@pytest.mark.parametrize("kind", NOT_ASDF)
def test_not_an_asdf_file(place: Place, kind: str) -> None:
    place.file.write_bytes(NOT_ASDF[kind])
    place.refused(4, str(place.file))


def test_missing_file(place: Place) -> None:
    place.refused(3, "No such file or directory", file=place.folder / "nothing.asdf")


def test_the_directory_around_the_mount_point(place: Place) -> None:
    place.refused(6, "the mount point lies inside the directory; choose one outside", file=place.folder)


def test_a_fifo(place: Place) -> None:
    os.mkfifo(place.folder / "pipe")
    place.refused(3, "not a regular file", file=place.folder / "pipe")


def test_a_link_in_a_circle(place: Place) -> None:
    (place.folder / "loop").symlink_to("loop")
    place.refused(3, "cannot be opened", file=place.folder / "loop")


def test_mount_point_missing(place: Place) -> None:
    place.refused(6, "does not exist; run: mkdir -p", point=place.folder / "nowhere")


def test_mount_point_is_a_file(place: Place) -> None:
    place.refused(6, "is not a directory", point=place.file)


def test_mount_point_not_empty(place: Place) -> None:
    (place.point / "something").write_text("mine")
    place.refused(6, "is not empty; choose an empty directory")


def test_already_mounted_there(place: Place) -> None:
    other = place.folder / "other.asdf"
    other.write_bytes(place.file.read_bytes())
    assert place.mount().returncode == 0
    done = place.mount(file=other)
    assert done.returncode == 6
    assert "already mounted; run: asdffs umount " in done.stderr
    place.umount()


def test_mount_point_inside_a_mount(place: Place) -> None:
    other = place.folder / "other.asdf"
    other.write_bytes(place.file.read_bytes())
    assert place.mount().returncode == 0
    (place.point / "inside").mkdir()
    done = place.mount(file=other, point=place.point / "inside")
    assert done.returncode == 6
    assert "lies inside another asdffs mount; choose a directory outside" in done.stderr
    (place.point / "inside").rmdir()
    place.umount()


def test_a_file_inside_a_mount(place: Place) -> None:
    """Scratch is a file like others; its journal and lock work there too."""
    assert place.mount().returncode == 0
    inner, point = place.point / "inner.asdf", place.folder / "mnt2"
    inner.write_bytes(place.file.read_bytes())
    point.mkdir()
    assert place.mount(file=inner, point=point).returncode == 0
    (point / "tree.yaml").write_bytes((point / "tree.yaml").read_bytes().replace(b"value: 1", b"value: 2"))
    place.umount(point)
    assert b"value: 2" in inner.read_bytes()
    inner.unlink()
    place.umount()


def test_second_mount_for_writing(place: Place) -> None:
    assert place.mount().returncode == 0
    second = place.folder / "second"
    second.mkdir()
    before = place.file.read_bytes()
    done = place.mount(point=second)
    assert done.returncode == 5
    assert "mounted" in done.stderr
    assert place.mount("-o", "ro", point=second).returncode == 0
    assert (second / "blocks/0000.bin").read_bytes() == DATA
    with pytest.raises(OSError, match="Read-only file system"):
        (second / "tree.yaml").write_bytes(b"x")
    place.umount(second)
    place.umount()
    assert place.file.read_bytes() == before


@contextlib.contextmanager
def bound_read_only(folder: Path, target: Path) -> Iterator[None]:
    target.mkdir(exist_ok=True)
    assert run("mount", "--bind", folder, target).returncode == 0
    try:
        assert run("mount", "-o", "remount,bind,ro", target).returncode == 0
        yield
    finally:
        run("umount", "-l", target)


@pytest.mark.skipif(os.geteuid() != 0, reason="a bind mount needs root")
def test_read_only_directory(place: Place) -> None:
    inside, shown = place.folder / "inside", place.folder / "shown"
    inside.mkdir()
    (inside / "data.asdf").write_bytes(place.file.read_bytes())
    with bound_read_only(inside, shown):
        done = place.mount(file=shown / "data.asdf")
        assert done.returncode == 0
        assert "cannot be written; mounting read-only" in done.stderr
        assert (place.point / "blocks/0001.bin").read_bytes() == MASK
        assert not stat.S_IMODE((place.point / "tree.yaml").stat().st_mode) & 0o222
        place.umount()
    assert sorted(p.name for p in inside.iterdir()) == ["data.asdf"]


@pytest.mark.parametrize("kind", ["truncated", "corrupt"])
def test_a_damaged_block_leaves_the_rest(place: Place, kind: str) -> None:
    blocks = [block_bytes(DATA), block_bytes(MASK), *([block_bytes(b"three")] if kind == "corrupt" else [])]
    raw = odd_file(padding=b" " * 500, blocks=blocks)
    second = raw.find(MAGIC, raw.find(MAGIC) + 4)
    damaged = raw[: second + 60] if kind == "truncated" else raw[:second] + b"XXXX" + raw[second + 4 :]
    place.file.write_bytes(damaged)
    assert place.mount().returncode == 0
    assert (place.point / "blocks/0000.bin").read_bytes() == DATA
    assert b"value: 1" in (place.point / "tree.yaml").read_bytes()
    with pytest.raises(OSError, match="Input/output error"):
        (place.point / "blocks/0001.bin").read_bytes()
    assert "block 1" in (place.point / ".asdffs/error").read_text()
    place.umount()
    assert place.file.read_bytes() == damaged


@pytest.mark.parametrize("kind", [name for name in ODD_FILES if "index" in name])
def test_a_lying_index(place: Place, kind: str) -> None:
    place.file.write_bytes(ODD_FILES[kind])
    assert place.mount().returncode == 0
    assert (place.point / "blocks/0000.bin").read_bytes() == DATA
    assert (place.point / "blocks/0001.bin").read_bytes() == MASK
    place.umount()
    assert place.file.read_bytes() == ODD_FILES[kind]


def test_names_that_are_not_utf8(place: Place) -> None:
    file = place.folder / os.fsdecode(b"d\xe9j\xe0.asdf")
    point = place.folder / os.fsdecode(b"mount\xff")
    file.write_bytes(place.file.read_bytes())
    point.mkdir()
    done = place.mount(file=file, point=point)
    assert (done.returncode, done.stderr) == (0, "")
    name = point / os.fsdecode(b"scr\xe4tch.txt")
    name.write_bytes(b"kept")
    assert name.name in os.listdir(point)
    assert name.read_bytes() == b"kept"
    with pytest.raises(OSError, match="Bad message"):
        (point / "tree.yaml").write_bytes(b"x")
    assert "Traceback" not in place.umount(point, code=7)
    leftover = place.folder / os.fsdecode(b"d\xe9j\xe0.asdf.leftover")
    assert (leftover / name.name).read_bytes() == b"kept"
    done = place.mount(file=place.folder / os.fsdecode(b"\xff\xfe"), point=point)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr


def test_a_tree_that_is_not_utf8(place: Place) -> None:
    """It is served as it is; a save must be UTF-8."""
    place.file.write_bytes(BAD_UTF8_FILE)
    assert place.mount().returncode == 0
    tree = place.point / "tree.yaml"
    text = tree.read_bytes()
    assert text in BAD_UTF8_FILE
    with pytest.raises(OSError, match="Bad message"):
        tree.write_bytes(text.replace(b"value: 1", b"value: 2"))
    assert "not UTF-8" in (place.point / ".asdffs/error").read_text()
    assert place.file.read_bytes() == BAD_UTF8_FILE
    tree.write_bytes(text.replace(b"value: 1", b"value: 2").replace(b"caf\xe9", "café".encode()))
    assert b"value: 2" in place.file.read_bytes()
    assert "corrected later, is kept" in place.umount()


def test_a_refusal_that_names_odd_bytes(place: Place) -> None:
    assert place.mount().returncode == 0
    (place.point / os.fsdecode(b"z\xff") / "k").mkdir(parents=True)
    with pytest.raises(OSError, match="not empty"):
        (place.point / os.fsdecode(b"z\xff")).rmdir()
    assert b"z\xff" in (place.point / ".asdffs/error").read_bytes()
    (place.point / os.fsdecode(b"z\xff") / "k").rmdir()
    (place.point / os.fsdecode(b"z\xff")).rmdir()
    place.umount()


def test_a_path_of_4000_characters(place: Place) -> None:
    folder = place.folder
    while len(str(folder)) < 3800:
        folder /= "d" * min(200, 3801 - len(str(folder)))
    os.makedirs(folder)
    file, point = folder / ("f" * 100), folder / ("m" * 100)
    file.write_bytes(place.file.read_bytes())
    point.mkdir()
    done = place.mount(file=file, point=point)
    assert done.returncode == 0, done.stderr
    text = (point / "tree.yaml").read_bytes()
    (point / "tree.yaml").write_bytes(text.replace(b"value: 1", b"value: 2"))
    place.umount(point)
    assert b"value: 2" in file.read_bytes()
    place.refused(3, "File name too long", file="x" * 4000)
    place.refused(6, "File name too long", point="y" * 4000)


def test_mount_point_vanishing(place: Place) -> None:
    """Its directory is removed where nothing is mounted on it: the kernel takes the mount away."""
    if run("unshare", "-m", "true").returncode != 0:
        pytest.skip("no right to make a mount namespace")
    assert place.mount().returncode == 0
    pid = json.loads((place.point / ".asdffs/status.json").read_text())["pid"]
    (place.point / "blocks/0001.bin").write_bytes(MASK[::-1])
    assert run("unshare", "-m", "sh", "-c", f"umount {place.point} && rmdir {place.point}").returncode == 0
    wait_for(pid)
    assert not place.point.exists()
    assert MASK[::-1] in place.file.read_bytes()
    place.point.mkdir()


@pytest.mark.skipif(os.geteuid() != 0, reason="a tmpfs needs root")
def test_disk_full_at_mount(place: Place) -> None:
    full = place.folder / "full"
    full.mkdir()
    assert run("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", full).returncode == 0
    try:
        file = full / "data.asdf"
        file.write_bytes(place.file.read_bytes())
        with contextlib.suppress(OSError), open(full / "fill", "wb", buffering=0) as fill:
            while True:
                fill.write(bytes(4096))
        before = file.read_bytes()
        done = place.mount(file=file)
        assert done.returncode == 8
        assert "No space left on device; make room, or mount with -o ro" in done.stderr
        assert sorted(p.name for p in full.iterdir()) == ["data.asdf", "fill"]
        assert place.mount("-o", "ro", file=file).returncode == 0
        assert (place.point / "blocks/0000.bin").read_bytes() == DATA
        place.umount()
        assert file.read_bytes() == before
    finally:
        run("umount", "-l", full)


def with_dev(script: str, place: Place) -> subprocess.CompletedProcess[str]:
    """The mount command in a mount namespace whose /dev has what ``script`` makes."""
    setup = "mount -t tmpfs tmpfs /dev && mknod -m 666 /dev/null c 1 3 && mknod -m 666 /dev/urandom c 1 9"
    command = f"{sys.executable} -m asdffs mount {place.file} {place.point}"
    script = f"{setup} && {script.format(command=command)}"
    return in_own_namespace(script, place.folder, place.environment)


@pytest.mark.skipif(os.geteuid() != 0, reason="another /dev needs root")
@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("{command}", "/dev/fuse: does not exist; load the fuse module"),
        (
            "mknod -m 000 /dev/fuse c 10 229 && setpriv --bounding-set=-all --inh-caps=-all {command}",
            "may not be opened",
        ),
    ],
)
def test_fuse_device(place: Place, script: str, sentence: str) -> None:
    before = place.file.read_bytes()
    done = with_dev(script, place)
    assert done.returncode == 6, done.stderr
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert place.file.read_bytes() == before


def test_fusermount_missing(place: Place) -> None:
    """Only root can do without it: libfuse would say so in its own words, and only after the daemon has started."""
    code = (
        "import asdffs.cli.main, asdffs.cli.commands.mount, locale, os, shutil, sys; os.seteuid(65534); "
        "os.environ['PATH'] = '/nowhere'; asdffs.cli.commands.mount._HELPER_PLACES = (); "
        "sys.exit(asdffs.cli.main.main(sys.argv[1:]))"
    )
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    package = os.path.dirname(asdffs_package.__file__)
    if run("setpriv", "--reuid=65534", "--clear-groups", "ls", package).returncode != 0:
        pytest.skip(f"{package} cannot be read by other users")
    place.folder.chmod(0o777)
    for folder in (place.folder, *place.folder.parents):
        if str(folder).startswith("/tmp/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    done = run(sys.executable, "-c", code, "mount", place.file, place.point, env=place.environment)
    assert done.returncode == 6, done.stderr
    assert "fusermount3" in done.stderr
    assert "apt install fuse3" in done.stderr


UNKNOWN: dict[str, Callable[[], list[str]]] = {
    "option": lambda: ["-o", "ro,sparkle=1"],
    "pad": lambda: ["-o", "pad=lots"],
    "umask": lambda: ["-o", "umask=9"],
    "uid": lambda: ["-o", "uid=root"],
    "flag with value": lambda: ["-o", "strict=1"],
    "value without": lambda: ["-o", "fsname"],
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_options_that_are_not_understood(place: Place, kind: str) -> None:
    words = UNKNOWN[kind]()
    place.refused(2, words[1].split(",")[-1].partition("=")[0], *words)


def test_a_log_that_cannot_be_written(place: Place) -> None:
    place.refused(6, "log=/nowhere/log: cannot be written: No such file", "-o", "log=/nowhere/log")
    if not os.path.exists("/dev/log"):
        place.refused(6, "there is no /dev/log", "-o", "log=syslog")


@pytest.mark.parametrize("option", ["spool", "log", "XDG_STATE_HOME"])
def test_nothing_of_the_mount_lies_inside_it(place: Place, option: str) -> None:
    """The daemon would wait for itself."""
    inside, words = place.point / "inside", []
    if option.isupper():
        place.environment[option] = str(inside)
    else:
        words = ["-o", f"{option}={inside}"]
    place.refused(6, "lies inside the mount point; choose another place", *words)
    assert list(place.point.iterdir()) == []


def test_umount_where_nothing_is_mounted(place: Place) -> None:
    done = asdffs("umount", place.point, environment=place.environment)
    assert (done.returncode, len(done.stderr.splitlines())) == (6, 1)
    assert "no asdffs mount is there" in done.stderr
