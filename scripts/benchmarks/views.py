"""Compares the .npy file of an array with its block, and measures ``ls -l`` of many arrays."""

from __future__ import annotations

import subprocess
from pathlib import Path

from benchmarks.figures import Figures, Target
from benchmarks.peers import make_sources, mounted
from benchmarks.place import Place, read_all, timed

ARRAYS = 10_000
BLOCK, NPY, LIST = "block, cold, MiB/s", "its .npy, cold, MiB/s", "ls -l of 10,000 arrays, fits={}, /s"
TARGETS: tuple[Target, ...] = ()


def measure(place: Place, figures: Figures) -> None:
    size = place.size(512)
    make_sources(place.folder, size, ARRAYS)
    point = place.folder / "mnt"
    read_all(place.folder / "large.asdf")
    for _ in range(place.rounds):
        for library in place.libraries:
            for row, name in ((BLOCK, "blocks/0000.bin"), (NPY, "arrays/data.npy")):
                with mounted(place.folder / "large.asdf", point, library):
                    figures.add(row, library, size / (1 << 20) / timed(read_all, point / name))
            for fits in ("off", "on"):
                with mounted(place.folder / "small.asdf", point, library, "-o", f"fits={fits}"):
                    figures.add(LIST.format(fits), library, 1 / timed(_list, point / "arrays"))


def _list(folder: Path) -> None:
    subprocess.run(["ls", "-l", folder], check=True, stdout=subprocess.DEVNULL)
