"""Compares setting a value durably in many files with loops over ``asdffs.open`` and the asdf library.

Also measures reading one value.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.figures import Figures, Target
from benchmarks.place import ASDFFS, Place, run, timed

SET = "set a value, per file, ms"
CPU = "set a value, CPU per file, ms"
GET = "get of a small file, s"
SETTER = "asdffs set"
LOOP = "asdffs.open, replace"
TARGETS = (
    Target(SET, LOOP, most=0.33, of=(SETTER,)),
    Target(SET, "asdf update()", most=0.07, of=(SETTER,)),
    Target(CPU, "parse", most=2.0, of=(SETTER,)),
    Target(GET, "import yaml", most=2.1, of=("asdffs get",)),
)
#: Number of files, and of keys in each tree.  A tree has 27 KB, as in a file of Roman.
FILES = 2000
KEYS = 900


def measure(place: Place, figures: Figures) -> None:
    files = _make(place.folder, max(20, FILES // place.scale))
    for number in range(place.rounds):
        figures.add(CPU, "parse", _parse(files[0]))
        _per_file(figures, SETTER, files, [*ASDFFS, "set", f"meta.value={number}a", *files])
        _per_file(figures, LOOP, files, [sys.executable, "-c", _LOOP, str(number), *files])
        _per_file(figures, "asdf update()", files, [sys.executable, "-c", _UPDATE, str(number), *files])
        figures.add(GET, "import yaml", timed(run, sys.executable, "-c", "import yaml"))
        figures.add(GET, "asdffs get", timed(run, *ASDFFS, "get", "meta.value", files[0]))


_LOOP = """
import re, sys, asdffs
for path in sys.argv[2:]:
    with asdffs.open(path, "r+") as document:
        document.tree_text = re.sub(r"value: \\w+", f"value: {sys.argv[1]}b", document.tree_text, count=1)
"""
_UPDATE = """
import sys, asdf
for path in sys.argv[2:]:
    with asdf.open(path, mode="rw") as file:
        file["meta"]["value"] = f"{sys.argv[1]}c"
        file.update()
"""


def _make(folder: Path, count: int) -> list[Path]:
    import asdf
    import numpy as np

    tree = {"meta": {"value": "x"} | {f"key_number_{n}": f"text {n}" for n in range(KEYS)}, "data": np.arange(1000)}
    files = [folder / f"f{number:04d}.asdf" for number in range(count)]
    for path in files:
        asdf.AsdfFile(tree).write_to(path, pad_blocks=0.1)
    return files


def _per_file(figures: Figures, peer: str, files: list[Path], words: list[object]) -> None:
    """Measure wall time and CPU time per file of a command that changes ``files``."""
    os.sync()
    before, cpu = time.monotonic(), _children()
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    figures.add(SET, peer, 1000 * (time.monotonic() - before) / len(files))
    figures.add(CPU, peer, 1000 * (_children() - cpu) / len(files))


def _children() -> float:
    used = os.times()
    return used.children_user + used.children_system


def _parse(path: Path) -> float:
    """Return the CPU time of one parse of the tree by PyYAML's C parser, in ms."""
    import yaml

    text = path.read_bytes().partition(b"\n...")[0].partition(b"\n%")[2]
    before = time.process_time()
    for _ in range(20):
        for _ in yaml.parse(b"%" + text, Loader=yaml.CSafeLoader):
            pass
    return 1000 * (time.process_time() - before) / 20
