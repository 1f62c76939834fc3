"""The mount of a directory: the files as they are, and a directory '.d' for each ASDF file."""

from __future__ import annotations

import contextlib
import errno
import json
import mmap
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import asdf
import numpy as np
import pytest
from support.filesystems import filesystem, fill
from support.mounts import LIMIT, Mounted, asdffs, environment_in, lazily_unmount, logged, mounted, run
from support.processes import until, wait_for
from support.samples import odd_file, write_sample

pytestmark = pytest.mark.mount

SIZE = 5000
QUICK = ("-o", "open_max=3,idle=0.2")


def make(path: Path, *, value: int = 1, fill: int = 0) -> None:
    """An ASDF file with a value and a block of ``SIZE`` bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tree = {"value": value, "data": np.full(SIZE, fill, "u1")}
    new = path.with_suffix(".new")
    asdf.AsdfFile(tree).write_to(new)
    new.rename(path)


def content_of(path: Path) -> tuple[int, bytes]:
    """What the asdf library reads: the value and the block."""
    with asdf.open(path, validate_checksums=True, memmap=False) as file:
        return file["value"], bytes(file["data"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "archive"
    make(place / "a.asdf", value=1, fill=1)
    make(place / "sub" / "b.asdf", value=2, fill=2)
    (place / "notes.txt").write_text("hello\n")
    return place


@pytest.fixture
def archive(folder: Path) -> Iterator[Mounted]:
    with mounted(folder, "-o", "idle=0.5", code=None) as mount:
        yield mount


def documents(mount: Mounted) -> list[str]:
    """Paths of the documents that are open, below the directory."""
    facts = json.loads((mount.point / ".asdffs" / "status.json").read_text())
    return [os.path.relpath(one["file"], mount.file) for one in facts["documents"]]


def listing(place: Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in place.rglob("*"))


# -- looking -----------------------------------------------------------------------------


def test_the_tree_is_shown_as_it_is(archive: Mounted) -> None:
    found = run("find", archive.point).stdout.splitlines()
    shown = {os.path.relpath(path, archive.point) for path in found} - {"."}
    assert shown - {".asdffs", ".asdffs/status.json", ".asdffs/error"} == {*listing(archive.file)}
    for path in archive.file.rglob("*"):
        ours, there = os.lstat(archive.point / path.relative_to(archive.file)), os.lstat(path)
        assert stat.S_IFMT(ours.st_mode) == stat.S_IFMT(there.st_mode)
        assert (ours.st_mtime_ns, ours.st_uid) == (there.st_mtime_ns, there.st_uid)
    assert content_of(archive.point / "sub" / "b.asdf") == (2, bytes([2]) * SIZE)
    assert (archive.point / "notes.txt").read_text() == "hello\n"


def test_nothing_is_opened_by_looking_outside(archive: Mounted) -> None:
    for words in (["ls", "-lR"], ["du"], ["grep", "-r", "value"], ["find"]):
        assert run(*words, archive.point).returncode == 0
    assert (archive.point / "a.asdf.d").is_dir()
    assert os.listxattr(archive.point / "a.asdf.d") == []
    assert content_of(archive.point / "a.asdf")[0] == 1
    assert documents(archive) == []
    assert not list(archive.file.rglob("*journal"))
    assert sorted(os.listdir(archive.point / "a.asdf.d")) == [".asdffs", "arrays", "blocks", "exploded", "tree.yaml"]
    assert documents(archive) == ["a.asdf"]


def test_a_document_is_what_a_mount_of_the_file_shows(folder: Path) -> None:
    write_sample(folder / "a.asdf")
    (folder / "sub" / "b.asdf").write_bytes(odd_file())
    for name in ("a.asdf", "sub/b.asdf"):
        with mounted(folder, "-o", "ro") as archive:
            there = _all_of(archive.point / f"{name}.d")
        with mounted(folder / name, "-o", "ro") as alone:
            assert _all_of(alone.point) == there


def _all_of(place: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(place.rglob("*")):
        if path.name == "status.json":
            continue
        facts = path.stat()
        content = None if path.is_dir() else path.read_bytes()
        found[str(path.relative_to(place))] = (facts.st_mode, facts.st_size, facts.st_mtime_ns, content)
    return found


def test_inode_numbers_are_unique_and_stay(folder: Path) -> None:
    def numbers(mount: Mounted) -> dict[str, int]:
        return {str(path.relative_to(mount.point)): path.lstat().st_ino for path in mount.point.rglob("*")}

    (folder / "link.asdf").symlink_to("a.asdf")
    with mounted(folder, *QUICK, "-o", "explode=always") as mount:
        for place, *_ in os.walk(mount.point):  # the first listing, which has the numbers without attributes
            listed = {entry.path: entry.inode() for entry in os.scandir(place)}
            assert listed == {path: os.lstat(path).st_ino for path in listed}
        first = numbers(mount)
        assert any("/tree.yaml" in name for name in first)
        until(lambda: documents(mount) == [])
        assert numbers(mount) == first
    assert len({*first.values()}) == len(first)


def test_what_appears_and_vanishes_is_seen(archive: Mounted) -> None:
    make(archive.file / "new.asdf", value=9)
    assert b"value: 9" in (archive.point / "new.asdf.d" / "tree.yaml").read_bytes()
    assert "new.asdf" in os.listdir(archive.point)
    (archive.file / "new.asdf").unlink()
    assert not (archive.point / "new.asdf").exists()
    until(lambda: not (archive.point / "new.asdf.d").exists())
    assert "new.asdf" not in os.listdir(archive.point)


@pytest.mark.parametrize("explode", ["always", "named", "never"])
def test_where_the_directories_of_documents_are_shown(folder: Path, explode: str) -> None:
    """In listings, only by name, or nowhere.  A link to a directory has none, whatever its name is."""
    (folder / "link.asdf").symlink_to("a.asdf")
    (folder / "directory.asdf").symlink_to("sub")
    with mounted(folder, "-o", f"explode={explode}") as mount:
        for _ in range(2):  # also when the kernel knows the name
            shown = {"a.asdf.d", "link.asdf.d"} & {*os.listdir(mount.point)}
            assert shown == ({"a.asdf.d", "link.asdf.d"} if explode == "always" else set())
            for name in ("a.asdf.d", "link.asdf.d"):
                assert os.path.lexists(mount.point / name) == (explode != "never")
                assert (mount.point / name / "tree.yaml").exists() == (explode != "never")
        assert not os.path.lexists(mount.point / "directory.asdf.d")
        assert "directory.asdf.d" not in os.listdir(mount.point)
        assert len(documents(mount)) == (explode != "never")


def test_as_many_documents_stay_open_as_memory_takes(folder: Path) -> None:
    """A scan of 200 small files keeps them all; beside four large ones, eight files stay in all."""
    for number in range(200):
        make(folder / f"{number:03d}.asdf")
    for name in "wxyz":
        text = b"a: " + b"1" * 7_000_000
        (folder / f"{name}.asdf").write_bytes(b"#ASDF 1.0.0\n%YAML 1.1\n---\n" + text + b"\n...\n")
    with mounted(folder, "-o", "ro,idle=86400") as mount:
        for number in range(200):
            (mount.point / f"{number:03d}.asdf.d/tree.yaml").read_bytes()
        assert len(documents(mount)) == 200
        for name in "wxyz":
            (mount.point / f"{name}.asdf.d/tree.yaml").stat()
        until(lambda: len(documents(mount)) == 8)
        assert documents(mount)[-4:] == ["w.asdf", "x.asdf", "y.asdf", "z.asdf"]


def test_the_kernel_reads_whole_files_itself(folder: Path) -> None:
    """All opens of a file, an mmap, and a file that takes its place; the document beside it is served as always."""
    want = (folder / "a.asdf").read_bytes()
    with mounted(folder, "-o", "passthrough,idle=0.5", code=None) as mount:
        told = json.loads((mount.point / ".asdffs/status.json").read_text())["passthrough"]
        if os.geteuid() or told != "on":
            pytest.skip("needs root")
        shown = mount.point / "a.asdf"
        with shown.open("rb") as first, shown.open("rb") as second:
            assert first.read() == second.read() == want
            with mmap.mmap(first.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                assert mapped[:] == want
            told = json.loads((mount.point / ".asdffs/status.json").read_text())["passthrough"]
            make(folder / "a.asdf", value=3, fill=3)
            assert content_of(shown) == (3, bytes([3]) * SIZE)
            first.seek(0)
            assert first.read() == want, "it is the file that was opened"
        assert shown.read_bytes() == (folder / "a.asdf").read_bytes()
        assert (mount.point / "a.asdf.d/blocks/0000.bin").read_bytes() == bytes([3]) * SIZE
    assert told in ("on", "off: Operation not permitted", "off: Too many levels of symbolic links"), told


def test_links_lead_to_the_document_of_their_file(folder: Path) -> None:
    (folder / "link.asdf").symlink_to("a.asdf")
    (folder / "loop").symlink_to("loop")
    (folder / "up").symlink_to("..")
    with mounted(folder) as mount:
        assert os.readlink(mount.point / "link.asdf.d") == "a.asdf.d"
        assert b"value: 1" in (mount.point / "link.asdf.d" / "tree.yaml").read_bytes()
        assert documents(mount) == ["a.asdf"]
        assert os.readlink(mount.point / "loop") == "loop"
        with pytest.raises(OSError, match="Too many levels"):
            (mount.point / "loop").stat()


def test_odd_names_and_files(folder: Path) -> None:
    odd = os.fsencode(folder) + b"/b\xff\nad.ASDF"
    shutil.copy(folder / "a.asdf", odd)
    (folder / "broken.asdf").write_bytes(b"nonsense")
    (folder / "dir.asdf").mkdir()
    (folder / "taken.asdf.d").mkdir()
    make(folder / "taken.asdf")
    os.mkfifo(folder / "pipe.asdf")
    make(folder / ".asdffs" / "hidden.asdf")
    with mounted(folder) as mount:
        assert (
            b"value: 1" in Path(os.fsdecode(os.fsencode(mount.point) + b"/b\xff\nad.ASDF.d/tree.yaml")).read_bytes()
        )
        with pytest.raises(OSError, match="Input/output"):
            os.listdir(mount.point / "broken.asdf.d")
        assert "not an ASDF file" in mount.error
        names = os.listdir(mount.point)
        assert not {"dir.asdf.d", "pipe.asdf.d"} & {*names}
        assert names.count(".asdffs") == names.count("taken.asdf.d") == 1
        assert os.listdir(mount.point / "taken.asdf.d") == []
        assert sorted(os.listdir(mount.point / ".asdffs")) == ["error", "status.json"]
        assert stat.S_ISFIFO((mount.point / "pipe.asdf").lstat().st_mode)


def test_the_directory_itself_cannot_be_changed(archive: Mounted) -> None:
    attempts: list[Callable[[], object]] = [
        lambda: (archive.point / "new").write_text("x"),
        lambda: (archive.point / "new").mkdir(),
        lambda: (archive.point / "a.asdf").unlink(),
        lambda: (archive.point / "a.asdf").rename(archive.point / "c.asdf"),
        lambda: (archive.point / "a.asdf").write_bytes(b""),
        lambda: os.truncate(archive.point / "a.asdf", 0),
        lambda: (archive.point / "a.asdf").chmod(0o600),
        lambda: os.utime(archive.point / "a.asdf"),
        lambda: os.symlink("x", archive.point / "new"),
        lambda: os.setxattr(archive.point / "a.asdf", "user.x", b""),
    ]
    for attempt in attempts:
        with pytest.raises(OSError, match="Read-only file system"):
            attempt()
    assert "read-only" in archive.error
    assert content_of(archive.file / "a.asdf")[0] == 1


# -- changing ----------------------------------------------------------------------------


def test_edits_locks_and_conflicts_as_in_a_mount_of_the_file(archive: Mounted) -> None:
    tree = archive.point / "a.asdf.d" / "tree.yaml"
    tree.write_bytes(tree.read_bytes().replace(b"value: 1", b"value: 7"))
    with pytest.raises(OSError, match="Bad message"):
        tree.write_bytes(b"nonsense")
    assert "line 1" in archive.error
    assert archive.error.startswith(str(archive.file / "a.asdf"))
    done = asdffs("set", "value=3", archive.file / "a.asdf", environment=archive.environment)
    assert done.returncode == 5
    assert f"a program uses it in the mounted archive, in {archive.point}/a.asdf.d;" in done.stderr
    assert content_of(archive.file / "a.asdf")[0] == 7
    ended = asdffs("umount", archive.point, environment=archive.environment)
    assert ended.returncode == 7
    assert "a.asdf.rejected-1.yaml" in ended.stderr
    assert (archive.file / "a.asdf.rejected-1.yaml").read_bytes() == b"nonsense"


def test_another_programs_change_is_seen_and_not_overwritten(archive: Mounted) -> None:
    tree, block = archive.point / "a.asdf.d" / "tree.yaml", archive.point / "a.asdf.d" / "blocks" / "0000.bin"
    assert block.read_bytes() == bytes([1]) * SIZE
    make(archive.file / "a.asdf", value=5, fill=5)
    assert b"value: 5" in tree.read_bytes()
    assert block.read_bytes() == bytes([5]) * SIZE
    with open(block, "r+b") as file:
        file.write(b"mine")
    make(archive.file / "a.asdf", value=6, fill=6)
    with pytest.raises(OSError, match="Stale"):
        tree.write_bytes(tree.read_bytes().replace(b"value", b"other"))
    assert content_of(archive.file / "a.asdf") == (6, bytes([6]) * SIZE)
    assert [path.name for path in archive.file.glob("*conflict*")] == ["a.asdf.conflict-1.block-0000.bin"]


def test_names_do_not_cross_documents(archive: Mounted) -> None:
    one, two = archive.point / "a.asdf.d", archive.point / "sub" / "b.asdf.d"
    (one / "scratch").write_text("x")
    for target in (two / "scratch", archive.point / "scratch"):
        with pytest.raises(OSError, match="Invalid cross-device link"):
            (one / "scratch").rename(target)
        with pytest.raises(OSError, match="Invalid cross-device link|Read-only"):
            os.link(one / "scratch", target)
    (one / "scratch").unlink()


def test_sync_finishes_all(archive: Mounted) -> None:
    for name in ("a.asdf.d", "sub/b.asdf.d"):
        with open(archive.point / name / "blocks" / "0000.bin", "r+b") as file:
            file.write(b"mine")
    assert run("sync", archive.point).returncode == 0
    for name in ("a.asdf", "sub/b.asdf"):
        assert content_of(archive.file / name)[1][:4] == b"mine"  # the checksum fits, too


def test_the_least_recently_used_and_the_idle_are_closed(folder: Path) -> None:
    for number in range(6):
        make(folder / f"{number}.asdf", value=number)
    with mounted(folder, "-o", "open_max=3,idle=86400") as mount:
        for number in range(6):
            (mount.point / f"{number}.asdf.d" / "tree.yaml").read_bytes()
        assert documents(mount) == ["3.asdf", "4.asdf", "5.asdf"]
        with open(mount.point / "3.asdf.d" / "tree.yaml", "rb"):
            for number in (0, 1, 2):
                (mount.point / f"{number}.asdf.d" / "tree.yaml").read_bytes()
            assert "3.asdf" in documents(mount)
    with mounted(folder, *QUICK) as mount:
        with open(mount.point / "3.asdf.d" / "tree.yaml", "rb") as file:
            (mount.point / "4.asdf.d" / "tree.yaml").read_bytes()
            until(lambda: documents(mount) == ["3.asdf"])
            assert b"value: 3" in file.read()
        until(lambda: documents(mount) == [])
        assert not list(folder.rglob("*journal"))
        done = asdffs("set", "value=30", folder / "3.asdf", environment=mount.environment)
        assert done.returncode == 0, done.stderr
    states = Path(mount.environment["XDG_STATE_HOME"], "asdffs")
    assert list((states / "open").iterdir()) == []
    assert [(path.parent / "log").exists() for path in states.rglob("lock")] == [True], "that of the archive"


def test_scratch_and_refused_drafts_keep_a_document_open(folder: Path) -> None:
    with mounted(folder, *QUICK, code=7) as mount:
        (mount.point / "a.asdf.d" / "scratch").write_text("here")
        with pytest.raises(OSError, match="Bad message"):
            (mount.point / "sub" / "b.asdf.d" / "tree.yaml").write_bytes(b"nonsense")
        for number in range(6):
            make(folder / f"{number}.asdf")
            os.listdir(mount.point / f"{number}.asdf.d")
        until(lambda: sorted(documents(mount)) == ["a.asdf", "sub/b.asdf"])
        assert (mount.point / "a.asdf.d" / "scratch").read_text() == "here"
    assert (folder / "a.asdf.leftover" / "scratch").read_text() == "here"
    assert (folder / "sub" / "b.asdf.rejected-1.yaml").read_bytes() == b"nonsense"


def _is_stale(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError as err:
        return err.errno == errno.ESTALE
    return False


def test_a_file_that_was_replaced_is_not_the_new_one_after_its_document_was_closed(folder: Path) -> None:
    with mounted(folder, *QUICK) as mount, contextlib.ExitStack() as stack:

        def held(name: str) -> int:
            """The kernel goes on knowing the file, though it is not open."""
            descriptor = os.open(mount.point / "a.asdf.d" / name, os.O_PATH)
            stack.callback(os.close, descriptor)
            return descriptor

        tree, block, blocks = held("tree.yaml"), held("blocks/0000.bin"), held("blocks")
        _replace_tree(mount, b"value: 1\n", b"value: 22\n")
        until(lambda: documents(mount) == [])
        assert _is_stale(tree)
        assert os.fstat(block).st_size == os.stat("0000.bin", dir_fd=blocks).st_size == SIZE
        until(lambda: documents(mount) == [])
        second = held("tree.yaml")
        until(lambda: documents(mount) == [])
        _replace_tree(mount, b"value: 22\n", b"value: 333\n")
        until(lambda: documents(mount) == [])
        assert _is_stale(tree)
        assert _is_stale(second)
        assert os.stat("0000.bin", dir_fd=blocks).st_size == SIZE
        assert b"value: 333\n" in (mount.point / "a.asdf.d" / "tree.yaml").read_bytes()


def _replace_tree(mount: Mounted, old: bytes, new: bytes) -> None:
    tree = mount.point / "a.asdf.d" / "tree.yaml"
    text = tree.read_bytes()
    assert old in text
    tree.with_name("new").write_bytes(text.replace(old, new))
    tree.with_name("new").rename(tree)


def test_old_pages_of_a_closed_document_are_not_shown(folder: Path) -> None:
    with mounted(folder, *QUICK) as mount:
        block = mount.point / "a.asdf.d" / "blocks" / "0000.bin"
        assert block.read_bytes() == bytes([1]) * SIZE
        times = block.stat()
        until(lambda: documents(mount) == [])
        make(folder / "a.asdf", value=1, fill=8)
        os.utime(folder / "a.asdf", ns=(times.st_atime_ns, times.st_mtime_ns))
        assert block.read_bytes() == bytes([8]) * SIZE


@pytest.mark.long
def test_a_document_that_cannot_be_written_stays_open_until_there_is_room(tmp_path: Path) -> None:
    new = random.Random(4).randbytes(600_000)
    with filesystem("ext4", tmp_path, 16 << 20) as disk:
        (disk / "archive").mkdir()
        asdf.AsdfFile({"data": np.zeros(len(new), "u1"), "value": 1}).write_to(
            disk / "archive" / "a.asdf", all_array_compression="zlib"
        )
        with mounted(disk / "archive", "-o", f"idle=0.2,spool={tmp_path}") as mount:
            block = mount.point / "a.asdf.d" / "blocks" / "0000.bin"
            file = os.open(block, os.O_RDWR)
            assert os.pwrite(file, new, 0) == len(new)
            filler = fill(disk)
            with pytest.raises(OSError, match="No space left"):
                os.close(file)
            refused = logged(mount.environment).count("a.asdf: refused")
            until(lambda: logged(mount.environment).count("a.asdf: refused") > refused + 2)
            assert documents(mount) == ["a.asdf"]
            assert block.read_bytes() == new
            filler.unlink()
            until(lambda: documents(mount) == [])
        assert content_of(disk / "archive" / "a.asdf") == (1, new)
        assert listing(disk / "archive") == ["a.asdf"]


def test_a_command_waits_until_a_document_is_closed(folder: Path) -> None:
    """It is one too many when another one is opened."""
    words = [sys.executable, "-m", "asdffs", "set", "value=30", folder / "a.asdf"]
    with mounted(folder, "-o", "open_max=1,idle=3600") as mount:
        os.listdir(mount.point / "a.asdf.d")
        assert documents(mount) == ["a.asdf"]
        command = subprocess.Popen(words, env=mount.environment)
        os.listdir(mount.point / "sub" / "b.asdf.d")
        assert command.wait(LIMIT) == 0


@pytest.mark.parametrize("lines", [1, pytest.param(150_000, marks=pytest.mark.long)])
def test_a_tree_is_checked_when_no_request_comes(folder: Path, lines: int) -> None:
    head = b"#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
    array = b"a: !core/ndarray-1.0.0 {source: 7, datatype: int8, shape: [3]}\n"
    (folder / "c.asdf").write_bytes(head + array + b"".join(b"k%d: 1\n" % n for n in range(lines)) + b"...\n")
    with mounted(folder, *QUICK) as mount:
        os.stat(mount.point / "c.asdf.d" / "tree.yaml")
        until(lambda: documents(mount) == [])
        assert asdffs("umount", mount.point, environment=mount.environment).returncode == 0
        assert asdffs("mount", folder, mount.point, environment=mount.environment).returncode == 0
        own = mount.point / "c.asdf.d" / ".asdffs" / "status.json"
        assert json.loads(own.read_text())["warnings"] is None, "not known yet"
        status = mount.point / ".asdffs" / "status.json"
        until(lambda: json.loads(status.read_text())["documents"][0]["warnings"] == 1)
        assert "source" in json.loads(own.read_text())["warnings"][0]


def test_warnings_that_are_errors_are_there_at_once(folder: Path) -> None:
    head = b"#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
    array = b"a: !core/ndarray-1.0.0 {source: 7, datatype: int8, shape: [3]}\n"
    (folder / "c.asdf").write_bytes(head + array + b"...\n")
    with mounted(folder, "-o", "strict") as mount:
        own = mount.point / "c.asdf.d" / ".asdffs" / "status.json"
        assert len(json.loads(own.read_text())["warnings"]) == 1


# -- where and how it is mounted -------------------------------------------------------------


def test_what_is_refused(folder: Path, tmp_path: Path) -> None:
    environment, point = environment_in(tmp_path), tmp_path / "point"
    point.mkdir()
    (folder / "inside").mkdir()
    for words, code, sentence in (
        ((folder, folder / "inside"), 6, "lies inside"),
        ((folder, point, "-o", "open_max=0"), 2, "open_max=0: give a number of files"),
        ((folder, point, "-o", "idle=x"), 2, "idle=x: give seconds"),
        ((tmp_path / "none", point), 3, "cannot be opened"),
    ):
        done = asdffs("mount", *words, environment=environment)
        assert (done.returncode, sentence in done.stderr) == (code, True), done.stderr
    with mounted(folder, code=None) as mount:
        done = asdffs("mount", folder, point, environment=mount.environment)
        assert (done.returncode, "has mounted this directory" in done.stderr) == (5, True), done.stderr
        assert asdffs("mount", folder, point, "-o", "ro", environment=mount.environment).returncode == 0
        assert asdffs("umount", point, environment=mount.environment).returncode == 0
        assert f"{folder}\t{mount.point}\trw\tserving" in asdffs("ls", environment=mount.environment).stdout
        assert asdffs("umount", folder, environment=mount.environment).returncode == 0


def test_a_read_only_archive_leaves_no_trace(folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    with mounted(folder, "-o", "ro") as mount:
        assert b"value: 1" in (mount.point / "a.asdf.d" / "tree.yaml").read_bytes()
        with pytest.raises(OSError, match="Read-only"):
            (mount.point / "a.asdf.d" / "tree.yaml").write_bytes(b"x")
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


# -- many at once ------------------------------------------------------------------------

WRITER = """
import os, random, sys
point, seed, replaced = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
chance = random.Random(seed)
print("ready", flush=True)
while True:
    place = f"{point}/{chance.randrange(50):02d}.asdf.d"
    try:
        if chance.random() < 0.5:
            try:
                with open(f"{place}/tree.yaml", "rb") as file:
                    text = file.read()
            except OSError as err:
                if err.errno != replaced:
                    raise
                continue
            head, _, rest = text.partition(b"value: ")
            text = head + b"value: %d" % chance.randrange(10**9) + rest[rest.index(b"\\n"):]
            with open(f"{place}/new-{seed}", "wb") as file:
                file.write(text)
            os.rename(f"{place}/new-{seed}", f"{place}/tree.yaml")
        else:
            with open(f"{place}/blocks/0000.bin", "r+b") as file:
                file.seek(chance.randrange(4000))
                file.write(b"%d" % seed * 100)
    except OSError as err:
        if err.errno not in (103, 107):  # the daemon was killed
            raise
        break
