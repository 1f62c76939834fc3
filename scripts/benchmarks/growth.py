"""Compares growing a large file with cp: 64 KiB more tree, and 1 MiB more in a block in the middle."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.figures import Figures, Target
from benchmarks.made import fill, make_file
from benchmarks.peers import mounted, offset_of_block
from benchmarks.place import PIECE, Place, file_systems, run, timed

BLOCKS = 4
#: More than the padding that a growth leaves, so that the blocks move each time.
LINE = 64 << 10
TREE, BLOCK = "tree grows, 8 GiB on {}, s", "a middle block grows, 8 GiB on {}, s"
TARGETS = tuple(
    Target(row.format(kind), "cp", most=0.01) for kind in ("ext4", "xfs", "here") for row in (TREE, BLOCK)
)


def measure(place: Place, figures: Figures) -> None:
    size = place.size(8192)
    with file_systems(place.folder, 3 * size + (1 << 30)) as found:
        for kind, folder in found.items():
            file = _make(folder / "large.asdf", size)
            _measure_on(kind, file, place, figures)
            file.unlink()


def _make(path: Path, size: int) -> Path:
    make_file(path, BLOCKS, size // BLOCKS, padding=64)
    start = offset_of_block(path)
    piece = os.urandom(PIECE)
    for number in range(BLOCKS):
        fill(path, start + 54 + number * (54 + size // BLOCKS), size // BLOCKS, piece)
    os.sync()
    return path


def _measure_on(kind: str, file: Path, place: Place, figures: Figures) -> None:
    for number in range(place.rounds):
        if number < 2:  # a copy takes a minute, and takes the same time in each round
            copy = file.with_name("copy")
            seconds = timed(_copy, file, copy)
            copy.unlink()
            os.sync()
        for name in place.libraries:
            for row in (TREE, BLOCK):
                figures.add(row.format(kind), "cp", seconds)
            mount = place.folder / "mnt"
            with mounted(file, mount, name):
                figures.add(TREE.format(kind), name, timed(_grow_tree, mount / "tree.yaml", number))
                figures.add(BLOCK.format(kind), name, timed(_grow_block, mount / "blocks/0001.bin"))


def _copy(file: Path, copy: Path) -> None:
    run("cp", "--reflink=never", file, copy)
    run("sync", copy)


def _grow_tree(tree: Path, number: int) -> None:
    text = tree.read_bytes()
    line = f"long{number}_{len(text)}: {'x' * LINE}\n".encode()
    with open(tree, "wb", buffering=0) as file:
        file.write(text.replace(b"value: ", line + b"value: "))
        os.fsync(file.fileno())


def _grow_block(block: Path) -> None:
    with open(block, "ab", buffering=0) as file:
        file.write(b"x" * PIECE)
        os.fsync(file.fileno())
