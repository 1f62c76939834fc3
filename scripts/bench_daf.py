"""Compares packing a FilesDaf store with cp -r, and reading it in a mount with reading its block.

Each file is read once before.  The programs alternate in each round, and medians are compared.  Needs root, and
three times the size of free disk space.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

_PIECE = 1 << 20


def make_store(root: Path, size: int) -> Path:
    """Make a store with one dense matrix of ``size`` bytes, and return the path of its payload."""
    rows, columns = 1 << 12, size >> 15
    for folder in ("scalars", "axes", "vectors/a", "vectors/b", "matrices/a/b"):
        (root / folder).mkdir(parents=True)
    (root / "daf.json").write_text('{"version":[1,0]}\n')
    (root / "axes/a.txt").write_text("".join(f"c{n}\n" for n in range(rows)))
    (root / "axes/b.txt").write_text("".join(f"g{n}\n" for n in range(columns)))
    (root / "matrices/a/b/m.json").write_text('{"format":"dense","eltype":"Float64"}\n')
    payload = root / "matrices/a/b/m.data"
    np.random.default_rng(1).random(rows * columns).tofile(payload)
    return payload


def timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def asdffs(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "asdffs", *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def read_cold(path: Path) -> float:
    """Return the seconds to read all of a file, after its pages were dropped from the cache."""
    fd = os.open(path, os.O_RDONLY)
    buffer = bytearray(_PIECE)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        begin = time.perf_counter()
        while os.readv(fd, [buffer]):
            continue
        return time.perf_counter() - begin
    finally:
        os.close(fd)


def measure_packing(folder: Path, store: Path, rounds: int) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    copy, packed = folder / "copy.daf", folder / "packed.asdf"
    ways: dict[str, Callable[[], object]] = {
        "cp -r": lambda: subprocess.run(["cp", "-r", store, copy], check=True),
        "daf pack": lambda: asdffs("daf", "pack", store, packed),
    }
    for _ in range(rounds):
        for name, work in ways.items():
            shutil.rmtree(copy, ignore_errors=True)
            packed.unlink(missing_ok=True)
            os.sync()
            found.setdefault(name, []).append(timed(work))
    asdffs("daf", "pack", "--force", store, packed)
    return {name: statistics.median(times) for name, times in found.items()}


def measure_reading(folder: Path, payload: Path, rounds: int) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    point = folder / "mnt"
    point.mkdir()
    asdffs("mount", folder / "packed.asdf", point)
    try:
        blocks = sorted((point / "blocks").iterdir(), key=lambda path: path.stat().st_size)
        ways = {"its block": blocks[-1], "daf/": point / "daf/matrices/a/b" / payload.name, "native": payload}
        for path in ways.values():
            read_cold(path)
        for _ in range(rounds):
            for name, path in ways.items():
                found.setdefault(name, []).append(read_cold(path))
    finally:
        asdffs("umount", point)
    return {name: statistics.median(times) for name, times in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1024, metavar="MIB", help="size of the matrix (default 1024)")
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds (default 5)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="asdffs-bench-") as name:
        folder = Path(name)
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        payload = make_store(folder / "store.daf", chosen.size << 20)
        packing = measure_packing(folder, folder / "store.daf", chosen.rounds)
        reading = measure_reading(folder, payload, chosen.rounds)
    facts = {
        "MiB": chosen.size,
        "pack_seconds": packing,
        "pack_ratio": packing["daf pack"] / packing["cp -r"],
        "read_MiB_per_second": {name: chosen.size / seconds for name, seconds in reading.items()},
        "read_ratio": reading["its block"] / reading["daf/"],
    }
    if chosen.json:
        print(json.dumps(facts, indent=2))
        return
    print(f"{chosen.size} MiB: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in packing.items()))
    print(f"packing takes {facts['pack_ratio']:.2f} x cp -r")
    print(", ".join(f"{name} {chosen.size / seconds:.0f} MiB/s" for name, seconds in reading.items()) + ", cold")
    print(f"daf/ is read at {facts['read_ratio']:.2f} x its block")


if __name__ == "__main__":
    main()
