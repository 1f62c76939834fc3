"""Measures the start of commands on a small file, and the time from the command to a usable mount.

The mounts are of small files, many blocks, and a large file.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.figures import Figures, Target
from benchmarks.made import make_file
from benchmarks.place import ASDFFS, BIN, Place, run, timed

IMPORTS = "import yaml, mfusepy"
#: Row -> number of blocks, bytes in each.
FILES = {
    "mount, small tree, s": (0, 0),
    "mount, 1 block, s": (1, 8),
    "mount, 100,000 blocks, s": (100_000, 8),
    "mount, 100 GB, s": (1, 100 * 10**9),
}
MANY = "mount, 100,000 blocks, s"
#: Commands on a small file.
COMMANDS = {"get, s": ("get", "value"), "info, s": ("info",)}
TARGETS = (
    *(Target(row, "import yaml", most=2.1, of=("asdffs",)) for row in COMMANDS),
    *(
        Target(row, IMPORTS, most=1, plus=0.15 if row == MANY else 0.05, of=(name,))
        for row in FILES
        for name in ("libfuse3", "libfuse2")
    ),
)


def measure(place: Place, figures: Figures) -> None:
    files = {row: make_file(place.folder / f"{n}.asdf", *shape) for n, (row, shape) in enumerate(FILES.items())}
    point = place.folder / "mnt"
    point.mkdir()
    small = files["mount, 1 block, s"]
    for _ in range(place.rounds):
        for row, words in COMMANDS.items():
            figures.add(row, "import yaml", timed(_run_alone, [sys.executable, "-c", "import yaml"]))
            figures.add(row, "asdffs", timed(run, BIN / "asdffs", *words, small))
        for row, file in files.items():
            for name in place.libraries:
                figures.add(row, IMPORTS, timed(_run_alone, [sys.executable, "-c", IMPORTS]))
                figures.add(row, name, _mount(file, point, name))
            words = [sys.executable, "-c", f"import asdf; asdf.open({str(file)!r})"]
            figures.add(row, "asdf.open", timed(_run_alone, words))


def _run_alone(words: list[str]) -> None:
    environment = {**os.environ, "FUSE_LIBRARY_NAME": "fuse3"}  # the library that asdffs uses
    subprocess.run(words, check=True, env=environment, stderr=subprocess.DEVNULL)


def _mount(file: Path, point: Path, library: str) -> float:
    def usable() -> None:
        run(BIN / "asdffs", "mount", "--libfuse", library[-1], file, point)
        assert "tree.yaml" in os.listdir(point)

    try:
        return timed(usable)
    finally:
        run(*ASDFFS, "umount", point)
