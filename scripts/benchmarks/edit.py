"""Compares a durable edit of one value, by ``sed -i`` in a mount, with the asdf library and asdftool."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from benchmarks.figures import Figures, Target
from benchmarks.peers import mounted
from benchmarks.place import BIN, Place, run, timed

ROW = "edit that fits, 1 GiB, s"
TARGETS = (Target(ROW, "asdf update()", most=0.02), Target(ROW, "asdftool edit", most=0.05))


def measure(place: Place, figures: Figures) -> None:
    file = _make(place.folder / "data.asdf", place.size(1024))
    by_library, by_tool = (Path(shutil.copy(file, place.folder / name)) for name in ("library.asdf", "tool.asdf"))
    os.sync()  # otherwise the first edit waits until all of the new file is on the disk
    for number in range(place.rounds):
        for turn, library in enumerate(place.libraries):
            with mounted(file, place.folder / "mnt", library):
                tree = place.folder / "mnt/tree.yaml"
                figures.add(ROW, library, timed(_sed, tree, number * len(place.libraries) + turn))
        os.sync()
        figures.add(ROW, "asdf update()", timed(_update, by_library, number))
        os.sync()
        figures.add(ROW, "asdftool edit", timed(_asdftool, by_tool, number))
        os.sync()


def _make(path: Path, size: int) -> Path:
    import asdf
    import numpy as np

    content = np.frombuffer(os.urandom(1 << 20) * (size >> 20), dtype="u1")
    asdf.AsdfFile({"value": 1, "data": content}).write_to(path, pad_blocks=0.1)
    return path


def _sed(tree: Path, number: int) -> None:
    """Set the value to ``number % 10``.  It must be another one each time: saving the same text writes nothing."""
    subprocess.run(["sed", "-i", f"s/^value: .*/value: {number % 10}/", tree], check=True)


def _update(file: Path, number: int) -> None:
    import asdf

    with asdf.open(file, mode="rw") as opened:
        opened["value"] = number
        opened.update()


def _asdftool(file: Path, number: int) -> None:
    run(BIN / "asdftool", "edit", file, EDITOR=f"sed -i s/^value:.*/value:\\ {number % 10 + 11}/", VISUAL="")
