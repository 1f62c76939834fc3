"""Each bad input: one clear sentence, a documented exit code, and not a byte of the file changed."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.filesystems import filesystem, fill
from support.mounts import asdffs, environment_in, mounted, needs_root, run
from support.namespaces import in_own_namespace
from support.processes import wait_for
from support.samples import BAD_UTF8_FILE, DATA, MAGIC, MASK, ODD_FILES, block_bytes, check_saved, odd_file, put

import asdffs as asdffs_package

pytestmark = pytest.mark.mount


def refused(file: Path, code: int, sentence: str, *words: object, **environment: str) -> None:
    """``mount WORDS`` beside ``file`` ends with this code and one line, and leaves nothing."""
    folder, before = file.parent, file.read_bytes()
    done = asdffs("mount", *words, environment=environment_in(folder) | environment, cwd=folder)
    lines = done.stderr.splitlines()
    assert (done.returncode, len(lines)) == (code, 1), done.stderr
    assert lines[0].startswith("asdffs: ")
    assert sentence in lines[0]
    assert file.read_bytes() == before
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


@pytest.fixture
def place(file: Path) -> Path:
    """The directory of ``file``, with other things that may be named."""
    folder = file.parent
    contents = {
        "empty": b"",
        "text": b"hello\n",
        "binary": bytes(range(256)) * 10,
        "later": b"#ASDF 9.9.9\n",
        "fits": b"SIMPLE  =                    T" + b" " * 2850,
        "cut": file.read_bytes()[:200],
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "full/x").mkdir(parents=True)
    (folder / "mnt").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    return folder


#: What follows ``mount``, the exit code, and a part of the sentence.
REFUSED = (
    ("empty mnt", 4, "empty: offset 0: not an ASDF file"),
    ("text mnt", 4, "text: offset 0: not an ASDF file"),
    ("binary mnt", 4, "binary: offset 0: not an ASDF file"),
    ("fits mnt", 4, "fits: "),
    ("later mnt", 4, "9.9.9"),
    ("cut mnt", 4, "the tree has no end"),
    ("nothing.asdf mnt", 3, "nothing.asdf: cannot be opened: No such file or directory"),
    ("pipe mnt", 3, "not a regular file"),
    ("loop mnt", 3, "cannot be opened"),
    ("x" * 4000 + " mnt", 3, "File name too long"),
    (". mnt", 6, "the mount point lies inside the directory; choose one outside"),
    ("mnt mnt", 6, "lies inside the mount point"),
    ("data.asdf nowhere", 6, "does not exist; run: mkdir -p"),
    ("data.asdf text", 6, "is not a directory"),
    ("data.asdf full", 6, "is not empty; choose an empty directory"),
    ("data.asdf " + "y" * 4000, 6, "File name too long"),
    ("data.asdf mnt -o ro,sparkle=1", 2, "unknown mount option 'sparkle"),
    ("data.asdf mnt -o pad=lots", 2, "pad"),
    ("data.asdf mnt -o umask=9", 2, "umask"),
    ("data.asdf mnt -o uid=root", 2, "uid"),
    ("data.asdf mnt -o uid=99999999999", 2, "uid"),
    ("data.asdf mnt -o strict=1", 2, "strict"),
    ("data.asdf mnt -o fsname", 2, "fsname"),
    ("data.asdf mnt -o undo=1k", 2, "undo=1k: give bytes such as 20G, at least 1M"),
    ("data.asdf mnt -o spool_max=much", 2, "spool_max=much: give bytes such as 20G, at least 16M"),
    ("data.asdf mnt -o fits=maybe", 2, "fits=maybe: choose on or off"),
    ("data.asdf mnt -o log=/nowhere/log", 6, "log=/nowhere/log: cannot be written: No such file"),
    ("data.asdf mnt -o spool={mnt}/inside", 6, "lies inside the mount point; choose another place"),
    ("data.asdf mnt -o log={mnt}/inside", 6, "lies inside the mount point; choose another place"),
)


@pytest.mark.parametrize(("words", "code", "sentence"), REFUSED, ids=[words[:40] for words, *_ in REFUSED])
def test_what_is_refused(file: Path, place: Path, words: str, code: int, sentence: str) -> None:
    refused(file, code, sentence, *words.format(mnt=place / "mnt").split())
    assert list((place / "mnt").iterdir()) == []


def test_what_is_refused_because_of_the_environment(file: Path, place: Path) -> None:
    inside = "lies inside the mount point; choose another place"
    refused(file, 6, inside, file, place / "mnt", XDG_STATE_HOME=f"{place}/mnt/inside")
    refused(file, 6, "lies inside the mount point", "-o", "ro", file, place / "mnt", TMPDIR=f"{place}/mnt")
    if not os.path.exists("/dev/log"):
        refused(file, 6, "there is no /dev/log", file, place / "mnt", "-o", "log=syslog")


def test_mount_points_in_use(file: Path, tmp_path: Path) -> None:
    other = put(tmp_path, file.read_bytes(), "other.asdf")
    with mounted(file) as mount:
        refused(other, 6, "already mounted; run: asdffs umount ", other, mount.point)
        (mount.point / "inside").mkdir()
        sentence = "lies inside another asdffs mount; choose a directory outside"
        refused(other, 6, sentence, other, mount.point / "inside")
        (mount.point / "inside").rmdir()


def test_a_file_inside_a_mount(file: Path, tmp_path: Path) -> None:
    """Scratch is a file like others; its journal and lock work there too."""
    with mounted(file) as mount:
        inner = mount.point / "inner.asdf"
        inner.write_bytes(file.read_bytes())
        with mounted(inner, at=tmp_path / "mnt2", environment=mount.environment) as second:
            second.edit()
        check_saved(inner, 2)
        inner.unlink()


@contextlib.contextmanager
def bound_read_only(folder: Path, target: Path) -> Iterator[None]:
    target.mkdir(exist_ok=True)
    assert run("mount", "--bind", folder, target).returncode == 0
    try:
        assert run("mount", "-o", "remount,bind,ro", target).returncode == 0
        yield
    finally:
        run("umount", "-l", target)


@needs_root
def test_read_only_directory(file: Path, tmp_path: Path) -> None:
    inside, shown = tmp_path / "inside", tmp_path / "shown"
    inside.mkdir()
    file.rename(inside / file.name)
    with (
        bound_read_only(inside, shown),
        mounted(shown / file.name, at=tmp_path / "mnt", environment=environment_in(tmp_path)) as mount,
    ):
        assert "cannot be written; mounting read-only" in mount.said
        assert mount.block(1).read_bytes() == MASK
        assert not stat.S_IMODE(mount.tree.stat().st_mode) & 0o222
    assert os.listdir(inside) == [file.name]


@pytest.mark.parametrize("kind", ["truncated", "corrupt"])
def test_a_damaged_block_leaves_the_rest(file: Path, kind: str) -> None:
    blocks = [block_bytes(DATA), block_bytes(MASK), *([block_bytes(b"three")] if kind == "corrupt" else [])]
    raw = odd_file(padding=b" " * 500, blocks=blocks)
    second = raw.find(MAGIC, raw.find(MAGIC) + 4)
    damaged = raw[: second + 60] if kind == "truncated" else raw[:second] + b"XXXX" + raw[second + 4 :]
    file.write_bytes(damaged)
    with mounted(file) as mount:
        assert mount.block(0).read_bytes() == DATA
        for mode in ("rb", "r+b"):
            with pytest.raises(OSError, match="Input/output error"), open(mount.block(1), mode) as block:
                block.read()
            assert "block 1" in mount.error
            assert kind == "corrupt" or "ends inside" in mount.error
        mount.edit()
    assert file.read_bytes() == damaged.replace(b"value: 1\n", b"value: 2\n")


@pytest.mark.parametrize("kind", [name for name in ODD_FILES if "index" in name])
def test_a_lying_index(file: Path, kind: str) -> None:
    file.write_bytes(ODD_FILES[kind])
    with mounted(file) as mount:
        assert [mount.block(number).read_bytes() for number in range(2)] == [DATA, MASK]
    assert file.read_bytes() == ODD_FILES[kind]


def test_names_that_are_not_utf8(file: Path, tmp_path: Path) -> None:
    odd, point = (tmp_path / os.fsdecode(name) for name in (b"d\xe9j\xe0.asdf", b"mount\xff"))
    file.rename(odd)
    with mounted(odd, at=point, code=7) as mount:
        assert mount.said == ""
        name = point / os.fsdecode(b"scr\xe4tch.txt")
        name.write_bytes(b"kept")
        assert name.name in os.listdir(point)
        assert name.read_bytes() == b"kept"
        with pytest.raises(OSError, match="Bad message"):
            mount.tree.write_bytes(b"x")
    assert "Traceback" not in mount.umount.stderr
    assert (tmp_path / os.fsdecode(b"d\xe9j\xe0.asdf.leftover") / name.name).read_bytes() == b"kept"
    done = asdffs("mount", tmp_path / os.fsdecode(b"\xff\xfe"), point, environment=mount.environment)
    assert (done.returncode, "Traceback" in done.stderr) == (3, False)


def test_a_tree_that_is_not_utf8(file: Path) -> None:
    """It is served as it is; a save must be UTF-8."""
    file.write_bytes(BAD_UTF8_FILE)
    with mounted(file) as mount:
        text = mount.tree.read_bytes()
        assert text in BAD_UTF8_FILE
        with pytest.raises(OSError, match="Bad message"):
            mount.edit()
        assert "not UTF-8" in mount.error
        assert file.read_bytes() == BAD_UTF8_FILE
        mount.tree.write_bytes(text.replace(b"value: 1", b"value: 2").replace(b"caf\xe9", "café".encode()))
        assert b"value: 2" in file.read_bytes()
    assert "corrected later, is kept" in mount.umount.stderr


def test_a_refusal_that_names_odd_bytes(file: Path) -> None:
    with mounted(file) as mount:
        folder = mount.point / os.fsdecode(b"z\xff")
        (folder / "k").mkdir(parents=True)
        with pytest.raises(OSError, match="not empty"):
            folder.rmdir()
        assert b"z\xff" in (mount.point / ".asdffs/error").read_bytes()
        (folder / "k").rmdir()
        folder.rmdir()


def test_a_path_of_4000_characters(file: Path, tmp_path: Path) -> None:
    folder = tmp_path
    while len(str(folder)) < 3800:
        folder /= "d" * min(200, 3801 - len(str(folder)))
    os.makedirs(folder)
    far = file.rename(folder / ("f" * 100))
    with mounted(far, at=folder / ("m" * 100), environment=environment_in(tmp_path)) as mount:
        mount.edit()
    check_saved(far, 2)


def test_mount_point_vanishing(file: Path) -> None:
    """Its directory is removed where nothing is mounted on it: the kernel takes the mount away."""
    if run("unshare", "-m", "true").returncode != 0:
        pytest.skip("no right to make a mount namespace")
    with mounted(file, code=6) as mount:
        mount.block(1).write_bytes(MASK[::-1])
        assert run("unshare", "-m", "sh", "-c", f"umount {mount.point} && rmdir {mount.point}").returncode == 0
        wait_for(mount.pid)
        assert not mount.point.exists()
        assert MASK[::-1] in file.read_bytes()


def test_disk_full_at_mount(tmp_path: Path) -> None:
    with filesystem("tmpfs", tmp_path, 64 << 10) as full:
        file = full / "data.asdf"
        file.write_bytes(odd_file())
        before, filler, environment = file.read_bytes(), fill(full), environment_in(tmp_path)
        (tmp_path / "mnt").mkdir()
        done = asdffs("mount", file, tmp_path / "mnt", environment=environment)
        assert done.returncode == 8
        assert "No space left on device; make room, or mount with -o ro" in done.stderr
        assert sorted(path.name for path in full.iterdir()) == ["data.asdf", filler.name]
        with mounted(file, "-o", "ro", at=tmp_path / "mnt", environment=environment) as mount:
            assert mount.block(0).read_bytes() == DATA
        assert file.read_bytes() == before


@needs_root
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
def test_fuse_device(file: Path, place: Path, script: str, sentence: str) -> None:
    """In a mount namespace whose /dev has what ``script`` makes."""
    before, command = file.read_bytes(), f"{sys.executable} -m asdffs mount {file} {place}/mnt"
    setup = "mount -t tmpfs tmpfs /dev && mknod -m 666 /dev/null c 1 3 && mknod -m 666 /dev/urandom c 1 9"
    done = in_own_namespace(f"{setup} && {script.format(command=command)}", place)
    assert (done.returncode, len(done.stderr.splitlines())) == (6, 1), done.stderr
    assert sentence in done.stderr
    assert file.read_bytes() == before


@needs_root
def test_fusermount_missing(file: Path, place: Path) -> None:
    """Only root can do without it: libfuse would say so in its own words, and only after the daemon has started."""
    code = (
        "import asdffs.cli.main, asdffs.cli.commands.mount, locale, os, shutil, sys; os.seteuid(65534); "
        "os.environ['PATH'] = '/nowhere'; asdffs.cli.commands.mount._HELPER_PLACES = (); "
        "sys.exit(asdffs.cli.main.main(sys.argv[1:]))"
    )
    package = os.path.dirname(asdffs_package.__file__)
    if run("setpriv", "--reuid=65534", "--clear-groups", "ls", package).returncode != 0:
        pytest.skip(f"{package} cannot be read by other users")
    place.chmod(0o777)
    for folder in (place, *place.parents):
        if str(folder).startswith("/tmp/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    done = run(sys.executable, "-c", code, "mount", file, place / "mnt", env=environment_in(place))
    assert done.returncode == 6, done.stderr
    assert "fusermount3" in done.stderr
    assert "apt install fuse3" in done.stderr


def test_umount_where_nothing_is_mounted(tmp_path: Path) -> None:
    done = asdffs("umount", tmp_path, environment=environment_in(tmp_path))
    assert (done.returncode, len(done.stderr.splitlines())) == (6, 1)
    assert "no asdffs mount is there" in done.stderr