"""


@pytest.mark.long
@pytest.mark.parametrize("killed", [False, True])
def test_fifty_files_edited_by_eight_programs(tmp_path: Path, killed: bool) -> None:
    folder = tmp_path / "archive"
    for number in range(50):
        make(folder / f"{number:02d}.asdf", value=number)
    code = None if killed else 0
    with mounted(folder, "-o", "open_max=10,idle=0.3", code=code) as mount:
        writers = [_start_writer(mount, seed) for seed in range(8)]
        before = [(folder / f"{number:02d}.asdf").stat().st_mtime_ns for number in range(50)]
        until(lambda: sum(_was_changed(folder, n, before[n]) for n in range(50)) > 40)
        if killed:
            os.kill(mount.pid, signal.SIGKILL)
            assert [writer.communicate(timeout=60)[1] for writer in writers] == [""] * 8
            done = asdffs("umount", mount.point, environment=mount.environment)
            assert done.returncode in (0, 7), done.stderr
        else:
            for writer in writers:
                writer.kill()
                assert writer.communicate(timeout=60)[1] == ""
            for number in range(50):
                for path in (mount.point / f"{number:02d}.asdf.d").glob("new-*"):
                    path.unlink()
    assert not list(folder.rglob("*journal"))
    for number in range(50):
        with asdf.open(folder / f"{number:02d}.asdf", validate_checksums=not killed, memmap=False) as file:
            assert isinstance(file["value"], int)
            assert file["data"].shape == (SIZE,)


def _start_writer(mount: Mounted, seed: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(mount.point), str(seed), str(errno.ESTALE)]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    writer.stdout.readline()
    return writer


def _was_changed(folder: Path, number: int, before: int) -> bool:
    return (folder / f"{number:02d}.asdf").stat().st_mtime_ns != before


# -- against a model -----------------------------------------------------------------------


class Model:
    """What the files must have: value and block, by name."""

    def __init__(self, mount: Mounted, chance: random.Random) -> None:
        self.mount = mount
        self.chance = chance
        self.files = {path.name: list(content_of(path)) for path in mount.file.glob("*.asdf")}

    def place(self, name: str) -> Path:
        return self.mount.point / f"{name}.d"

    def any(self) -> str:
        return self.chance.choice(sorted(self.files))

    def edit(self) -> None:
        name, value = self.any(), self.chance.randrange(10**6)
        tree = self.place(name) / "tree.yaml"
        text = tree.read_bytes()
        tree.write_bytes(text.replace(b"value: %d\n" % self.files[name][0], b"value: %d\n" % value))
        self.files[name][0] = value

    def write(self) -> None:
        name, at = self.any(), self.chance.randrange(SIZE - 100)
        piece = self.chance.randbytes(100)
        with open(self.place(name) / "blocks" / "0000.bin", "r+b") as file:
            file.seek(at)
            file.write(piece)
        block = bytearray(self.files[name][1])
        block[at : at + 100] = piece
        self.files[name][1] = bytes(block)

    def look(self) -> None:
        name = self.any()
        value, block = self.files[name]
        assert b"value: %d\n" % value in (self.place(name) / "tree.yaml").read_bytes()
        assert (self.place(name) / "blocks" / "0000.bin").read_bytes() == block
        assert sorted(self.files) == sorted(p for p in os.listdir(self.mount.point) if p.endswith(".asdf"))

    def replace(self) -> None:
        """Another program stores another file, of a document without changes that are not finished."""
        name = self.any()
        run("sync", self.place(name))
        make(self.mount.file / name, value=self.chance.randrange(10**6), fill=self.chance.randrange(256))
        self.files[name] = list(content_of(self.mount.file / name))

    def add(self) -> None:
        name = f"{self.chance.randrange(1000)}.asdf"
        if name not in self.files:
            make(self.mount.file / name, value=1)
            self.files[name] = [1, bytes(SIZE)]

    def remove(self) -> None:
        if len(self.files) > 3:
            name = self.any()
            run("sync", self.place(name))
            (self.mount.file / name).unlink()
            del self.files[name]

    def rest(self) -> None:
        """Nothing is done until all documents are closed."""
        until(lambda: documents(self.mount) == [])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40 if os.environ.get("ASDFFS_DEEP") else 3))
def test_random_changes_against_a_model(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for number in range(6):
        make(tmp_path / "archive" / f"{number}.asdf", value=number, fill=number)
    with mounted(tmp_path / "archive", "-o", "open_max=2,idle=0.3") as mount:
        model = Model(mount, chance)
        works = [model.edit] * 3 + [model.write] * 4 + [model.look] * 5 + [model.replace, model.add, model.remove]
        for number in range(120):
            model.rest() if number % 40 == 39 else chance.choice(works)()
    for name, (value, block) in model.files.items():
        assert content_of(mount.file / name) == (value, block), name


def test_a_killed_archive_is_recovered(folder: Path) -> None:
    with mounted(folder, code=None) as mount:
        (mount.point / "a.asdf.d" / "scratch").write_text("here")
        with open(mount.point / "sub" / "b.asdf.d" / "blocks" / "0000.bin", "r+b") as file:
            file.write(b"mine")
        os.kill(mount.pid, signal.SIGKILL)
        wait_for(mount.pid)
        lazily_unmount(mount.point)
        with mounted(folder, code=None) as again:
            assert os.listdir(again.point / "a.asdf.d")
            assert (folder / "a.asdf.leftover" / "scratch").read_text() == "here"
            assert (again.point / "sub" / "b.asdf.d" / "blocks" / "0000.bin").read_bytes()[:4] == b"mine"


def test_regression_an_index_of_a_mount_had_each_file_many_times(folder: Path, tmp_path: Path) -> None:
    """By its views, such as ``exploded/``.  A mount inside of the directory of an index is left out as a whole."""
    found = []
    with mounted(folder, "-o", "ro") as archive:
        for place in (archive.point, archive.point.parent, folder):
            done = asdffs("index", "--json", "--catalog", tmp_path / "c.db", place, environment=archive.environment)
            assert done.returncode == 0, done.stderr
            found.append(json.loads(done.stdout)["found"])
    assert found == [2, 2, 2]
