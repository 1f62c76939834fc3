"""Measures the mount of an archive: until it is ready, lists, finds, and its memory after many files were touched."""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks.archive import FILES, SAMPLE, make_archive
from benchmarks.figures import Figures, Target
from benchmarks.peers import mounted, mounted_by_bindfs
from benchmarks.place import Place, memory, run, timed

TOUCHED = 10_000
READY, FIND, RSS = "mount to ready, s", "find -name '*.d' -prune -o -print, s", "RSS after 10,000 files, MiB"
OPEN = "first look into a file, ms"
#: bindfs on the archive has half of the names, and no directory to look at; ``same shape`` has both.
PLAIN, SHAPE = "bindfs", "bindfs, same shape"
TARGETS = (
    Target(READY, "", most=0, plus=0.5),
    Target(FIND, PLAIN, most=2),
    Target(FIND, SHAPE, most=2),
    Target(RSS, "", most=0, plus=150),
)


def measure(place: Place, figures: Figures) -> None:
    count = max(SAMPLE, FILES // place.scale)
    make_archive(place.folder / "archive", count)
    measure_mount(place.folder / "archive", place, figures)


def measure_mount(archive: Path, place: Place, figures: Figures) -> None:
    """Measure the mount of the files in ``archive``, which are in directories of 1,000."""
    shape, point = place.folder / "shape", place.folder / "mnt"
    for file in archive.rglob("*.asdf"):
        copy = shape / file.relative_to(archive)
        copy.with_name(f"{copy.name}.d").mkdir(parents=True)
        copy.touch()
    for _ in range(place.rounds):
        for name, folder in ((PLAIN, archive), (SHAPE, shape)):
            with mounted_by_bindfs(folder, point, "-r"):
                figures.add(FIND, name, timed(_find, point))
        for binding in place.bindings:
            begin = time.perf_counter()
            with mounted(archive, point, binding):
                figures.add(READY, binding, time.perf_counter() - begin)
                figures.add(FIND, binding, timed(_find, point))
    for binding in place.bindings:
        with mounted(archive, point, binding) as pid:
            files = sorted(archive.rglob("*.asdf"))[:TOUCHED]
            seconds = timed(_touch, point, [file.relative_to(archive) for file in files])
            figures.add(OPEN, binding, 1000 * seconds / len(files))
            figures.add(RSS, binding, memory(pid, "VmHWM"))


def _find(point: Path) -> None:
    run("find", point, "-name", "*.d", "-prune", "-o", "-print")


def _touch(point: Path, files: list[Path]) -> None:
    """List the arrays of each file, read its tree and the beginning of its first block."""
    for file in files:
        inside = point / f"{file}.d"
        os.listdir(inside / "arrays")
        (inside / "tree.yaml").read_bytes()
        with open(inside / "blocks/0000.bin", "rb") as block:
            block.read(4096)
