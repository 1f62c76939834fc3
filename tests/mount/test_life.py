"""From mount to unmount: daemon, signals, options, refusals, other writers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import asdf
import numpy as np
import pytest
from support.filesystems import filesystem, fill
from support.mounts import asdffs, environment_in, foreground, mounted, needs_root, run
from support.processes import until
from support.samples import MASK, check_saved, odd_file, opened, put

pytestmark = pytest.mark.mount
ROOT = Path(__file__).parents[2]
OLD, NEW = b"value: 1\n", b"value: 2\n"


def test_mount_and_unmount_leave_every_byte_and_the_mtime(file: Path) -> None:
    before, status = file.read_bytes(), file.stat()
    with mounted(file) as mount:
        for path in [mount.tree, mount.block(0), mount.block(1)]:
            path.read_bytes()
        assert json.loads((mount.point / ".asdffs/status.json").read_text())["file"] == str(file)
        run("sync", mount.point)
    assert file.read_bytes() == before
    assert file.stat().st_mtime_ns == status.st_mtime_ns
    assert sorted(p.name for p in file.parent.iterdir() if p.name.startswith(".")) == []


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_signals_unmount_and_finish(file: Path, how: signal.Signals) -> None:
    point = file.parent / "mnt"
    with foreground(file) as process:
        (point / "blocks/0001.bin").write_bytes(MASK[::-1])
        (point / "tree.yaml").write_bytes((point / "tree.yaml").read_bytes().replace(OLD, NEW))
        process.send_signal(how)
    assert (process.returncode, os.path.ismount(point)) == (0, False)
    with opened(file) as found:
        assert found["value"] == 2
        assert found["mask"][:].tobytes() == MASK[::-1]


def test_foreground_tells_kept_edits(file: Path) -> None:
    point = file.parent / "mnt"
    with foreground(file) as process:
        with pytest.raises(OSError, match="Bad message"):
            (point / "tree.yaml").write_bytes(b"nonsense")
        until(lambda: run("umount", point).returncode == 0)  # another test may look at all mounts
        assert "data.asdf.rejected-1.yaml" in process.stderr.read()
    assert process.returncode == 7


@pytest.mark.long
def test_plain_umount_finishes_by_itself_and_the_next_command_waits(tmp_path: Path) -> None:
    """The daemon still holds the lock while it computes a checksum; the next mount comes after it."""
    path = tmp_path / "data.asdf"
    asdf.AsdfFile({"a": np.zeros(256 << 20, dtype="u1")}).write_to(path)
    with mounted(path, code=6) as mount:
        with open(mount.block(0), "r+b") as block:
            block.write(b"\x01")
        (mount.point / "left.txt").write_text("over")
        until(lambda: run("umount", mount.point).returncode == 0)
        with mounted(path, at=tmp_path / "again") as again:
            assert "left.txt" in again.said, "what the last mount kept is told"
    with opened(path) as found:
        assert found["a"][0] == 1


def test_sync_of_the_mount_reports_a_rejected_draft(file: Path) -> None:
    with mounted(file, code=7) as mount:
        with open(mount.block(1), "r+b") as block:
            block.write(b"x")
        assert run("sync", mount.point).returncode == 0
        assert b"x" + MASK[1:] in file.read_bytes()
        with opened(file):
            pass
        with pytest.raises(OSError, match="Bad message"):
            mount.tree.write_bytes(b"nonsense")
        done = run("sync", mount.point)
        assert done.returncode == 1
        assert "Bad message" in done.stderr


def test_sync_commits_a_draft_that_was_truncated_by_name(file: Path) -> None:
    with mounted(file) as mount:
        text = mount.tree.read_bytes()
        os.truncate(mount.tree, len(text) - 1)
        assert mount.status["draft"] == "dirty"
        run("sync", mount.point)
        assert mount.status["draft"] == "clean"
        assert mount.tree.read_bytes() == text


def test_read_only_mount(file: Path) -> None:
    with mounted(file, "-o", "ro") as mount:
        with pytest.raises(OSError, match="Read-only file system"):
            open(mount.tree, "r+b")
        assert run("touch", mount.point / "new").returncode != 0
        assert mount.status["writable"] is False
        # a second, writing mount of the same file is possible, and its edits are seen
        with mounted(file, at=file.parent / "other") as other:
            other.edit()
            assert NEW in mount.tree.read_bytes()


def test_umount_takes_the_file_as_well(file: Path) -> None:
    environment = environment_in(file.parent)
    done = asdffs("umount", file, environment=environment)
    assert (done.returncode, "no asdffs mount is there" in done.stderr) == (6, True)
    points = [file.parent / "one", file.parent / "two"]
    for point in points:
        point.mkdir()
        assert asdffs("mount", "-o", "ro", file, point, environment=environment).returncode == 0
    done = asdffs("umount", file, environment=environment)
    assert (done.returncode, f"give one of them: {points[0]} {points[1]}" in done.stderr) == (2, True)
    assert asdffs("umount", points[0], environment=environment).returncode == 0
    (file.parent / "link").symlink_to(file)
    assert asdffs("umount", file.parent / "link", environment=environment).returncode == 0
    assert not os.path.ismount(points[1])


@pytest.mark.parametrize("words", [("explode", "parts"), ("repack", "parts"), ("repack",), ("upgrade", "parts")])
def test_the_tree_of_a_mount_is_not_written_anew(file: Path, words: tuple[str, ...]) -> None:
    """It would be a tree without blocks."""
    with mounted(file) as mount:
        (command, *out), before = words, mount.tree.read_bytes()
        done = asdffs(command, mount.tree, *(file.parent / name for name in out), environment=mount.environment)
        assert (done.returncode, "is only the tree of a mounted file" in done.stderr) == (2, True)
        assert not (file.parent / "parts").exists()
        assert mount.tree.read_bytes() == before


def test_a_tree_that_is_not_valid_is_told(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"value: 1\n", b"value: [\n"))
    with mounted(file, "-o", "ro") as mount:
        (warning,) = mount.status["warnings"]
        assert warning.startswith("the tree is not valid: line ")


def test_a_truncated_file_is_told(file: Path) -> None:
    size = file.read_bytes().index(b"#ASDF BLOCK INDEX") - 5
    os.truncate(file, size)
    sentence = f"the file is truncated: it ends at {size}, inside block 1"
    with mounted(file) as mount:
        assert mount.status["warnings"] == [sentence]
        mount.edit()
        assert mount.status["warnings"] == [sentence], "a save does not hide it"
    done = asdffs("info", file, environment=mount.environment)
    assert f"damage    {sentence}\n" in done.stdout
    assert json.loads(asdffs("info", "--json", file, environment=mount.environment).stdout)["truncated"] == sentence


def test_a_second_writing_mount_is_refused(file: Path) -> None:
    with mounted(file) as mount:
        other = file.parent / "other"
        other.mkdir()
        done = asdffs("mount", file, other, environment=mount.environment)
        assert done.returncode == 5
        assert f"already mounted for writing at {mount.point} by process {mount.pid}" in done.stderr
        assert f"change it there, in {mount.tree}, or first run 'asdffs umount {file}'" in done.stderr
        assert asdffs("info", file, environment=mount.environment).returncode == 0
        with mounted(file, "-o", "ro", at=other) as second:
            assert second.block(1).read_bytes() == MASK
            with pytest.raises(OSError, match="Read-only file system"):
                second.tree.write_bytes(b"x")
        mount.edit()
    check_saved(file, 2)


@pytest.mark.parametrize("what", ["sub/data.asdf", "sub"])
def test_regression_a_mount_that_is_only_read_changes_no_directory(tmp_path: Path, what: str) -> None:
    """It made a journal beside the file.  Who holds the file is known all the same."""
    path, point, environment = tmp_path / "sub/data.asdf", tmp_path / "mnt", environment_in(tmp_path)
    path.parent.mkdir()
    path.write_bytes(odd_file())
    before = path.parent.stat().st_mtime_ns, [path.name]
    with mounted(tmp_path / what, "-o", "idle=60", at=point, environment=environment):
        inside = point / ("" if what != "sub" else "data.asdf.d")
        text = (inside / "tree.yaml").read_bytes()
        assert (inside / "blocks/0001.bin").read_bytes() == MASK
        assert (path.parent.stat().st_mtime_ns, os.listdir(path.parent)) == before
        note = json.loads(asdffs("info", "--json", path, environment=environment).stdout)["mount"]
        assert (note["mountpoint"], note["state"]) == (str(point), "serving")
        (inside / "tree.yaml").write_bytes(text.replace(OLD, NEW))
        assert sorted(os.listdir(path.parent)) == [".data.asdf.asdffs-journal", "data.asdf"]
    assert os.listdir(path.parent) == ["data.asdf"]
    check_saved(path, 2)


@needs_root
def test_the_holder_is_named_in_another_container_with_the_same_home(file: Path) -> None:
    with mounted(file) as mount:
        command = [sys.executable, "-m", "asdffs", "set", "value=2", file]
        done = run("unshare", "-p", "-f", "--mount-proc", *command, env=mount.environment)
        assert done.returncode == 5
        assert f"already mounted for writing at {mount.point} by process {mount.pid}" in done.stderr


@pytest.mark.parametrize("change", ["touched", "garbage", "cut"])
def test_regression_a_foreign_change_made_the_mount_unusable(file: Path, change: str) -> None:
    """Opens, ``.asdffs`` and ``asdffs umount`` go on working whatever happens to the file."""
    with mounted(file) as mount:
        text = mount.tree.read_bytes()
        if change == "touched":
            os.utime(file)
        else:
            file.write_bytes(b"garbage" if change == "garbage" else file.read_bytes()[:50])
        assert mount.status["file"] == str(file)
        if change == "touched":
            assert mount.tree.read_bytes() == text
            assert mount.block(1).read_bytes() == MASK
            mount.tree.write_bytes(text.replace(OLD, NEW))
        else:
            mount.tree.open().close()
            assert mount.error
    if change == "touched":
        with opened(file) as found:
            assert found["value"] == 2


def test_umount_recovers_when_the_daemon_dies_meanwhile(file: Path) -> None:
    with mounted(file, code=6) as mount:
        mount.block(1).write_bytes(MASK[::-1])
        os.kill(mount.pid, signal.SIGSTOP)
        command = [sys.executable, "-m", "asdffs", "umount", mount.point]
        with subprocess.Popen(command, env=mount.environment, stderr=subprocess.PIPE, text=True) as process:
            os.kill(mount.pid, signal.SIGKILL)
            said = process.stderr.read()
        assert (process.returncode, os.path.ismount(mount.point)) == (0, False), said
    assert "its daemon was gone" in said or "the daemon ended before" in said
    with opened(file) as found:
        assert found["mask"][:].tobytes() == MASK[::-1]


def test_regression_draft_was_lost_when_the_disk_was_full_at_the_end(tmp_path: Path) -> None:
    """What cannot be kept beside the file stays in the spool, is told, and is kept by the next mount."""
    place = {"at": tmp_path / "mnt", "environment": environment_in(tmp_path)}
    with filesystem("tmpfs", tmp_path, 64 << 10) as small:
        (small / "data.asdf").write_bytes(odd_file())
        with mounted(small / "data.asdf", code=8, **place) as mount:
            with pytest.raises(OSError, match="Bad message"):
                mount.tree.write_bytes(b"precious")
            filler = fill(small)
        assert "could not be kept beside the file" in mount.umount.stderr
        filler.unlink()
        with mounted(small / "data.asdf", **place):
            assert (small / "data.asdf.rejected-1.yaml").read_bytes() == b"precious"


def test_a_removed_journal_stops_commits(file: Path) -> None:
    with mounted(file, code=7) as mount:
        mount.edit()
        before = file.read_bytes()
        (file.parent / ".data.asdf.asdffs-journal").unlink()
        with pytest.raises(OSError, match="No such file"):
            mount.edit(NEW, OLD)
    assert file.read_bytes() == before


def test_umount_of_a_busy_mount(file: Path) -> None:
    with mounted(file) as mount:
        with open(mount.tree):
            done = asdffs("umount", mount.point, environment=mount.environment)
            assert done.returncode == 5
            assert "not unmounted" in done.stderr
        assert mount.tree.exists()


def test_regression_umount_gave_up_when_somebody_was_just_looking(file: Path) -> None:
    """The first try finds the mount in use; before the second one, who looked has gone."""
    helper = "umount" if os.geteuid() == 0 else "fusermount3"
    script = file.parent / "bin" / helper
    with (
        mounted(file) as mount,
        subprocess.Popen(["tail", "-f", "-c+1", mount.tree], stdout=-1) as looking,
    ):
        assert looking.stdout is not None
        assert looking.stdout.read(5) == b"#ASDF"
        gone = f"kill {looking.pid}; until grep -q 'State:.Z' /proc/{looking.pid}/status; do :; done"
        script.parent.mkdir()
        script.write_text(f'#!/bin/sh\n{shutil.which(helper)} "$@" && exit\n{gone}\nexit 1\n')
        script.chmod(0o755)
        mount.environment["PATH"] = f"{script.parent}:{os.environ['PATH']}"
        done = asdffs("umount", mount.point, environment=mount.environment)
        assert (done.returncode, done.stderr) == (0, "")
        assert asdffs("mount", file, mount.point, environment=mount.environment).returncode == 0


def test_the_draft_of_a_killed_daemon_is_kept(file: Path) -> None:
    with mounted(file, code=6) as mount:
        draft = open(mount.tree, "wb", buffering=0)
        draft.write(b"half a thought")
        mount.kill()
        with pytest.raises(OSError, match="."):
            draft.close()
    with mounted(file) as mount:
        assert "data.asdf.rejected-1.yaml" in mount.said
    assert file.with_name("data.asdf.rejected-1.yaml").read_bytes() == b"half a thought"


def test_full_disk_keeps_the_text(tmp_path: Path) -> None:
    """On a small tmpfs a growth has no room: ENOSPC, the file as it was."""
    with filesystem("tmpfs", tmp_path, 3 << 20) as small:
        path = put(small, odd_file())
        before = path.read_bytes()
        with mounted(path, at=tmp_path / "mnt", environment=environment_in(tmp_path)) as mount:
            filler = fill(small)
            with pytest.raises(OSError, match="No space left"):
                mount.edit(OLD, b"value: 2\nlong: " + b"x" * 60_000 + b"\n")
            assert path.read_bytes() == before
            filler.unlink()
        check_saved(path, 2)  # room came back, and the end of the mount tried again


@pytest.mark.parametrize("call", ["asdffs.mount.libfuse.Libfuse", "asdffs.cli.writing.recover_edits"])
def test_a_signal_while_the_mount_is_made_ends_it(file: Path, call: str) -> None:
    """In the foreground: before anything is mounted, or as soon as it is."""
    point = file.parent / "mnt"
    point.mkdir()
    code = (
        "import importlib, os, signal, sys\n"
        "import asdffs.cli.commands.mount\n"
        f"module, _, name = {call!r}.rpartition('.')\n"
        "module = importlib.import_module(module)\n"
        "before = getattr(module, name)\n"
        "def after(*arguments, **named):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return before(*arguments, **named)\n"
        "setattr(module, name, after)\n"
        "from asdffs.cli.main import main\n"
        "sys.exit(main())"
    )
    done = run(sys.executable, "-c", code, "mount", "-f", file, point, env=environment_in(file.parent))
    assert (done.returncode, os.path.ismount(point)) == (-signal.SIGTERM, False), done.stderr
    assert sorted(path.name for path in file.parent.glob(".*asdffs-*")) == []
