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
from support.mounts import LIMIT, asdffs, environment_in, lazily_unmount, mounted, run
from support.samples import MASK, check_saved, odd_file, opened

pytestmark = pytest.mark.mount
ROOT = Path(__file__).parents[2]
OLD, NEW = b"value: 1\n", b"value: 2\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data.asdf"
    path.write_bytes(odd_file(padding=b" " * 500))
    return path


def foreground(file: Path, point: Path, *options: str) -> subprocess.Popen[str]:
    point.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "asdffs", "mount", "-f", file, point, *options],
        env=environment_in(file.parent),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert "mounted" in process.stderr.readline()
    return process


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
    process = foreground(file, point)
    (point / "blocks/0001.bin").write_bytes(MASK[::-1])
    (point / "tree.yaml").write_bytes((point / "tree.yaml").read_bytes().replace(OLD, NEW))
    process.send_signal(how)
    assert process.wait(LIMIT) == 0
    assert process.stderr is not None
    process.stderr.close()
    assert not os.path.ismount(point)
    with opened(file) as found:
        assert found["value"] == 2
        assert found["mask"][:].tobytes() == MASK[::-1]


def test_foreground_tells_kept_edits(file: Path) -> None:
    point = file.parent / "mnt"
    process = foreground(file, point)
    with pytest.raises(OSError, match="Bad message"):
        (point / "tree.yaml").write_bytes(b"nonsense")
    assert run("umount", point).returncode == 0
    assert process.wait(LIMIT) == 7
    assert process.stderr is not None
    assert "data.asdf.rejected-1.yaml" in process.stderr.read()
    process.stderr.close()


@pytest.mark.long
def test_plain_umount_finishes_by_itself_and_the_next_command_waits(tmp_path: Path) -> None:
    """The daemon still holds the lock while it computes a checksum; the next mount comes after it."""
    path = tmp_path / "data.asdf"
    asdf.AsdfFile({"a": np.zeros(256 << 20, dtype="u1")}).write_to(path)
    environment = environment_in(tmp_path)
    point = tmp_path / "mnt"
    point.mkdir()
    assert asdffs("mount", path, point, environment=environment).returncode == 0
    with open(point / "blocks/0000.bin", "r+b") as block:
        block.write(b"\x01")
    (point / "left.txt").write_text("over")
    assert run("umount", point).returncode == 0
    again = asdffs("mount", path, point, environment=environment)
    assert again.returncode == 0, again.stderr
    assert "left.txt" in again.stderr, "what the last mount kept is told"
    assert asdffs("umount", point, environment=environment).returncode == 0
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
        other = file.parent / "other"
        other.mkdir()
        environment = environment_in(file.parent)
        assert asdffs("mount", file, other, environment=environment).returncode == 0
        (other / "tree.yaml").write_bytes((other / "tree.yaml").read_bytes().replace(OLD, NEW))
        assert NEW in mount.tree.read_bytes()
        assert asdffs("umount", other, environment=environment).returncode == 0


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
        mount.tree.write_bytes(mount.tree.read_bytes().replace(b"value: 1\n", b"value: 2\n"))
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


@pytest.mark.parametrize("what", ["sub/data.asdf", "sub"])
def test_regression_a_mount_that_is_only_read_changes_no_directory(tmp_path: Path, what: str) -> None:
    """It made a journal beside the file.  Who holds the file is known all the same."""
    path, point, environment = tmp_path / "sub/data.asdf", tmp_path / "mnt", environment_in(tmp_path)
    path.parent.mkdir()
    path.write_bytes(odd_file())
    before = path.parent.stat().st_mtime_ns, [path.name]
    point.mkdir()
    assert asdffs("mount", tmp_path / what, point, "-o", "idle=60", environment=environment).returncode == 0
    try:
        inside = point / ("" if what != "sub" else "data.asdf.d")
        text = (inside / "tree.yaml").read_bytes()
        assert (inside / "blocks/0001.bin").read_bytes() == MASK
        assert (path.parent.stat().st_mtime_ns, os.listdir(path.parent)) == before
        note = json.loads(asdffs("info", "--json", path, environment=environment).stdout)["mount"]
        assert (note["mountpoint"], note["state"]) == (str(point), "serving")
        (inside / "tree.yaml").write_bytes(text.replace(OLD, NEW))
        assert sorted(os.listdir(path.parent)) == [".data.asdf.asdffs-journal", "data.asdf"]
    finally:
        assert asdffs("umount", point, environment=environment).returncode == 0
    assert os.listdir(path.parent) == ["data.asdf"]
    check_saved(path, 2)


