"""Random reads of compressed blocks in a mount: two threads, a small spool, and limited memory."""

from __future__ import annotations

import contextlib
import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asdf
import numpy as np
import pytest
from support.mounts import mounted
from support.processes import bytes_of, memory, until

pytestmark = pytest.mark.mount
DEEP = bool(os.environ.get("ASDFFS_DEEP"))
RNG = np.random.default_rng(11)
#: 48 MiB and a bit.
CONTENT = np.repeat(RNG.integers(0, 250, 12_600_001, "u1"), 4)
READS = 5000 if DEEP else 200
#: The daemon may keep that much more than when it was idle.
MORE = 64 << 20


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


@pytest.mark.long
@pytest.mark.parametrize("codec", ["lz4", "blsc", "zlib"])
def test_two_threads_at_random_places(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "data.asdf"
    asdf.AsdfFile({"data": CONTENT}).write_to(path, all_array_compression=codec)
    with mounted(path, "-o", "spool_max=24M") as mount:
        idle = memory(mount.pid)
        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(read_at_random, [mount.block(0)] * 2, (1, 2))) == [0, 0]
        assert memory(mount.pid) <= idle + MORE


@pytest.mark.parametrize("replaced", [False, True])
def test_what_was_written_is_kept_if_another_program_changes_the_file(tmp_path: Path, *, replaced: bool) -> None:
    """A replaced file has the other pieces still; one that was changed in place has not: they are zeros."""
    path, other = tmp_path / "data.asdf", tmp_path / "other.asdf"
    asdf.AsdfFile({"data": CONTENT}).write_to(path, all_array_compression="lz4")
    asdf.AsdfFile({"data": np.arange(9)}).write_to(other)
    with mounted(path, code=7) as mount:
        file = os.open(mount.block(0), os.O_RDWR)
        os.pwrite(file, b"PRECIOUS", 9 << 20)
        if replaced:
            os.replace(other, path)
        else:
            path.write_bytes(other.read_bytes())
        until(lambda: mount.status["conflict"] != [])
        with contextlib.suppress(OSError):
            os.close(file)
    kept = (tmp_path / "data.asdf.conflict-1.block-0000.bin").read_bytes()
    assert len(kept) == CONTENT.size
    model = CONTENT.tobytes()
    assert kept[9 << 20 :][:8] == b"PRECIOUS"
    expected = model[: 9 << 20] + b"PRECIOUS" + model[(9 << 20) + 8 :]
    if replaced:
        assert kept == expected
    else:
        odd = np.frombuffer(kept, "u1") != np.frombuffer(expected, "u1")
        assert odd.any()
        assert not np.frombuffer(kept, "u1")[odd].any()


def test_five_bytes_are_stored_without_the_other_pieces(tmp_path: Path) -> None:
    """The daemon writes pieces to spool, journal and file instead of blocks; asdf reads what was written."""
    path = tmp_path / "data.asdf"
    asdf.AsdfFile({"data": CONTENT, "more": np.arange(99)}).write_to(path, all_array_compression="lz4")
    with mounted(path) as mount:
        before = bytes_of(mount.pid, "wchar")
        for place in (5, 30 << 20, CONTENT.size - 5):
            file = os.open(mount.block(0), os.O_WRONLY)
            os.pwrite(file, b"12345", place)
            os.fsync(file)
            os.close(file)
        assert bytes_of(mount.pid, "wchar") - before < 40 << 20
    with asdf.open(path, validate_checksums=True, lazy_load=False, memmap=False) as found:
        model = CONTENT.copy()
        for place in (5, 30 << 20, CONTENT.size - 5):
            model[place : place + 5] = np.frombuffer(b"12345", "u1")
        assert np.array_equal(found["data"], model)
        assert np.array_equal(found["more"], np.arange(99))


@pytest.mark.long
def test_pieces_are_read_while_others_are_stored(tmp_path: Path) -> None:
    """One thread writes and syncs, two read elsewhere in the same block, with a spool that is smaller than it."""
    path = tmp_path / "data.asdf"
    asdf.AsdfFile({"data": CONTENT}).write_to(path, all_array_compression="lz4")
    model = CONTENT.copy()
    with mounted(path, "-o", "spool_max=24M") as mount:
        with ThreadPoolExecutor(3) as pool:
            reads = [pool.submit(read_beside, mount.block(0), seed) for seed in (1, 2)]
            file = os.open(mount.block(0), os.O_WRONLY)
            for number in range(30):
                place = (number * 7 % 48) << 20
                os.pwrite(file, b"%05d" % number, place)
                os.fsync(file)
                model[place : place + 5] = np.frombuffer(b"%05d" % number, "u1")
            os.close(file)
            assert [read.result() for read in reads] == [0, 0]
        assert np.array_equal(np.frombuffer(mount.block(0).read_bytes(), "u1"), model)
    with asdf.open(path, validate_checksums=True, lazy_load=False, memmap=False) as found:
        assert np.array_equal(found["data"], model)


def read_beside(path: Path, seed: int) -> int:
    """Compare random reads of 4 KiB, none at the beginning of a MiB, with the content; return how many differ."""
    chosen, wrong = random.Random(seed), 0
    with open(path, "rb", buffering=0) as file:
        for _ in range(READS):
            place = chosen.randrange(1, 47) * (1 << 20) + chosen.randrange(5, (1 << 20) - 4096)
            wrong += os.pread(file.fileno(), 4096, place) != CONTENT[place : place + 4096].tobytes()
    return wrong
