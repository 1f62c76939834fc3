"""Compares setting a value durably in many files with loops over ``asdffs.open`` and the asdf library.

Also measures reading the value and checking the files, beside one parse of each tree by PyYAML's C parser.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.figures import Figures, Target
from benchmarks.place import ASDFFS, Place

SET = "set a value, per file, ms"
CPU = "{}, CPU per file, ms"
#: Commands on all files whose processor time is compared with a parse.
COMMANDS = {"get a value": ("get", "meta.value"), "check": ("check",), "set a value": ("set", "meta.value={}a")}
SETTER = "asdffs"
LOOP = "asdffs.open, replace"
TARGETS = (
    Target(SET, LOOP, most=0.33, of=(SETTER,)),
    Target(SET, "asdf update()", most=0.07, of=(SETTER,)),
    *(Target(CPU.format(name), "parse", most=2.0, of=(SETTER,)) for name in COMMANDS),
)
#: Number of files, and of keys in each tree.  A tree has 50 KB, as in a file of Roman.
FILES = 1000
KEYS = 1650


def measure(place: Place, figures: Figures) -> None:
    files = _make(place.folder, max(20, FILES // place.scale))
    for number in range(place.rounds):
        for name, (command, *words) in COMMANDS.items():
            figures.add(CPU.format(name), "parse", _parse(files[0]))
            chosen = [word.format(number) for word in words]
            _per_file(figures, SETTER, files, [*ASDFFS, command, *chosen, *files], cpu_row=CPU.format(name))
        _per_file(figures, LOOP, files, [sys.executable, "-c", _LOOP, str(number), *files])
        _per_file(figures, "asdf update()", files, [sys.executable, "-c", _UPDATE, str(number), *files])


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


def _per_file(figures: Figures, peer: str, files: list[Path], words: list[object], cpu_row: str = "") -> None:
    """Measure wall time per file of a command; and its CPU time, without that of its start, in ``cpu_row``."""
    os.sync()
    start = _cpu(words[: -len(files) + 1]) if cpu_row else 0.0
    before = time.monotonic()
    used = _cpu(words)
    if not cpu_row or "set" in cpu_row:
        figures.add(SET, peer, 1000 * (time.monotonic() - before) / len(files))
    if cpu_row:
        figures.add(cpu_row, peer, 1000 * (used - start) / (len(files) - 1))


def _cpu(words: list[object]) -> float:
    """Run a command, and return its CPU time in seconds."""
    before = _children()
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return _children() - before


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
