"""Growth on real file systems: which strategy, what survives it, what a full disk or a limit leaves."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from pathlib import Path

import pytest
from support.arrays import tree_file
from support.filesystems import KINDS, filesystem, fill
from support.mounts import ASDFFS, Mounted, asdffs, environment_in, lazily_unmount, mounted, run
from support.samples import DATA, MASK, block_bytes, check_saved, odd_file, opened, put, zlib_block

pytestmark = [pytest.mark.long, pytest.mark.mount]

ALL = [*KINDS, "tmpfs"]
#: File system -> strategy for a file with one name, and with several ('': it cannot grow).
CHOSEN = {
    "ext4": ("insert", "insert"),
    "xfs": ("clone", "insert"),
    "btrfs": ("clone", ""),
    "tmpfs": ("copy", ""),
}
MEGABYTE = bytes(range(256)) * 4096


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path):
    with filesystem(request.param, tmp_path) as point:
        yield point


def grow_tree(mount: Mounted, value: int = 2, size: int = 9000) -> None:
    text = mount.tree.read_bytes()
    start = text.index(b"value: ")
    stop = text.index(b"\n", start)
    mount.tree.write_bytes(text[:start] + b"value: %d\nlong%d: " % (value, value) + b"x" * size + text[stop:])


def on(place: Path, tmp_path: Path, whole: bytes) -> Path:
    """The file on the file system, the mount point elsewhere."""
    path = put(place, whole)
    link = tmp_path / "data.asdf"
    link.symlink_to(path)
    return link


GROWING = [(kind, names) for kind in ALL for names in (1, 2) if CHOSEN[kind][names - 1]]


@pytest.mark.parametrize(("place", "names"), GROWING, indirect=["place"])
def test_the_cheapest_means_is_chosen(place: Path, tmp_path: Path, names: int) -> None:
    """And all that belongs to the file survives: names, mode, owner, ACL, attributes, holes."""
    kind = place.name.removeprefix("on-")
    hole = block_bytes(MEGABYTE + bytes(16 << 20) + MEGABYTE)
    link = on(place, tmp_path, odd_file(blocks=[block_bytes(DATA), block_bytes(MASK), hole]))
    path = place / "data.asdf"
    run("fallocate", "--dig-holes", path)
    path.chmod(0o640)
    os.chown(path, 12, 34)
    os.setxattr(path, "user.note", b"keep me")
    run("setfacl", "-m", "u:65534:r", path)
    access = run("getfacl", "-cp", path).stdout
    assert "user:nobody:r--" in access
    if names == 2:
        os.link(path, place / "other")
    inode = path.stat().st_ino
    with mounted(link) as mount:
        grow_tree(mount)
        assert mount.status["growth"] == CHOSEN[kind][names - 1]
        assert (path.stat().st_ino == inode) == (CHOSEN[kind][names - 1] == "insert")
        facts = json.loads(asdffs("info", "--json", link, environment=mount.environment).stdout)
        assert facts["mount"]["growth"] == CHOSEN[kind][names - 1]
        with open(mount.block(0), "ab", buffering=0) as file:
            file.write(MEGABYTE)
        assert mount.block(2).read_bytes() == MEGABYTE + bytes(16 << 20) + MEGABYTE
        assert mount.block(1).read_bytes() == MASK
    status = path.stat()
    assert (status.st_mode & 0o777, status.st_uid, status.st_gid) == (0o640, 12, 34)
    assert os.getxattr(path, "user.note") == b"keep me"
    assert run("getfacl", "-cp", path).stdout == access
    assert link.is_symlink()
    assert status.st_nlink == names
    assert status.st_blocks * 512 < 10 << 20, "the hole is still one"
    with opened(path) as found:
        assert found["value"] == 2
        assert found["mask"][:].tobytes() == MASK
    assert asdffs("check", path, environment=environment_in(tmp_path)).returncode == 0


@pytest.mark.parametrize("place", ["btrfs", "tmpfs"], indirect=True)
def test_no_room_without_clone_insert_and_copy(place: Path, tmp_path: Path) -> None:
    """A file with several names: the save is refused, the error says why and what to do, and the text is kept."""
    link = on(place, tmp_path, odd_file())
    os.link(place / "data.asdf", place / "other")
    with mounted(link, code=7) as mount:
        with pytest.raises(OSError, match="File too large"):
            grow_tree(mount)
        for reason in ("clone: ", "insert: ", "copy: it has several names", "repack can grow"):
            assert reason in mount.error
    check_saved(place / "data.asdf", 1)


@pytest.mark.parametrize("place", ["ext4", "xfs", "btrfs"], indirect=True)
@pytest.mark.parametrize("growth", ["auto", "copy"])
def test_many_growths_one_after_the_other(place: Path, tmp_path: Path, growth: str) -> None:
    """Tree and blocks in turn, on files whose first block lies anywhere."""
    blocks = [os.urandom(5000 + 777 * number) for number in range(4)]
    link = on(place, tmp_path, odd_file(blocks=[block_bytes(block) for block in blocks], padding=b" " * 123))
    with mounted(link, "-o", f"growth={growth}") as mount:
        for number in range(8):
            target = number % 4
            more = os.urandom(700_000 + number)
            with open(mount.block(target), "ab", buffering=0) as file:
                file.write(more)
            blocks[target] += more
            grow_tree(mount, 10 + number, 3000 + 1111 * number)
            assert [mount.block(n).read_bytes() for n in range(4)] == blocks
    raw = (place / "data.asdf").read_bytes()
    assert all(block in raw and hashlib.md5(block).digest() in raw for block in blocks)
    done = asdffs("check", place / "data.asdf", environment=environment_in(tmp_path))
    assert "index" not in done.stdout


@pytest.mark.parametrize("place", ALL, indirect=True)
def test_a_disk_that_fills_up_in_the_middle_of_a_copy(place: Path, tmp_path: Path) -> None:
    """``cp big blocks/0001.bin`` gets ENOSPC; the file stays whole, and goes on once there is room."""
    link = on(place, tmp_path, odd_file(blocks=[block_bytes(DATA), block_bytes(MASK), block_bytes(b"third")]))
    big = put(tmp_path, os.urandom(1 << 20) * 40, "big")
    ballast = place / "ballast"
    with mounted(link, code=None) as mount:
        free = shutil.disk_usage(place).free
        run("fallocate", "-l", free - (20 << 20), ballast)
        done = run("cp", big, mount.block(1))
        assert done.returncode != 0
        assert "No space left" in done.stderr
        assert mount.block(0).read_bytes() == DATA
        assert mount.block(2).read_bytes() == b"third"
        size = mount.block(1).stat().st_size
        assert mount.block(1).read_bytes() == big.read_bytes()[:size]
        with opened(place / "data.asdf") as found:
            assert found["data"][:].tobytes() == DATA
        ballast.unlink()
        if mount.status["growth"] != "copy":
            done = run("cp", big, mount.block(1))
            assert done.returncode == 0, done.stderr
            assert mount.block(1).read_bytes() == big.read_bytes()
    assert mount.umount.returncode == 0, mount.umount.stderr
    assert asdffs("check", place / "data.asdf", environment=environment_in(tmp_path)).returncode == 0


@pytest.mark.parametrize("place", ["ext4", "xfs", "tmpfs"], indirect=True)
def test_a_save_that_fits_works_on_a_full_disk(place: Path, tmp_path: Path) -> None:
    """The journal has its room from the start; one that does not fit is refused and kept."""
    link = on(place, tmp_path, odd_file(padding=b" " * 900))
    with mounted(link, code=7) as mount:
        run("dd", "if=/dev/zero", f"of={place}/ballast", "bs=1M")
        run("dd", "if=/dev/zero", f"of={place}/ballast2", "bs=4k")
        text = mount.tree.read_bytes()
        mount.tree.write_bytes(text.replace(b"value: 1\n", b"value: 2\n" + b"# longer\n" * 80))
        with pytest.raises(OSError, match="No space left"):
            grow_tree(mount, 3, 3 << 20)
        assert b"value: 2\n" in (mount.point / ".asdffs/committed.yaml").read_bytes()
        mount.tree.write_bytes(text.replace(b"value: 1\n", b"value: 2\n"))
        os.unlink(place / "ballast")
    check_saved(place / "data.asdf", 2)


def test_without_room_for_the_journal_nothing_is_written(tmp_path: Path) -> None:
    """Unless the user does without one."""
    with filesystem("tmpfs", tmp_path) as place:
        run("mount", "-o", "remount,nr_inodes=2", place)
        path = put(place, odd_file(padding=b" " * 900))
        point, environment = tmp_path / "mnt", environment_in(tmp_path)
        point.mkdir()
        done = asdffs("mount", path, point, environment=environment)
        assert (done.returncode, "nojournal" in done.stderr) == (8, True)
        with mounted(path, "-o", "nojournal", at=point, environment=environment, code=None) as mount:
            mount.edit()
            with pytest.raises(OSError, match="No space left|File too large"):
                mount.edit(b"value: 2\n", b"value: 3\n" + b"# x\n" * 900)
            mount.tree.write_bytes((point / ".asdffs/committed.yaml").read_bytes())
        assert mount.umount.returncode in (7, 8)
        check_saved(path, 2)


def test_a_limit_on_file_sizes_reaches_the_tool(tmp_path: Path) -> None:
    """RLIMIT_FSIZE of the daemon: a short write, then EFBIG."""
    path, point, environment = tmp_path / "data.asdf", tmp_path / "mnt", environment_in(tmp_path)
    path.write_bytes(odd_file(padding=b" " * 900))
    point.mkdir()
    limited = ["prlimit", "--fsize=200000", *ASDFFS, "mount", path, point]
    done = run(*limited, env=environment)
    assert done.returncode == 0, done.stderr
    try:
        for name in ("0001.bin", "0000.bin"):
            with pytest.raises(OSError, match="too large"), open(point / "blocks" / name, "ab", buffering=0) as file:
                file.write(bytes(3 << 20)) and file.write(bytes(3 << 20))  # the first writes what still fits
        tree = point / "tree.yaml"
        tree.write_bytes(tree.read_bytes().replace(b"value: 1\n", b"value: 2\n"))
        assert asdffs("umount", point, environment=environment).returncode == 0
    finally:
        lazily_unmount(point)
    assert asdffs("check", path, environment=environment).returncode == 0
    with opened(path) as found:
        assert found["value"] == 2
        assert found["data"][:].tobytes() == DATA
        assert found["mask"][:40].tobytes() == MASK


SIZE = 600_000
BODY = "a: !core/ndarray-1.0.0 {source: 0, datatype: uint8, byteorder: big, shape: [600000]}\n"


@pytest.mark.parametrize("state_is_full", [True, False])
def test_what_was_written_comes_back(tmp_path: Path, state_is_full: bool) -> None:
    """The disk is full from before a block is stored to after the unmount; ``state_is_full``: of the spool, too."""
    new = random.Random(4).randbytes(SIZE)
    with filesystem("ext4", tmp_path, 16 << 20) as disk:
        path = put(disk, tree_file(BODY, [zlib_block(bytes(SIZE)), zlib_block(b"next")]))
        options = [] if state_is_full else ["-o", f"spool={tmp_path}"]
        with mounted(path, *options, code=8) as mount:
            file = os.open(mount.block(0), os.O_RDWR)
            assert os.pwrite(file, new, 0) == SIZE
            filler = fill(disk)
            for store in (os.fsync, os.close):
                with pytest.raises(OSError, match="No space left"):
                    store(file)
            assert mount.block(0).read_bytes() == new
        assert mount.umount is not None
        assert "brings it back" in mount.umount.stderr
        filler.unlink()
        done = asdffs("recover", path, environment=mount.environment)
        assert done.returncode == 7, done.stderr
        assert (disk / "data.asdf.unsaved-1.block-0000.bin").read_bytes() == new
        assert asdffs("check", "--deep", path, environment=mount.environment).returncode == 0
