"""SIGKILL of a real daemon at every write-like system call, by strace; then a mount and unmount.

The tree is the old or the new one, whole; every byte of a block is old or just written;
other blocks are identical; the asdf library opens the file.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.mounts import LIMIT, asdffs, environment_in, lazily_unmount, run
from support.samples import odd_file, opened

from asdffs.document.opening import open_document
from asdffs.vfs.scratch import read_bytes

#: Every call by which the daemon changes a file system.
CALLS = "pwrite64,write,ftruncate,fdatasync,fsync,rename,unlink,copy_file_range,fchmod,fchown,fsetxattr,openat"
COUNTED = tuple(call for call in CALLS.split(",") if call not in ("openat", "write"))
OLD = b"value: 1\n"


def can_trace() -> bool:
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode == 0


pytestmark = [
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
    command = [
        "dd",
        "if=/dev/zero",
        f"of={point}/blocks/0000.bin",
        "bs=10",
        "seek=3",
        "count=5",
        "conv=notrunc,fsync",
    ]
    run(*command)
    run("sync", point)


EDITS = {
    "a save that fits": Edit(odd_file(padding=b" " * 900), save(b"value: 2\nmore: " + b"y" * 300 + b"\n")),
    "a save that grows": Edit(odd_file(), save(b"value: 2\nmore: " + b"y" * 9000 + b"\n")),
    "a dd": Edit(odd_file(), dd),
}


class Traced:
    """A foreground daemon under strace."""

    def __init__(self, folder: Path, *inject: str) -> None:
        self.file, self.point, self.log = folder / "data.asdf", folder / "mnt", folder / "trace"
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
            self.process.wait(10)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(LIMIT)
        assert self.process.stderr is not None
        self.process.stderr.close()
        lazily_unmount(self.point)


def attempt(folder: Path, edit: Edit, *inject: str) -> None:
    """Start, edit, unmount; a kill may come at any moment."""
    traced = Traced(folder, *inject)
    try:
        if traced.ready:
            with contextlib.suppress(OSError):
                edit.work(traced.point)
    finally:
        traced.end()


def contents(path: Path) -> tuple[bytes, list[bytes]]:
    document = open_document(str(path), writable=False)
    blocks = [read_bytes(document.read_block(n, 0, document.block_size(n))) for n in range(document.block_count)]
    found = document.tree.text(), blocks
    document.close()
    return found


def calls_of(folder: Path, edit: Edit) -> list[str]:
    """The calls that an undisturbed run makes after the mount is ready, in order."""
    attempt(folder, edit)
    lines = (folder / "trace").read_text(errors="replace").splitlines()
    return [call for line in lines for call in COUNTED if f" {call}(" in f" {line.split(' ', 1)[1].strip()}"]


@pytest.mark.parametrize("name", EDITS)
def test_killed_at_every_call(tmp_path: Path, name: str) -> None:
    edit = EDITS[name]
    path = tmp_path / "data.asdf"
    path.write_bytes(edit.start)
    old = contents(path)
    calls = calls_of(tmp_path, edit)
    new = contents(path)
    assert new != old
    assert len(calls) >= 10
    outcomes = set()
    for call in COUNTED:
        for number in range(1, calls.count(call) + 1):
            for leftover in tmp_path.glob("*.yaml"):
                leftover.unlink()
            path.write_bytes(edit.start)
            attempt(tmp_path, edit, "-e", f"inject={call}:signal=SIGKILL:when={number}")
            outcomes.add(check(tmp_path, path, old, new))
    assert {"old", "new"} <= outcomes


def check(folder: Path, path: Path, old: tuple[bytes, list[bytes]], new: tuple[bytes, list[bytes]]) -> str:
    """After the next open; returns which tree was found (for dd: which block)."""
    environment = environment_in(folder)
    done = asdffs("mount", path, folder / "mnt", environment=environment)
    assert done.returncode == 0, done.stderr
    assert asdffs("umount", folder / "mnt", environment=environment).returncode == 0
    text, blocks = contents(path)
    assert text in (old[0], new[0])
    for now, before, after in zip(blocks, old[1], new[1], strict=True):
        assert len(now) == len(before)
        assert all(byte in pair for byte, *pair in zip(now, before, after, strict=True))
    with opened(path) as found:
        assert found["value"] in (1, 2)
    assert sorted(p.name for p in folder.iterdir() if "asdffs" in p.name) == []
    return "new" if (text, blocks) == new else "old"
