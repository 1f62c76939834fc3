"""A real daemon on real file systems: SIGKILL, ENOSPC and EIO at every write-like system call, by strace.

Then a mount and unmount.  The tree is the old or the new one, whole; every byte of a block is old or just
written; other blocks are identical; the asdf library opens the file.  ``./scripts/test --deep`` tries every call
on ext4, XFS and btrfs; else some of them, evenly chosen, where the tests run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import asdf
import numpy as np
import pytest
from support import codecs
from support.bls2 import library_with_bls2
from support.contents import contents
from support.filesystems import KINDS, filesystem
from support.mounts import LIMIT, asdffs, environment_in, lazily_unmount, mounted, run
from support.processes import children_of, wait_for
from support.samples import odd_file, opened, put

#: Every call by which the daemon changes a file system.
CALLS = (
    "pwrite64,write,ftruncate,fdatasync,fsync,rename,renameat,unlink,unlinkat,"
    "copy_file_range,fallocate,ioctl,fchmod,fchown,fsetxattr,openat"
)
DEEP = bool(os.environ.get("ASDFFS_DEEP"))
#: How many points of each run are tried unless deep.
POINTS = 4
COUNTED = tuple(call for call in CALLS.split(",") if call not in ("openat", "write"))
OLD = b"value: 1\n"


def can_trace() -> bool:
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode == 0


pytestmark = [
    pytest.mark.long,
    pytest.mark.mount,
    pytest.mark.strace,
    pytest.mark.skipif(not can_trace(), reason="needs strace and the right to trace"),
]


@dataclass(frozen=True)
class Edit:
    start: bytes
    work: Callable[[Path], None]


def save(new: bytes) -> Callable[[Path], None]:
    def work(point: Path) -> None:
        tree = point / "tree.yaml"
        tree.write_bytes(tree.read_bytes().replace(OLD, new))

    return work


def dd(point: Path) -> None:
    run("dd", "if=/dev/zero", f"of={point}/blocks/0000.bin", "bs=10", "seek=3", "count=5", "conv=notrunc,fsync")
    run("sync", point)


def grow_block(point: Path) -> None:
    with open(point / "blocks/0000.bin", "ab", buffering=0) as file:
        file.write(b"g" * 50_000)
        os.fsync(file.fileno())


EDITS = {
    "a save that fits": Edit(odd_file(padding=b" " * 900), save(b"value: 2\nmore: " + b"y" * 300 + b"\n")),
    "a save that grows": Edit(odd_file(), save(b"value: 2\nmore: " + b"y" * 9000 + b"\n")),
    "a block that grows": Edit(odd_file(), grow_block),
    "a dd": Edit(odd_file(), dd),
}


class Traced:
    """A foreground daemon under strace."""

    def __init__(self, folder: Path, file: Path, *inject: str) -> None:
        self.file, self.point, self.log = file, folder / "mnt", folder / "trace"
        self.point.mkdir(exist_ok=True)
        strace = ["strace", "-f", "-qq", "-o", self.log, "-e", f"trace={CALLS}", *inject]
        command = [*strace, sys.executable, "-m", "asdffs", "mount", "-f", self.file, self.point]
        self.process = subprocess.Popen(command, env=environment_in(folder), stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.ready = "mounted" in self.process.stderr.readline()

    def end(self) -> None:
        if os.path.ismount(self.point):
            run("umount", self.point)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(LIMIT)
        daemons: list[int] = []
        if self.process.poll() is None:
            daemons = children_of(self.process.pid)
            self.process.kill()
            self.process.wait(LIMIT)
        assert self.process.stderr is not None
        self.process.stderr.close()
        lazily_unmount(self.point)
        for daemon in daemons:  # one that strace no longer traces ends now, and holds the lock of the file until then
            wait_for(daemon)


def attempt(folder: Path, file: Path, edit: Edit, *inject: str) -> None:
    """Start, edit, unmount; a kill or an error may come at any moment."""
    traced = Traced(folder, file, *inject)
    try:
        if traced.ready:
            with contextlib.suppress(OSError):
                edit.work(traced.point)
    finally:
        traced.end()


def calls_of(folder: Path, file: Path, edit: Edit) -> list[str]:
    """The calls that an undisturbed run makes, in order."""
    attempt(folder, file, edit)
    lines = (folder / "trace").read_text(errors="replace").splitlines()
    return [call for line in lines for call in COUNTED if f" {call}(" in f" {line.split(' ', 1)[1].strip()}"]


def chosen(calls: list[str], place: int) -> tuple[str, int]:
    """The call at ``place``, and which of its kind it is."""
    place %= len(calls)
    return calls[place], calls[: place + 1].count(calls[place])


def points(calls: list[str]) -> list[tuple[str, int]]:
    """Each call; evenly chosen ones, the last included, unless deep."""
    if DEEP or len(calls) <= POINTS:
        return [chosen(calls, place) for place in range(len(calls))]
    return [chosen(calls, round(n * (len(calls) - 1) / (POINTS - 1))) for n in range(POINTS)]


@pytest.fixture(params=["here", *KINDS] if DEEP else ["here"])
def place(request: pytest.FixtureRequest, tmp_path: Path):
    """Where the file lies; mount point and state are elsewhere."""
    if request.param == "here":
        (tmp_path / "files").mkdir()
        yield tmp_path / "files"
        return
    with filesystem(request.param, tmp_path) as point:
        yield point


@pytest.mark.parametrize("fault", ["signal=SIGKILL", "error=ENOSPC", "error=EIO"])
@pytest.mark.parametrize("name", EDITS)
def test_cut_at_every_call(tmp_path: Path, place: Path, name: str, fault: str) -> None:
    edit = EDITS[name]
    path = put(place, edit.start)
    old = contents(path)
    calls = calls_of(tmp_path, path, edit)
    new = contents(path)
    assert new != old
    assert len(calls) >= 10
    outcomes = set()
    for call, number in points(calls):
        path.write_bytes(edit.start)
        attempt(tmp_path, path, edit, "-e", f"inject={call}:{fault}:when={number}")
        outcomes.add(check(tmp_path, path, old, new))
        for leftover in [*place.glob("data.asdf.*"), *place.glob(".*orphan*")]:
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    assert outcomes <= {"old", "new", "mixed"}
    assert "new" in outcomes or not DEEP


def open_again(folder: Path, path: Path) -> None:
    with mounted(path, at=folder / "mnt", environment=environment_in(folder)):
        pass


def check(folder: Path, path: Path, old: tuple[bytes, list[bytes]], new: tuple[bytes, list[bytes]]) -> str:
    """After the next open; returns which tree was found (for dd: which block)."""
    open_again(folder, path)
    text, blocks = contents(path)
    assert text in (old[0], new[0])
    for now, before, after in zip(blocks, old[1], new[1], strict=True):
        check_block(now, before, after)
    with opened(path) as found:
        assert found["value"] in (1, 2)
    assert sorted(p.name for p in path.parent.iterdir() if "asdffs" in p.name) == []
    return "new" if (text, blocks) == new else "old" if (text, blocks) == old else "mixed"


def check_block(now: bytes, before: bytes, after: bytes) -> None:
    assert len(before) <= len(now) <= len(after) or len(after) <= len(now) <= len(before)
    assert all(byte in pair for byte, *pair in zip(now, before, after, strict=False))
    assert all(byte in (0, new) for byte, new in zip(now[len(before) :], after[len(before) :], strict=False))


# -- each kind of work on blocks, in each compression -----------------------------
# A compressed block is the old or the new one, whole; a new block is there, or a part of it, or not.

CODECS = sorted(codecs.CODECS)
RNG = np.random.default_rng(8)
ARRAY = np.repeat(RNG.integers(0, 99, 6000, "u1"), 5)
NOISE = RNG.integers(0, 256, 60_000, "u1").tobytes()


def read(point: Path) -> None:
    (point / "blocks/0000.bin").read_bytes()
    os.truncate(point / "blocks/0001.bin", 100)


def overwrite(point: Path) -> None:
    with open(point / "blocks/0000.bin", "r+b", buffering=0) as file:
        file.write(b"\0" * 9000)


def grow(point: Path) -> None:
    with open(point / "blocks/0000.bin", "ab", buffering=0) as file:
        file.write(NOISE)
        os.fsync(file.fileno())


def shrink(point: Path) -> None:
    os.truncate(point / "blocks/0000.bin", 1000)


def recompress(point: Path) -> None:
    os.setxattr(point / "blocks/0000.bin", "user.asdf.compression", b"none")


def append(point: Path) -> None:
    (point / "blocks/0002.bin").write_bytes(NOISE)
    run("sync", point)


BLOCK_EDITS: dict[str, Callable[[Path], None]] = {
    edit.__name__: edit for edit in (read, overwrite, grow, shrink, recompress, append)
}
ALL = [(codec, edit) for codec in CODECS for edit in BLOCK_EDITS if edit != "append"]
#: Unless deep each codec and each kind of work once or twice.
CASES = [("none", "append"), ("bls2", "overwrite"), ("bls2", "grow"), *(ALL if DEEP else ALL[::4])]


def start(folder: Path, codec: str) -> bytes:
    """Two blocks, the first in ``codec``; the shape of the array is not stated, so that it may change."""
    path = folder / "start.asdf"
    file = asdf.AsdfFile({"value": 1, "a": ARRAY, "b": np.arange(300)})
    file.set_array_compression(file["a"], None if codec == "none" else codec)
    file.write_to(path)
    return path.read_bytes()


@pytest.fixture
def _library() -> Iterator[None]:
    with library_with_bls2():
        yield


@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize(("codec", "name"), CASES)
def test_killed(tmp_path: Path, codec: str, name: str) -> None:
    (tmp_path / "files").mkdir()
    path = tmp_path / "files" / "data.asdf"
    edit = Edit(start(tmp_path, codec), BLOCK_EDITS[name])
    path.write_bytes(edit.start)
    old = contents(path)[1]
    calls = calls_of(tmp_path, path, edit)
    new = contents(path)[1]
    assert name in ("read", "recompress") or new[0] != old[0] or len(new) > len(old)
    for call, number in points(calls) if DEEP else [chosen(calls, sum((codec + name).encode()))]:
        path.write_bytes(edit.start)
        attempt(tmp_path, path, edit, "-e", f"inject={call}:signal=SIGKILL:when={number}")
        check_blocks(tmp_path, path, old, new)


def check_blocks(folder: Path, path: Path, old: list[bytes], new: list[bytes]) -> None:
    """After the next open."""
    open_again(folder, path)
    blocks = contents(path)[1]
    assert blocks[0] in (old[0], new[0])
    assert blocks[1] in (old[1], new[1])
    assert NOISE.startswith(b"".join(blocks[2:]).rstrip(b"\0"))
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["data.asdf"]
    assert asdffs("check", "--deep", path, environment=environment_in(folder)).stdout.count("cannot be decoded") == 0
    with asdf.open(path, validate_checksums=True, lazy_load=True, memmap=False) as found:
        assert found["value"] == 1
        for block in found._blocks.blocks:
            assert len(block.data) >= 0  # decodes, and verifies the checksum
