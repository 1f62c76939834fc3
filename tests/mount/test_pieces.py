"""Random reads of compressed blocks in a mount: two threads, a small spool, and limited memory."""

from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asdf
import numpy as np
import pytest
from support.mounts import Mounted, mounted

pytestmark = pytest.mark.mount
DEEP = bool(os.environ.get("ASDFFS_DEEP"))
RNG = np.random.default_rng(11)
#: 48 MiB and a bit.
CONTENT = np.repeat(RNG.integers(0, 250, 12_600_001, "u1"), 4)
READS = 5000 if DEEP else 400
#: The daemon may keep that much more than when it was idle.
MORE = 64 << 20


def memory(mount: Mounted) -> int:
    """Bytes of memory of the daemon now."""
    lines = Path(f"/proc/{mount.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS:"))


def read_at_random(path: Path, seed: int) -> int:
    """Compare random reads of 4 KiB, and some beside multiples of 4 MiB, with the content; return how many differ."""
    chosen, wrong = random.Random(seed), 0
    file = os.open(path, os.O_RDONLY)
    try:
        for _ in range(READS):
            place = chosen.choice([chosen.randrange(len(CONTENT)), chosen.randrange(1, 12) * (4 << 20) - 1])
            wrong += os.pread(file, 4096, place) != CONTENT[place : place + 4096].tobytes()
    finally:
        os.close(file)
    return wrong


@pytest.mark.parametrize("codec", ["lz4", "blsc", "zlib"])
def test_two_threads_at_random_places(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "data.asdf"
    asdf.AsdfFile({"data": CONTENT}).write_to(path, all_array_compression=codec)
    with mounted(path, "-o", "spool_max=24M") as mount:
        idle = memory(mount)
        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(read_at_random, [mount.block(0)] * 2, (1, 2))) == [0, 0]
        assert memory(mount) <= idle + MORE
