"""Compares setting a value durably in many files with loops over ``asdffs.open`` and the asdf library.

Also measures reading the value and checking the files, beside a parse of the tree by PyYAML's C parser.  It is parsed
before and after each command, because the speed of a virtual processor changes within seconds.
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
#: The most parses that each may take.
MOST = {"get a value": 2.0, "check": 2.2, "set a value": 3.0}
#: Parses before a command, and after it: about a second.
PARSES = 200
COMMAND = "asdffs"
LOOP = "asdffs.open, replace"
TARGETS = (
    Target(SET, "asdf update()", most=0.17, of=(COMMAND,)),
    *(Target(CPU.format(name), "parse", most=most, of=(COMMAND,)) for name, most in MOST.items()),
)
#: Number of files, and of keys in each tree.  A tree has 50 KB, as in a file of Roman.
FILES = 1000
KEYS = 1650


def measure(place: Place, figures: Figures) -> None:
    files = _make(place.folder, max(20, FILES // place.scale))
    for number in range(place.rounds):
        for name, (command, *words) in COMMANDS.items():
            _measure_command(figures, name, [*ASDFFS, command, *(word.format(number) for word in words)], files)
        for peer, code in ((LOOP, _LOOP), ("asdf update()", _UPDATE)):
            seconds, _ = _run([sys.executable, "-c", code, str(number), *files])
            figures.add(SET, peer, 1000 * seconds / len(files))


def _measure_command(figures: Figures, name: str, words: list[object], files: list[Path]) -> None:
    """Measure the processor time of a command for each file, without that of its start."""
    before = _parse(files[0])
    _, start = _run([*words, files[0]])
    seconds, used = _run([*words, *files[1:]])
    figures.add(CPU.format(name), "parse", (before + _parse(files[0])) / 2)
    figures.add(CPU.format(name), COMMAND, 1000 * (used - start) / (len(files) - 2))
    if words[3] == "set":
        figures.add(SET, COMMAND, 1000 * seconds / (len(files) - 1))


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


def _run(words: list[object]) -> tuple[float, float]:
    """Run a command; return its time and its processor time in seconds."""
    os.sync()
    before, used = time.monotonic(), _children()
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - before, _children() - used


def _children() -> float:
    used = os.times()
    return used.children_user + used.children_system


def _parse(path: Path) -> float:
    """Return the CPU time of one parse of the tree by PyYAML's C parser, in ms."""
    import yaml

    text = path.read_bytes().partition(b"\n...")[0].partition(b"\n%")[2]
    before = time.process_time()
    for _ in range(PARSES):
        for _ in yaml.parse(b"%" + text, Loader=yaml.CSafeLoader):
            pass
    return 1000 * (time.process_time() - before) / PARSES
