"""Compares reads and writes of a few bytes in a compressed block of 1 GiB with the whole block, and with asdf.

Each is the first one of a new mount.  The stored bytes are in the page cache.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from benchmarks.figures import Figures, Target
from benchmarks.made import make_compressed
from benchmarks.peers import mounted
from benchmarks.place import ASDFFS, Place, read_all, run, timed

LAST, WHOLE = "last row of {}, ms", "whole block"
WRITE, ANEW = "5 bytes written into {}, ms", "stored anew"
SEEKABLE = ("lz4", "blsc", "zstd frames")
#: The asdf library reads the first frame only.
NOT_ASDF = "zstd frames"
ROW = 8192
#: Milliseconds for the first piece that a mount decodes: it imports the library.  That of blosc imports numpy.
FIRST = 75
TARGETS = (
    *(Target(LAST.format(name), WHOLE, most=0.01, plus=FIRST) for name in ("lz4", "blsc")),
    Target(LAST.format("zstd frames"), WHOLE, most=0.05),  # each part of each frame has a header
    Target(LAST.format("zlib, second mount"), WHOLE, most=0.05),
    Target(WRITE.format("lz4"), ANEW, most=0.2),
)


def measure(place: Place, figures: Figures) -> None:
    size = place.size(1024)
    files = {name: make_compressed(place.folder / f"{name}.asdf", size, name) for name in (*SEEKABLE, "zlib")}
    content = place.folder / "content.bin"
    with mounted(files["lz4"], place.folder / "mnt", place.libraries[0]):
        shutil.copy(place.folder / "mnt/blocks/0000.bin", content)
    for _ in range(place.rounds):
        for name, file in files.items():
            _measure_reads(place, figures, name, file)
        _measure_writes(place, figures, files["lz4"], content)


def _measure_reads(place: Place, figures: Figures, name: str, file: Path) -> None:
    mounts = ("first", "second") if name == "zlib" else ("",)
    for library in place.libraries:
        run(*ASDFFS, "cache", "--clear")
        for mount in mounts:
            figures.add(_row(name, mount), library, _in_a_mount(place, file, library, _read_last))
    for mount in mounts:
        figures.add(_row(name, mount), WHOLE, _in_a_mount(place, file, place.libraries[0], read_all))
        if name != NOT_ASDF:
            figures.add(_row(name, mount), "asdf", 1000 * timed(_by_library, file))


def _row(name: str, mount: str) -> str:
    return LAST.format(f"{name}, {mount} mount" if mount else name)


def _measure_writes(place: Place, figures: Figures, file: Path, content: Path) -> None:
    row = WRITE.format("lz4")
    for library in place.libraries:
        figures.add(row, library, _in_a_mount(place, file, library, _write_few))
    figures.add(row, ANEW, 1000 * timed(run, *ASDFFS, "block", file, "0", "--replace", content))
    figures.add(row, "asdf", 1000 * timed(_write_by_library, file))


def _in_a_mount(place: Place, file: Path, library: str, work: Callable[[Path], object]) -> float:
    """Return the milliseconds that ``work`` takes in a new mount."""
    with mounted(file, place.folder / "mnt", library):
        return 1000 * timed(work, place.folder / "mnt/blocks/0000.bin")


def _read_last(path: Path) -> None:
    with open(path, "rb", buffering=0) as file:
        file.seek(-ROW, 2)
        assert len(file.read(ROW)) == ROW


def _write_few(path: Path) -> None:
    with open(path, "r+b", buffering=0) as file:
        file.seek(os.fstat(file.fileno()).st_size // 2)
        file.write(os.urandom(5))
        os.fsync(file.fileno())


def _by_library(file: Path) -> None:
    import asdf

    with asdf.open(file) as opened:
        opened["data"][-ROW // 2 :].sum()


def _write_by_library(file: Path) -> None:
    import asdf

    with asdf.open(file, mode="rw") as opened:
        opened["data"][len(opened["data"]) // 2 :][:3] += 1
        opened.update()
