"""kill -9 of a real daemon during each kind of work on blocks, in each compression, at a system call by strace.

Then a mount and unmount: a compressed block is the old or the new one, whole; a new block is there, or a part
of it, or not; the asdf library reads the file, checksums verified.  ``./scripts/test --deep`` tries every call.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import asdf
import numpy as np
import pytest
from crash.test_killed import DEEP, Edit, attempt, calls_of, can_trace, contents
from support import codecs
from support.mounts import asdffs, environment_in, run

pytestmark = [
    pytest.mark.long,
    pytest.mark.mount,
    pytest.mark.strace,
    pytest.mark.skipif(not can_trace(), reason="needs strace and the right to trace"),
]
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


EDITS: dict[str, Callable[[Path], None]] = {
    edit.__name__: edit for edit in (read, overwrite, grow, shrink, recompress, append)
}
ALL = [(codec, edit) for codec in CODECS for edit in EDITS if edit != "append"]
#: Unless deep each codec and each kind of work once or twice.
CASES = [("none", "append"), *(ALL if DEEP else ALL[::4])]


def start(folder: Path, codec: str) -> bytes:
    """Two blocks, the first in ``codec``; the shape of the array is not stated, so that it may change."""
    path = folder / "start.asdf"
    file = asdf.AsdfFile({"value": 1, "a": ARRAY, "b": np.arange(300)})
    file.set_array_compression(file["a"], None if codec == "none" else codec)
    file.write_to(path)
    return path.read_bytes()


def points(calls: list[str], seed: str) -> list[tuple[str, int]]:
    """Each call and which of its kind it is; one of them unless deep, another in each case."""
    found = [(call, calls[: place + 1].count(call)) for place, call in enumerate(calls)]
    return found if DEEP else [found[sum(seed.encode()) % len(found)]]


@pytest.mark.parametrize(("codec", "name"), CASES)
def test_killed(tmp_path: Path, codec: str, name: str) -> None:
    (tmp_path / "files").mkdir()
    path = tmp_path / "files" / "data.asdf"
    edit = Edit(start(tmp_path, codec), EDITS[name])
    path.write_bytes(edit.start)
    old = contents(path)[1]
    calls = calls_of(tmp_path, path, edit)
    new = contents(path)[1]
    assert name in ("read", "recompress") or new[0] != old[0] or len(new) > len(old)
    for call, number in points(calls, codec + name):
        path.write_bytes(edit.start)
        attempt(tmp_path, path, edit, "-e", f"inject={call}:signal=SIGKILL:when={number}")
        check(tmp_path, path, old, new)


def check(folder: Path, path: Path, old: list[bytes], new: list[bytes]) -> None:
    """After the next open."""
    environment = environment_in(folder)
    done = asdffs("mount", path, folder / "mnt", environment=environment)
    assert done.returncode == 0, done.stderr
    assert asdffs("umount", folder / "mnt", environment=environment).returncode == 0
    blocks = contents(path)[1]
    assert blocks[0] in (old[0], new[0])
    assert blocks[1] in (old[1], new[1])
    assert NOISE.startswith(b"".join(blocks[2:]).rstrip(b"\0"))
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["data.asdf"]
    assert asdffs("check", "--deep", path, environment=environment).stdout.count("cannot be decoded") == 0
    with asdf.open(path, validate_checksums=True, lazy_load=True, memmap=False) as found:
        assert found["value"] == 1
        for block in found._blocks.blocks:
            assert len(block.data) >= 0  # decodes, and verifies the checksum
