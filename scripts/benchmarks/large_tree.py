"""Compares mounting, saving and validating a tree of 50 MB with a bare ``yaml.parse`` of the same text.

Also measures how long other reads wait during the save.
"""

from __future__ import annotations

import io
import json
import os
import threading
import time
from pathlib import Path

from benchmarks.figures import Figures, Target
from benchmarks.made import make_file
from benchmarks.peers import mounted
from benchmarks.place import ASDFFS, Place, memory, run, timed

SIZE = 50
PARSE = "yaml.parse"
MOUNT, SAVE, CHECK = "50 MB of tree: mount, MB/s", "50 MB of tree: save, MB/s", "50 MB of tree: check, MB/s"
PEAK, HELD = "50 MB of tree: peak RSS, MiB", "50 MB of tree: longest read beside a save, s"
TARGETS = (
    *(Target(row, PARSE, least=0.7) for row in (MOUNT, SAVE)),
    Target(CHECK, PARSE, least=1 / 2.2, of=("asdffs",)),
    Target(PEAK, "the tree", most=5),
    Target(HELD, "", most=0, plus=0.1),
)


def measure(place: Place, figures: Figures) -> None:
    size = SIZE * 10**6 // place.scale
    text = _text(size)
    file = make_file(place.folder / "tree.asdf", 4, 1 << 20, text=text)
    for number in range(min(place.rounds, 3)):
        rate = size / 1e6 / timed(_parse, file)
        for row in (MOUNT, SAVE, CHECK):
            figures.add(row, PARSE, rate)
        figures.add(PEAK, "the tree", size / (1 << 20))
        for library in place.libraries:
            _measure_one(file, place.folder / "mnt", library, size, number, figures)
        figures.add(CHECK, "asdffs", size / 1e6 / timed(run, *ASDFFS, "check", file))


def _text(size: int) -> bytes:
    """Return ``size`` bytes of YAML as a pipeline writes it: mappings, sequences, numbers and strings."""
    piece = (
        b"item%07d:\n  name: detector %d\n  roll: 12.5\n  steps: [1, 2, 3, 4.25, 5.5]\n"
        b"  # where it lies\n  place: {ra: 10.68, dec: 41.26}\n  done: true\n"
    )
    return b"".join(piece % (n, n) for n in range(size // len(piece % (0, 0))))


def _parse(file: Path) -> None:
    import yaml

    with open(file, "rb") as opened:
        text = opened.read()
    stream = io.BytesIO(text[text.index(b"%YAML") : text.index(b"\n...\n") + 5])
    for _ in yaml.parse(stream, Loader=yaml.CSafeLoader):
        pass


def _measure_one(file: Path, point: Path, library: str, size: int, number: int, figures: Figures) -> None:
    point.mkdir(exist_ok=True)
    begin = time.perf_counter()
    with mounted(file, point, library) as pid:
        figures.add(MOUNT, library, size / 1e6 / (time.perf_counter() - begin))
        text = (point / "tree.yaml").read_bytes()
        while json.loads((point / ".asdffs/status.json").read_text())["progress"]:
            time.sleep(0.2)  # a mount reads the tree once after it is ready; wait for that
        with Reader(point / "blocks/0003.bin") as reader:
            seconds = timed(_save, point / "tree.yaml", text.replace(b"value: ", b"value: %d" % number, 1))
        figures.add(SAVE, library, size / 1e6 / seconds)
        figures.add(HELD, library, reader.longest)
        figures.add(PEAK, library, memory(pid, "VmHWM"))


def _save(tree: Path, text: bytes) -> None:
    with open(tree, "wb", buffering=0) as file:
        file.write(text)
        os.fsync(file.fileno())


class Reader:
    """Opens and reads a file repeatedly inside the block.  ``longest``: the longest time of one read in seconds."""

    def __init__(self, path: Path) -> None:
        self.longest = 0.0
        self._path = path
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._ended.wait(0.005):
            self.longest = max(self.longest, timed(self._read))

    def _read(self) -> None:
        with open(self._path, "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            file.read(4096)
