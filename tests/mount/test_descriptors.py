"""File descriptors of the daemon: scratch needs none each, the limit is raised, and none of others is kept."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path

import pytest
from support.mounts import ASDFFS, asdffs, environment_in, mounted, run
from support.samples import MASK, odd_file, opened, put

pytestmark = pytest.mark.mount


def mount(file: Path, point: Path, *, soft: int, hard: int, keep: tuple[int, ...] = ()) -> int:
    """Mount ``file`` by a program with these limits and these descriptors; the daemon's process."""
    point.mkdir(exist_ok=True)
    limits = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)), "pass_fds": keep}
    run(*ASDFFS, "mount", file, point, env=environment_in(file.parent), check=True, **limits)
    return int(json.loads((point / ".asdffs/status.json").read_text())["pid"])


@pytest.mark.long
def test_scratch_needs_no_descriptor_each_and_nothing_is_remembered_as_missing(file: Path, tmp_path: Path) -> None:
    point = tmp_path / "mnt"
    pid = mount(file, point, soft=96, hard=96)
    try:
        (point / "d").mkdir()
        for number in range(300):
            (point / f"d/f{number}").write_text(str(number))
        assert len(os.listdir(f"/proc/{pid}/fd")) < 96
        os.setxattr(
            point / "blocks/0001.bin", "user.asdf.compression", b"zlib"
        )  # the codec is needed for the first time
        text = (point / "tree.yaml").read_bytes()
        (point / "tree.yaml").write_bytes(text.replace(b"value: 1\n", b"value: 2\n"))
        assert [(point / f"d/f{number}").read_text() for number in range(300)] == list(map(str, range(300)))
        for number in range(300):
            (point / f"d/f{number}").unlink()
        (point / "d").rmdir()
    finally:
        done = asdffs("umount", point, environment=environment_in(tmp_path))
    assert done.returncode == 0, done.stderr
    with opened(file) as found:
        assert (found["value"], found["mask"][:].tobytes()) == (2, MASK)


def test_the_limit_is_raised_as_far_as_it_may(file: Path, tmp_path: Path) -> None:
    point = tmp_path / "mnt"
    pid = mount(file, point, soft=64, hard=200)
    try:
        assert resource.prlimit(pid, resource.RLIMIT_NOFILE) == (200, 200)
    finally:
        assert asdffs("umount", point, environment=environment_in(tmp_path)).returncode == 0


def test_a_daemon_keeps_nothing_of_the_program_that_started_it(file: Path, tmp_path: Path) -> None:
    """A session that has a file of one mount open starts another mount: the first one is not busy afterwards."""
    other = put(tmp_path, odd_file(), "other.asdf")
    with mounted(other) as first:
        kept = os.open(first.block(0), os.O_RDONLY)
        point = tmp_path / "mnt"
        mount(file, point, soft=256, hard=256, keep=(kept,))
        os.close(kept)
    assert first.umount is not None
    assert first.umount.returncode == 0, first.umount.stderr
    assert asdffs("umount", point, environment=environment_in(tmp_path)).returncode == 0


def test_regression_an_archive_with_few_descriptors(file: Path, tmp_path: Path) -> None:
    """Documents with scratch stay open; of the others fewer stay open than descriptors allow."""
    folder, point = tmp_path / "archive", tmp_path / "mnt"
    folder.mkdir()
    for number in range(40):
        (folder / f"{number}.asdf").write_bytes(file.read_bytes())
    pid = mount(folder, point, soft=96, hard=200)
    try:
        for number in range(40):
            inside = point / f"{number}.asdf.d"
            text = (inside / "tree.yaml").read_bytes()
            (inside / "tree.yaml").write_bytes(text.replace(b"value: 1\n", b"value: 2\n"))
            for scratch in range(8 if number % 2 else 0):
                (inside / f"s{scratch}").write_text("x")
        assert len(os.listdir(f"/proc/{pid}/fd")) < 200
    finally:
        done = asdffs("umount", point, environment=environment_in(tmp_path))
    assert done.returncode == 7, done.stderr  # scratch was left
    assert all(b"value: 2\n" in path.read_bytes() for path in folder.glob("*.asdf"))
