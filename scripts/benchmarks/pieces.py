"""Compares a read at the end of a compressed block of 1 GiB with one of the whole block, and with the asdf library.

Each read is the first one of a new mount.  The stored bytes are in the page cache.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.figures import Figures, Target
from benchmarks.made import make_compressed
from benchmarks.peers import mounted
from benchmarks.place import Place, read_all, timed

LAST, WHOLE = "last row of {}, ms", "whole block"
SEEKABLE = ("lz4", "blsc")
CODECS = (*SEEKABLE, "zlib")
ROW = 8192
TARGETS = tuple(Target(LAST.format(name), WHOLE, most=0.01) for name in SEEKABLE)


def measure(place: Place, figures: Figures) -> None:
    size = place.size(1024)
    files = {name: make_compressed(place.folder / f"{name}.asdf", size, name) for name in CODECS}
    for _ in range(place.rounds):
        for name, file in files.items():
            row = LAST.format(name)
            for binding in place.bindings:
                figures.add(row, binding, _in_a_mount(place, file, binding, _read_last))
            figures.add(row, WHOLE, _in_a_mount(place, file, place.bindings[0], read_all))
            figures.add(row, "asdf", 1000 * timed(_by_library, file))


def _in_a_mount(place: Place, file: Path, binding: str, read: Callable[[Path], object]) -> float:
    """Return the milliseconds that ``read`` takes in a new mount."""
    with mounted(file, place.folder / "mnt", binding):
        return 1000 * timed(read, place.folder / "mnt/blocks/0000.bin")


def _read_last(path: Path) -> None:
    with open(path, "rb", buffering=0) as file:
        file.seek(-ROW, 2)
        assert len(file.read(ROW)) == ROW


def _by_library(file: Path) -> None:
    import asdf

    with asdf.open(file) as opened:
        opened["data"][-ROW // 2 :].sum()
