"""Growth costs nothing like the file: 8 GiB on ext4 and XFS (``./scripts/test --deep``)."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from support.filesystems import filesystem
from support.mounts import mounted, run
from support.processes import bytes_of
from support.samples import DATA, MASK, block_bytes, header_bytes, odd_file

DEEP = bool(os.environ.get("ASDFFS_DEEP"))
pytestmark = [
    pytest.mark.long,
    pytest.mark.mount,
    pytest.mark.skipif(not DEEP, reason="writes 8 GiB: ./scripts/test --deep"),
]

SIZE = 8 << 30
MIB = 1 << 20


def make(path: Path) -> None:
    """A tree, two small blocks, and one of 8 GiB without holes."""
    start = odd_file(blocks=[block_bytes(DATA), block_bytes(MASK)], index="absent")
    header = bytearray(header_bytes(b"", md5=False))
    for place in (14, 22, 30):
        header[place : place + 8] = SIZE.to_bytes(8, "big")
    with open(path, "wb") as file:
        file.write(start + header)
        piece = os.urandom(MIB)
        for _ in range(SIZE // MIB):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    assert path.stat().st_blocks * 512 >= SIZE


@pytest.mark.parametrize(("kind", "growth"), [("ext4", "insert"), ("xfs", "clone"), ("xfs", "insert")])
def test_a_tree_that_grows_by_a_mebibyte(tmp_path: Path, kind: str, growth: str) -> None:
    with filesystem(kind, tmp_path, SIZE + (600 << 20)) as place:
        path = place / "data.asdf"
        make(path)
        link = tmp_path / "data.asdf"
        link.symlink_to(path)
        with mounted(link, "-o", f"growth={growth}") as mount:
            text = mount.tree.read_bytes()
            grown = text.replace(b"value: 1\n", b"value: 2\nlong: " + b"x" * MIB + b"\n")
            before, begin = bytes_of(mount.pid, "write_bytes"), time.monotonic()
            mount.tree.write_bytes(grown)
            took, amount = time.monotonic() - begin, bytes_of(mount.pid, "write_bytes") - before
            begin = time.monotonic()
            mount.tree.write_bytes(grown.replace(b"xxx", b"yyy"))
            fitting = time.monotonic() - begin
            print(f"{kind}, {growth}: {amount / MIB:.2f} MiB, {took * 1000:.0f} ms; fitting {fitting * 1000:.0f} ms")
            assert mount.status["growth"] == growth
            assert amount < 4 * MIB
            before = bytes_of(mount.pid, "write_bytes")
            with open(mount.block(0), "ab", buffering=0) as file:
                file.write(b"z" * MIB)
            assert mount.status["growth"] == growth
            assert bytes_of(mount.pid, "write_bytes") - before < 4 * MIB
        with open(path, "rb") as file:
            file.seek(-SIZE // 2, os.SEEK_END)
            assert any(file.read(4096))
        done = run("cmp", "-n", "1000", path, path)
        assert done.returncode == 0
