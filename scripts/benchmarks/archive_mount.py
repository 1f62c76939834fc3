"""Measures the mount of an archive: until it is ready, lists, finds, and its memory after many files were touched."""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks.figures import Figures, Target
from benchmarks.peers import mounted, mounted_by_bindfs
from benchmarks.place import Place, memory, run, timed

TOUCHED = 10_000
READY, FIND, LIST, RSS = "mount to ready, s", "find, s", "ls -lR, s", "RSS after 10,000 files, MiB"
OPEN = "first look into a file, ms"
PEER = "bindfs"
TARGETS = (
    Target(READY, "", most=0, plus=0.5),
    Target(FIND, PEER, most=2),
    Target(LIST, PEER, most=3),
    Target(RSS, "", most=0, plus=250),
)


def measure_mount(archive: Path, place: Place, figures: Figures) -> None:
    """Measure the mount of the files in ``archive``, which are in directories of 1,000."""
    point = place.folder / "mnt"
    for _ in range(place.rounds):
        with mounted_by_bindfs(archive, point, "-r"):
            figures.add(FIND, PEER, timed(run, "find", point))
            figures.add(LIST, PEER, timed(run, "ls", "-lR", point))
        for library in place.libraries:
            begin = time.perf_counter()
            with mounted(archive, point, library):
                figures.add(READY, library, time.perf_counter() - begin)
                figures.add(FIND, library, timed(run, "find", point))
                figures.add(LIST, library, timed(run, "ls", "-lR", point))
    for library in place.libraries:
        with mounted(archive, point, library) as pid:
            files = sorted(archive.rglob("*.asdf"))[:TOUCHED]
            seconds = timed(_touch, point, [file.relative_to(archive) for file in files])
            figures.add(OPEN, library, 1000 * seconds / len(files))
            figures.add(RSS, library, memory(pid, "VmHWM"))


def _touch(point: Path, files: list[Path]) -> None:
    """List the arrays of each file, read its tree and the beginning of its first block."""
    for file in files:
        inside = point / f"{file}.d"
        os.listdir(inside / "arrays")
        (inside / "tree.yaml").read_bytes()
        with open(inside / "blocks/0000.bin", "rb") as block:
            block.read(4096)