def test_the_holder_is_named_in_another_container_with_the_same_home(file: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("a pid namespace needs root")
    with mounted(file) as mount:
        command = [sys.executable, "-m", "asdffs", "set", "value=2", file]
        done = run("unshare", "-p", "-f", "--mount-proc", *command, env=mount.environment)
        assert done.returncode == 5
        assert f"already mounted for writing at {mount.point} by process {mount.pid}" in done.stderr


def test_a_file_that_cannot_be_written_is_mounted_read_only(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting a read-only tmpfs needs root")
    fixed = tmp_path / "fixed"
    fixed.mkdir()
    assert run("mount", "-t", "tmpfs", "tmpfs", fixed).returncode == 0
    try:
        (fixed / "data.asdf").write_bytes(odd_file())
        assert run("mount", "-o", "remount,ro", fixed).returncode == 0
        point = tmp_path / "mnt"
        point.mkdir()
        environment = environment_in(tmp_path)
        done = asdffs("mount", fixed / "data.asdf", point, environment=environment)
        assert done.returncode == 0
        assert "cannot be written; mounting read-only" in done.stderr
        assert (point / "blocks/0001.bin").read_bytes() == MASK
        assert asdffs("umount", point, environment=environment).returncode == 0
    finally:
        lazily_unmount(tmp_path / "mnt")
        run("umount", "-l", fixed)


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
    environment, point = environment_in(file.parent), file.parent / "mnt"
    point.mkdir()
    assert asdffs("mount", file, point, environment=environment).returncode == 0
    pid = json.loads((point / ".asdffs/status.json").read_text())["pid"]
    (point / "blocks/0001.bin").write_bytes(MASK[::-1])
    os.kill(pid, signal.SIGSTOP)
    process = subprocess.Popen(
        [sys.executable, "-m", "asdffs", "umount", point], env=environment, stderr=subprocess.PIPE, text=True
    )
    os.kill(pid, signal.SIGKILL)
    assert process.stderr is not None
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(LIMIT), os.path.ismount(point)) == (0, False), said
    assert "its daemon was gone" in said or "the daemon ended before" in said
    with opened(file) as found:
        assert found["mask"][:].tobytes() == MASK[::-1]


def test_regression_mount_on_a_full_disk_said_nothing(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    small, point = tmp_path / "small", tmp_path / "mnt"
    small.mkdir()
    point.mkdir()
    assert run("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small).returncode == 0
    try:
        (small / "data.asdf").write_bytes(odd_file())
        run("dd", "if=/dev/zero", f"of={small}/ballast")
        done = asdffs("mount", small / "data.asdf", point, environment=environment_in(tmp_path))
        assert done.returncode == 8
        assert "No space left on device" in done.stderr
        assert "-o ro" in done.stderr
        assert sorted(path.name for path in small.iterdir()) == ["ballast", "data.asdf"]
        with_ro = asdffs("mount", small / "data.asdf", point, "-o", "ro", environment=environment_in(tmp_path))
        assert with_ro.returncode == 0
        assert asdffs("umount", point, environment=environment_in(tmp_path)).returncode == 0
    finally:
        lazily_unmount(point)
        run("umount", "-l", small)


def test_regression_draft_was_lost_when_the_disk_was_full_at_the_end(tmp_path: Path) -> None:
    """What cannot be kept beside the file stays in the spool, is told, and is kept by the next mount."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    small, point, environment = tmp_path / "small", tmp_path / "mnt", environment_in(tmp_path)
    small.mkdir()
    point.mkdir()
    assert run("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small).returncode == 0
    try:
        (small / "data.asdf").write_bytes(odd_file())
        assert asdffs("mount", small / "data.asdf", point, environment=environment).returncode == 0
        with pytest.raises(OSError, match="Bad message"):
            (point / "tree.yaml").write_bytes(b"precious")
        run("dd", "if=/dev/zero", f"of={small}/ballast")
        done = asdffs("umount", point, environment=environment)
        assert done.returncode == 8
        assert "could not be kept beside the file" in done.stderr
        (small / "ballast").unlink()
        again = asdffs("mount", small / "data.asdf", point, environment=environment)
        assert again.returncode == 0, again.stderr
        assert (small / "data.asdf.rejected-1.yaml").read_bytes() == b"precious"
        assert asdffs("umount", point, environment=environment).returncode == 0
    finally:
        lazily_unmount(point)
        run("umount", "-l", small)


def test_a_removed_journal_stops_commits(file: Path) -> None:
    with mounted(file, code=7) as mount:
        mount.tree.write_bytes(mount.tree.read_bytes().replace(b"value: 1\n", b"value: 5\n"))
        before = file.read_bytes()
        (file.parent / ".data.asdf.asdffs-journal").unlink()
        with pytest.raises(OSError, match="No such file"):
            mount.tree.write_bytes(mount.tree.read_bytes().replace(b"value: 5\n", NEW))
    assert file.read_bytes() == before


BAD_MOUNTS = {
    "no file": (["missing.asdf", "mnt"], 3, "missing.asdf: cannot be opened: No such file"),
    "itself": (["mnt", "mnt"], 6, "lies inside the mount point"),
    "not asdf": (["text", "mnt"], 4, "text: offset 0: not an ASDF file"),
    "empty file": (["empty", "mnt"], 4, "not an ASDF file"),
    "no tree end": (["cut", "mnt"], 4, "the tree has no end"),
    "other version": (["future", "mnt"], 4, "2.0.0"),
    "no mount point": (["data.asdf", "nowhere"], 6, "does not exist; run: mkdir -p"),
    "mount point not empty": (["data.asdf", "full"], 6, "not empty"),
    "mount point is a file": (["data.asdf", "text"], 6, "not a directory"),
    "unknown option": (["data.asdf", "mnt", "-o", "ro,sparkle"], 2, "unknown mount option 'sparkle'"),
}


@pytest.mark.parametrize("name", BAD_MOUNTS)
def test_bad_mounts_say_one_sentence(file: Path, name: str) -> None:
    folder = file.parent
    (folder / "mnt").mkdir()
    (folder / "full").mkdir()
    (folder / "full" / "x").touch()
    (folder / "text").write_text("hello world\n")
    (folder / "empty").touch()
    (folder / "cut").write_bytes(file.read_bytes()[:200])
    (folder / "future").write_bytes(b"#ASDF 2.0.0\n")
    before = file.read_bytes()
    arguments, code, sentence = BAD_MOUNTS[name]
    done = asdffs("mount", *arguments, environment=environment_in(folder), cwd=folder)
    assert done.returncode == code, done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert file.read_bytes() == before
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_umount_of_nothing(tmp_path: Path) -> None:
    done = asdffs("umount", tmp_path, environment=environment_in(tmp_path))
    assert done.returncode == 6
    assert "no asdffs mount is there" in done.stderr


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


@pytest.mark.parametrize("how", ["in place", "replaced"])
def test_another_writer_is_seen_when_nothing_is_pending(file: Path, how: str) -> None:
    with mounted(file) as mount:
        assert OLD in mount.tree.read_bytes()
        new = file.read_bytes().replace(OLD, b"value: 77\n")
        if how == "in place":
            file.write_bytes(new)
        else:
            (file.parent / "new").write_bytes(new)
            os.replace(file.parent / "new", file)
        assert b"value: 77\n" in mount.tree.read_bytes()
        assert mount.block(1).read_bytes() == MASK
        mount.tree.write_bytes(mount.tree.read_bytes().replace(b"value: 77\n", b"value: 78\n"))
    with opened(file) as found:
        assert found["value"] == 78


def test_the_draft_of_a_killed_daemon_is_kept(file: Path) -> None:
    environment, point = environment_in(file.parent), file.parent / "mnt"
    process = foreground(file, point)
    draft = open(point / "tree.yaml", "wb", buffering=0)
    draft.write(b"half a thought")
    process.kill()
    process.wait(LIMIT)
    with pytest.raises(OSError, match="."):
        draft.close()
    lazily_unmount(point)
    assert process.stderr is not None
    process.stderr.close()
    done = asdffs("mount", file, point, environment=environment)
    assert done.returncode == 0, done.stderr
    assert "data.asdf.rejected-1.yaml" in done.stderr
    assert asdffs("umount", point, environment=environment).returncode == 0
    assert file.with_name("data.asdf.rejected-1.yaml").read_bytes() == b"half a thought"


def test_full_disk_keeps_the_text(tmp_path: Path) -> None:
    """On a small tmpfs a growth has no room: ENOSPC, the file as it was."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    small = tmp_path / "small"
    small.mkdir()
    assert run("mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", small).returncode == 0
    try:
        path = small / "data.asdf"
        path.write_bytes(odd_file())
        before = path.read_bytes()
        point = tmp_path / "mnt"
        point.mkdir()
        environment = environment_in(tmp_path)
        assert asdffs("mount", path, point, environment=environment).returncode == 0
        run("dd", "if=/dev/zero", f"of={small}/ballast")
        text = (point / "tree.yaml").read_bytes().replace(OLD, b"value: 2\nlong: " + b"x" * 60_000 + b"\n")
        with pytest.raises(OSError, match="No space left"):
            (point / "tree.yaml").write_bytes(text)
        assert path.read_bytes() == before
        (small / "ballast").unlink()
        done = asdffs("umount", point, environment=environment)
        assert path.read_bytes() != before, "room came back, and the end of the mount tried again"
        assert done.returncode == 0, done.stderr
        with opened(path) as found:
            assert found["value"] == 2
    finally:
        lazily_unmount(tmp_path / "mnt")
        run("umount", "-l", small)


@pytest.mark.parametrize("call", ["asdffs.mount.binding.Binding", "asdffs.cli.opened_file.tell_the_past"])
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
    done = subprocess.run(
        [sys.executable, "-c", code, "mount", "-f", file, point],
        env=environment_in(file.parent),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert (done.returncode, os.path.ismount(point)) == (-signal.SIGTERM, False), done.stderr
    assert sorted(path.name for path in file.parent.glob(".*asdffs-*")) == []
