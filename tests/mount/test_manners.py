"""POSIX manners: what find, du, tar, cp -a, rsync, locks, sparse reads and odd flags expect of a file system."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shlex
import stat
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.daf_stores import DATA_ONLY
from support.mounts import ASDFFS, Mounted, asdffs, environment_in, mounted, run
from support.namespaces import in_own_namespace
from support.samples import DATA, MASK, block_bytes, check_saved, odd_file, opened, put

pytestmark = pytest.mark.mount


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = put(tmp_path, odd_file(padding=b" " * 500))
    path.chmod(0o640)
    return path


@pytest.fixture
def mount(file: Path) -> Iterator[Mounted]:
    with mounted(file) as mount:
        yield mount


def test_stat(mount: Mounted, file: Path) -> None:
    backing = file.stat()
    for path, size in ((mount.tree, len(mount.tree.read_bytes())), (mount.block(0), 100), (mount.block(1), 40)):
        found = path.stat()
        assert stat.S_ISREG(found.st_mode)
        assert (stat.S_IMODE(found.st_mode), found.st_nlink, found.st_size) == (0o640, 1, size)
        assert found.st_blocks == -(-size // 512)
        assert (found.st_uid, found.st_gid, found.st_mtime_ns) == (
            backing.st_uid,
            backing.st_gid,
            backing.st_mtime_ns,
        )
    assert mount.point.stat().st_nlink == 6, "itself, its name, arrays, blocks, exploded and .asdffs"
    assert (mount.point / ".asdffs").stat().st_nlink == 4
    assert (mount.point / "blocks").stat().st_nlink == 2
    assert stat.S_IMODE(mount.point.stat().st_mode) == 0o750
    assert stat.S_IMODE((mount.point / ".asdffs/status.json").stat().st_mode) == 0o440


def test_statfs_is_the_backing_file_system(mount: Mounted, file: Path) -> None:
    shown, backing = os.statvfs(mount.point), os.statvfs(file)
    assert (shown.f_blocks, shown.f_bsize, shown.f_namemax) == (backing.f_blocks, backing.f_bsize, 255)


def test_find_du_and_ls(mount: Mounted) -> None:
    found = run("find", mount.point, "-printf", "%y %P\n").stdout.splitlines()
    assert sorted(found) == sorted(
        ["d ", "d .asdffs", "d .asdffs/history", "d .asdffs/rejected", "d arrays", "d blocks", "d exploded"]
        + ["f tree.yaml", *(f"f arrays/{name}.{kind}" for name in ("data", "mask") for kind in ("fits", "npy"))]
        + [f"f exploded/data{number}.asdf" for number in ("", "0000", "0001")]
        + [f"f .asdffs/{name}" for name in ("arrays.json", "committed.yaml", "error", "status.json")]
        + ["f blocks/0000.bin", "f blocks/0001.bin"]
    )
    assert int(run("du", "-sb", mount.point / "blocks").stdout.split()[0]) == 140
    assert int(run("du", "-s", "-B512", mount.block(0)).stdout.split()[0]) == 1
    assert run("ls", "-lR", mount.point).returncode == 0


@pytest.mark.long
def test_copies_by_cp_tar_and_rsync(mount: Mounted, tmp_path: Path) -> None:
    tree = mount.tree.read_bytes()
    assert run("cp", "-a", mount.point, tmp_path / "cp").returncode == 0
    assert run("rsync", "-a", f"{mount.point}/", tmp_path / "rsync").returncode == 0
    assert run("tar", "-S", "-C", mount.point, "-cf", tmp_path / "all.tar", ".").returncode == 0
    (tmp_path / "tar").mkdir()
    with tarfile.open(tmp_path / "all.tar") as archive:
        archive.extractall(tmp_path / "tar", **DATA_ONLY)
    for copy in ("cp", "rsync", "tar"):
        assert (tmp_path / copy / "tree.yaml").read_bytes() == tree
        assert (tmp_path / copy / "blocks/0000.bin").read_bytes() == DATA
        assert (tmp_path / copy / "blocks/0001.bin").read_bytes() == MASK
        assert (tmp_path / copy / "tree.yaml").stat().st_mtime == pytest.approx(mount.tree.stat().st_mtime, abs=1)


@pytest.mark.long
def test_rsync_there_and_back(mount: Mounted, tmp_path: Path, file: Path) -> None:
    """What was copied out comes back, changed; a second time nothing has to be sent."""
    copy = tmp_path / "copy"
    views = [f"--exclude={name}" for name in (".asdffs", "/arrays", "/exploded")]  # other faces of the same bytes
    assert run("rsync", "-a", *views, f"{mount.point}/", copy).returncode == 0
    (copy / "tree.yaml").write_bytes((copy / "tree.yaml").read_bytes().replace(b"value: 1", b"value: 2"))
    (copy / "blocks/0001.bin").write_bytes(MASK[::-1])
    for changed in ("tree.yaml", "blocks/0001.bin"):  # rsync compares whole seconds
        os.utime(copy / changed, (10**9, 10**9))
    assert run("rsync", "-a", f"{copy}/", mount.point).returncode == 0
    again = run("rsync", "-ai", f"{copy}/", mount.point)
    assert [line for line in again.stdout.splitlines() if line.startswith((">f", "<f"))] == []
    run("sync", mount.point)
    with opened(file) as found:
        assert found["value"] == 2
        assert found["mask"][:].tobytes() == MASK[::-1]


def test_rm_r_is_refused_gently(mount: Mounted, file: Path) -> None:
    before = file.read_bytes()
    (mount.point / "scratch").mkdir()
    (mount.point / "scratch/file").write_text("x")
    done = run("rm", "-rf", mount.point / "blocks", mount.point / ".asdffs", mount.point / "scratch")
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert not (mount.point / "scratch").exists()
    assert mount.block(0).read_bytes() == DATA
    assert file.read_bytes() == before


def test_locks(mount: Mounted) -> None:
    code = "import fcntl, sys; f = open(sys.argv[1], 'r+b')"
    code += "; getattr(fcntl, sys.argv[2])(f, fcntl.LOCK_EX | fcntl.LOCK_NB)"
    for kind in ("lockf", "flock"):
        with open(mount.block(0), "r+b") as file:
            getattr(fcntl, kind)(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            assert "BlockingIOError" in run(sys.executable, "-c", code, mount.block(0), kind).stderr
        assert run(sys.executable, "-c", code, mount.block(0), kind).returncode == 0


def test_reads_at_and_past_the_end(mount: Mounted) -> None:
    fd = os.open(mount.block(1), os.O_RDWR)
    assert os.pread(fd, 100, 30) == MASK[30:]
    assert os.pread(fd, 100, 40) == b""
    assert os.pread(fd, 100, 10**15) == b""
    assert os.pwrite(fd, b"", 10**6) == 0
    assert os.fstat(fd).st_size == 40
    assert os.lseek(fd, 0, os.SEEK_END) == 40
    assert os.lseek(fd, 0, os.SEEK_DATA) == 0
    assert os.lseek(fd, 0, os.SEEK_HOLE) == 40
    os.close(fd)


def test_sparse_writes_read_as_zeros(tmp_path: Path) -> None:
    path = put(tmp_path, odd_file(blocks=[block_bytes(DATA), block_bytes(MASK, slack=b"\xaa" * 9000)]))
    with mounted(path) as mount:
        fd = os.open(mount.block(1), os.O_RDWR)
        os.pwrite(fd, b"end", 8000)
        assert os.pread(fd, 9000, 0) == MASK + bytes(8000 - 40) + b"end"
        os.close(fd)
        assert mount.block(1).read_bytes() == MASK + bytes(8000 - 40) + b"end"


def test_append_and_direct_opens(mount: Mounted) -> None:
    fd = os.open(mount.block(1), os.O_WRONLY | os.O_APPEND)
    assert os.write(fd, b"first") + os.write(fd, b"second") == 11
    os.close(fd)
    assert mount.block(1).read_bytes() == MASK + b"firstsecond"
    fd = os.open(mount.block(1), os.O_RDONLY | os.O_DIRECT)
    buffer = ctypes.create_string_buffer(8192)
    start = -ctypes.addressof(buffer) % 4096
    view = memoryview(buffer).cast("B")[start : start + 4096]
    assert os.preadv(fd, [view], 0) == 51
    assert bytes(view[:51]) == MASK + b"firstsecond"
    os.close(fd)


@pytest.mark.long
def test_directories_keep_their_place_while_they_change(mount: Mounted) -> None:
    """readdir goes on where it was, with thousands of entries and some of them removed meanwhile."""
    folder = mount.point / "many"
    folder.mkdir()
    for number in range(2000):
        (folder / f"{number:04d}").touch()
    seen = []
    with os.scandir(folder) as entries:
        for entry in entries:
            seen.append(entry.name)
            if len(seen) == 100:
                for number in range(1500, 2000):
                    (folder / f"{number:04d}").unlink()
    assert len(seen) == len(set(seen))
    assert set(seen) >= {f"{number:04d}" for number in range(1500)}
    assert len(os.listdir(folder)) == 1500
    assert run("rm", "-r", folder).returncode == 0


def test_directories_in_scratch(file: Path) -> None:
    with mounted(file, code=7) as mount:
        deep = mount.point / "a/b/c"
        deep.mkdir(parents=True)
        (deep / "notes").write_bytes(b"kept")
        (mount.point / "a").rename(mount.point / "z")
        assert (mount.point / "z/b/c/notes").read_bytes() == b"kept"
        for name, error in (("z", "not empty"), ("blocks", "not permitted")):
            with pytest.raises(OSError, match=error):
                (mount.point / name).rmdir()
        (mount.point / "empty").mkdir()
        os.rename(mount.point / "empty", mount.point / "other")
        (mount.point / "other").rmdir()
        assert mount.point.stat().st_nlink == 7
    assert (file.parent / "data.asdf.leftover/z/b/c/notes").read_bytes() == b"kept"


def test_regression_empty_files_links_and_empty_directories_vanished(file: Path) -> None:
    dropped = [".lock", "4913", "notes~", "#notes#"]
    with mounted(file, code=7) as mount:
        (mount.point / "empty").touch()
        (mount.point / "link").symlink_to("nowhere/at all")
        (mount.point / "folder/inner").mkdir(parents=True)
        (mount.point / "swap").mkdir()
        (mount.point / "swap/.x.swp").write_bytes(b"of an editor")
        (mount.point / "blocks/flag").touch()
        for name in dropped:
            (mount.point / name).touch()
    kept = file.parent / "data.asdf.leftover"
    assert "5 files are not in the ASDF file" in mount.umount.stderr
    assert sorted(os.listdir(kept)) == ["empty", "flag", "folder", "link", "swap"]
    assert (kept / "empty").read_bytes() == b""
    assert os.readlink(kept / "link") == "nowhere/at all"
    assert os.listdir(kept / "folder") == ["inner"]


@pytest.mark.parametrize("name", [".#lock", "4913", "notes~", "#notes#"])
def test_what_editors_leave_is_dropped(file: Path, name: str) -> None:
    with mounted(file) as mount:
        (mount.point / name).symlink_to("host.1:2")
    assert not file.with_name("data.asdf.leftover").exists()


def test_open_then_unlinked(mount: Mounted) -> None:
    path = mount.point / "gone"
    with open(path, "w+b", buffering=0) as file:
        file.write(b"before")
        path.unlink()
        assert not path.exists()
        file.write(b" and after")
        os.fchmod(file.fileno(), 0o600)
        os.ftruncate(file.fileno(), 12)
        os.utime(file.fileno(), (1, 2))
        assert os.fstat(file.fileno()).st_size == 12
        assert os.fstat(file.fileno()).st_mtime == 2
        os.fsync(file.fileno())
        assert os.pread(file.fileno(), 100, 0) == b"before and a"
    assert [name for name in os.listdir(mount.point) if name.startswith(".fuse")] == []


def test_hard_links(mount: Mounted) -> None:
    """More in test_posix."""
    (mount.point / "one").write_bytes(b"content")
    os.link(mount.point / "one", mount.point / "two")
    (mount.point / "two").write_bytes(b"changed by the other name")
    (mount.point / "two").unlink()
    assert (mount.point / "one").read_bytes() == b"changed by the other name"
    (mount.point / "one").unlink()
    with pytest.raises(OSError, match="not permitted"):
        os.link(mount.block(0), mount.point / "block")


RENAME_EXCHANGE, AT_FDCWD = 2, -100


def test_rename_flags(mount: Mounted) -> None:
    (mount.point / "one").write_bytes(b"1")
    libc = ctypes.CDLL(None, use_errno=True)
    names = [os.fsencode(mount.point / name) for name in ("one", "tree.yaml")]
    assert libc.renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) == -1
    assert ctypes.get_errno() == 22
    assert (mount.point / "one").read_bytes() == b"1"
    (mount.point / "one").unlink()


def test_owner_options(file: Path) -> None:
    with mounted(file, "-o", "uid=12,gid=34,umask=027") as mount:
        found = mount.tree.stat()
        assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (12, 34, 0o640)
        assert stat.S_IMODE(mount.point.stat().st_mode) == 0o750
        (mount.point / ".x").write_bytes(b"")
        assert (mount.point / ".x").stat().st_uid == 12


def test_strict_refuses_what_else_is_a_warning(file: Path) -> None:
    before = file.read_bytes()
    with mounted(file, "-o", "strict", code=7) as mount:
        text = mount.tree.read_bytes()
        with pytest.raises(OSError, match="Bad message"):
            mount.tree.write_bytes(text.replace(b"source: 1", b"source: 7"))
        assert "its source is 7, and the file has 2 blocks" in mount.error
        assert file.read_bytes() == before


def test_pad_says_how_much_room_a_grown_tree_gets(tmp_path: Path) -> None:
    for option, least in (("pad=64K", 65536), ("pad=500%", 4096)):
        path = put(tmp_path, odd_file())
        with mounted(path, "-o", option) as mount:
            text = mount.tree.read_bytes().replace(b"value: 1\n", b"value: 2\n" + b"# room\n" * 100)
            mount.tree.write_bytes(text)
            assert least <= mount.status["padding"] < least + 8192


def test_spool_and_log_go_where_the_options_say(file: Path, tmp_path: Path) -> None:
    spool, log = tmp_path / "big disk", tmp_path / "asdffs.log"
    with mounted(file, "-o", f"spool={spool},log={log}", code=7) as mount:
        assert mount.status["log"] == str(log)
        (mount.point / "scratch").write_bytes(b"here")
        assert [p.read_bytes() for p in spool.rglob("*scratch*")] == [b"here"]
        with pytest.raises(OSError, match="Bad message"):
            mount.tree.write_bytes(b"nonsense")
    assert "refused: line 1" in log.read_text()
    assert f"data.asdf is mounted at {mount.point}" in log.read_text()
    assert "was finished; kept beside it: 2" in log.read_text()
    assert list(spool.rglob("*scratch*")) == []


def test_a_killed_daemons_scratch_is_found_in_its_spool(file: Path, tmp_path: Path) -> None:
    with mounted(file, "-o", f"spool={tmp_path / 'big disk'}", code=6) as mount:
        (mount.point / "notes").write_bytes(b"precious")
        mount.kill()
    with mounted(file) as mount:
        assert "data.asdf.leftover/notes" in mount.said
    assert (tmp_path / "data.asdf.leftover/notes").read_bytes() == b"precious"


def test_the_form_that_fstab_uses(file: Path, tmp_path: Path) -> None:
    point, environment = tmp_path / "mnt", environment_in(tmp_path)
    point.mkdir()
    options = "ro,dev,suid,exec,noatime,user,_netdev,x-systemd.automount"
    done = run(*ASDFFS, file, point, "-o", options, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "fuse.asdffs" in run("findmnt", "-no", "FSTYPE,OPTIONS", point).stdout
    assert run("findmnt", "-no", "OPTIONS", point).stdout.startswith("ro,")
    assert asdffs("umount", point, environment=environment).returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="the mounts of other tests can only be dropped by root")
def test_in_a_user_namespace(file: Path, tmp_path: Path) -> None:
    """As ``unshare -Urm`` gives it: root there, nobody outside."""
    if run("unshare", "-Urm", "true").returncode != 0:
        pytest.skip("no right to make a user namespace")
    point = tmp_path / "mnt"
    point.mkdir()
    script = f"""
        {sys.executable} -m asdffs mount {file} {point} &&
        sed -i 's/value: 1/value: 2/' {point}/tree.yaml && cat {point}/blocks/0001.bin > {tmp_path}/copy &&
        {sys.executable} -m asdffs umount {point}
    """
    done = in_own_namespace(f"unshare -Urm sh -ec {shlex.quote(script)}", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "copy").read_bytes() == MASK
    with opened(file) as found:
        assert found["value"] == 2


def test_history_is_a_ring(file: Path) -> None:
    with mounted(file) as mount:
        text = mount.tree.read_bytes()
        for number in range(2, 14):
            mount.tree.write_bytes(text.replace(b"value: 1\n", b"value: %d\n" % number))
        history = mount.point / ".asdffs/history"
        found = sorted(history.iterdir(), key=lambda path: int(path.stem))
        assert [path.stem for path in found] == [str(n) for n in range(5, 13)]
        assert [path.read_bytes() for path in found] == [
            text.replace(b"value: 1\n", b"value: %d\n" % n) for n in range(5, 13)
        ]
    with mounted(file) as mount:
        assert len(os.listdir(mount.point / ".asdffs/history")) == 8, "it stays for the next mount"


def test_regression_an_open_file_does_not_become_a_block(mount: Mounted) -> None:
    """What it wrote after the rename went nowhere."""
    path = mount.point / "new"
    with open(path, "w+b", buffering=0) as file:
        file.write(b"A" * 40)
        with pytest.raises(OSError, match="busy"):
            os.rename(path, mount.block(1))
    assert mount.block(1).read_bytes() == MASK
    os.rename(path, mount.block(1))
    assert mount.block(1).read_bytes() == b"A" * 40


def test_regression_unlinked_in_a_directory_that_is_gone(mount: Mounted) -> None:
    folder = mount.point / "d"
    folder.mkdir()
    with open(folder / "f", "w+b", buffering=0) as file:
        file.write(b"x" * 1000)
        (folder / "f").unlink()
        folder.rmdir()
        assert os.pread(file.fileno(), 5, 0) == b"xxxxx"
    spool = mount.file.parent / "state"
    run("sync", mount.point)
    assert list(spool.rglob("*-f")) == []


def test_regression_leftovers_of_one_name(file: Path) -> None:
    with mounted(file, code=7) as mount:
        (mount.point / "dd").write_text("1")
        (mount.point / "blocks/dd").mkdir()
        (mount.point / "blocks/dd/x").write_text("2")
    kept = file.parent / "data.asdf.leftover"
    assert sorted(path.read_text() for path in kept.rglob("*") if path.is_file()) == ["1", "2"]


def test_set_in_the_tree_of_a_mount_by_a_relative_path(file: Path) -> None:
    """No warning about blocks, which the tree alone has not; a refused draft names where the reason is."""
    with mounted(file, code=None) as mount:
        tree = f"{mount.point.name}/tree.yaml"
        done = asdffs("set", "value=5", tree, environment=mount.environment, cwd=file.parent)
        assert (done.returncode, done.stderr) == (0, "")
        done = asdffs("repack", tree, environment=mount.environment, cwd=file.parent)
        assert (done.returncode, "is only the tree of a mounted file" in done.stderr) == (2, True)
        good = mount.tree.read_bytes()
        with pytest.raises(OSError, match="Bad message"):
            mount.tree.write_bytes(good.replace(b"value: 5", b"value: [5"))
        done = asdffs("set", "value=6", tree, environment=mount.environment, cwd=file.parent)
        assert done.returncode != 0
        assert ".asdffs/error in it says why" in done.stderr or "did not find expected" in done.stderr
        mount.tree.write_bytes(good)
    check_saved(file, 5)
