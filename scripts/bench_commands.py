"""Compares the commands that need no mount with cp and asdftool: seconds, and ratios to cp.

The file has ``--size`` MiB in four blocks.  Each round runs each command once, after a sync, and each one writes to a
new name.  The table shows medians.  Commands that do not sync are compared with ``cp``, others with ``cp + sync``.
As root, the same is measured again on a file system that can share bytes (XFS in an image).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

BLOCKS = 4
ASDFFS = (sys.executable, "-m", "asdffs")
ASDFTOOL = (str(Path(sys.executable).with_name("asdftool")),)
EDITOR = "sed -i s/^value:.*/value:\\ {}/"


class Bench:
    """The files of a benchmark on one file system.  The directory ``work`` is emptied before each command."""

    def __init__(self, folder: Path, size: int) -> None:
        import asdf
        import numpy as np

        self.folder, self.work = folder, folder / "work"
        rng = np.random.default_rng(1)
        noise = rng.integers(0, 64, (BLOCKS, size // BLOCKS), "u1")
        tree = {"value": 1, "text": "x" * 200, **{f"a{n}": noise[n] for n in range(BLOCKS)}}
        asdf.AsdfFile(tree).write_to(folder / "data.asdf", pad_blocks=True)
        shutil.copy(folder / "data.asdf", folder / "other.asdf")
        self.run(*ASDFFS, "explode", folder / "data.asdf", folder / "parts")

    def run(self, *command: object, editor: str = "true") -> None:
        environment = {**os.environ, "EDITOR": editor, "VISUAL": "", "XDG_STATE_HOME": str(self.folder / "state")}
        subprocess.run(list(map(str, command)), check=True, env=environment, stdout=subprocess.DEVNULL)

    def commands(self, number: int, *, tool: bool) -> dict[str, Callable[[], None]]:
        """Return the functions to time: row -> function.  ``tool``: also those of asdftool, and slow commands."""
        data, parts, work, other = (self.folder / name for name in ("data.asdf", "parts", "work", "other.asdf"))
        out = work / "out.asdf"
        found: dict[str, Callable[[], None]] = {
            "cp": lambda: self.run("cp", "--reflink=never", data, out),
            "explode": lambda: self.run(*ASDFFS, "explode", data, work),
            "implode": lambda: self.run(*ASDFFS, "implode", parts / "data.asdf", out),
            "repack": lambda: self.run(*ASDFFS, "repack", data, out),
            "cp + sync": lambda: (self.run("cp", "--reflink=never", data, out), self.run("sync", out))[0],
            "explode --sync": lambda: self.run(*ASDFFS, "explode", "--sync", data, work),
            "implode --sync": lambda: self.run(*ASDFFS, "implode", "--sync", parts / "data.asdf", out),
        }
        if tool:
            found |= {
                "asdftool explode": lambda: self.run(*ASDFTOOL, "explode", "-o", work / "x.asdf", data),
                "asdftool implode": lambda: self.run(*ASDFTOOL, "implode", "-o", out, parts / "data.asdf"),
                "repack to zstd": lambda: self.run(*ASDFFS, "repack", "--compression", "zstd", data, out),
                "repack to zlib": lambda: self.run(*ASDFFS, "repack", "--compression", "zlib", data, out),
                "edit": lambda: self.run(*ASDFFS, "edit", other, editor=EDITOR.format(number % 10)),
                "asdftool edit": lambda: self.run(*ASDFTOOL, "edit", other, editor=EDITOR.format(number % 10 + 11)),
                "info": lambda: self.run(*ASDFFS, "info", data),
                "asdftool info": lambda: self.run(*ASDFTOOL, "info", data),
                "diff": lambda: self.run(*ASDFFS, "diff", data, data),
                "asdftool diff": lambda: self.run(*ASDFTOOL, "diff", data, data),
            }
        return found

    def measure(self, number: int, *, tool: bool) -> dict[str, float]:
        """Run one round, and return the seconds of each row."""
        found = {}
        for row, work in self.commands(number, tool=tool).items():
            shutil.rmtree(self.work, ignore_errors=True)
            self.work.mkdir()
            os.sync()
            begin = time.perf_counter()
            work()
            found[row] = time.perf_counter() - begin
        shutil.rmtree(self.work)
        return found


def cores_used(command: list[str]) -> float:
    """Run a command, and return its CPU seconds per second of wall time."""
    begin, before = time.perf_counter(), os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return used / (time.perf_counter() - begin)


@contextmanager
def sharing(folder: Path, size: int) -> Iterator[Path]:
    """Mount an XFS file system from an image in ``folder`` inside the block.  Needs root."""
    image, point = folder / "image", folder / "xfs"
    point.mkdir()
    with open(image, "wb") as file:
        file.truncate(6 * size + (512 << 20))
    subprocess.run(["mkfs.xfs", "-q", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, point], check=True)
    try:
        yield point
    finally:
        subprocess.run(["umount", point], check=True)


def table(found: dict[str, dict[str, list[float]]]) -> str:
    lines = []
    for place, rows in found.items():
        medians = {row: statistics.median(seconds) for row, seconds in rows.items()}
        for row, median in medians.items():
            peer = "cp + sync" if "sync" in row else "cp"
            line = f"{place:<8} {row:<18} {median:8.2f} s  {median / medians[peer]:7.2f} x {peer}"
            tool = medians.get(f"asdftool {row}")
            lines.append(line + (f"  {median / tool:7.3f} x asdftool {row}" if tool else ""))
        lines.append("")
    return "\n".join(lines)


def run(arguments: argparse.Namespace, folder: Path) -> dict[str, dict[str, list[float]]]:
    size = arguments.size << 20
    found: dict[str, dict[str, list[float]]] = {}

    def add(place: str, rows: dict[str, float]) -> None:
        for row, seconds in rows.items():
            found.setdefault(place, {}).setdefault(row, []).append(seconds)

    (folder / "here").mkdir()
    bench = Bench(folder / "here", size)
    for number in range(arguments.rounds):
        add("here", bench.measure(number, tool=True))
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
    command = [*ASDFFS, "repack", "--compression", "zstd", str(folder / "here/data.asdf"), str(folder / "z.asdf")]
    print(f"repack to zstd uses {cores_used(command):.2f} of {os.cpu_count()} cores", file=sys.stderr)
    if os.geteuid() == 0 and shutil.which("mkfs.xfs"):
        with sharing(folder, size) as point:
            shared = Bench(point, size)
            for number in range(arguments.rounds):
                add("XFS", shared.measure(number, tool=False))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1024, help="size of the file in MiB (default 1024)")
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds (default 5)")
    parser.add_argument("--folder", help="where to put the files (default: the temporary directory)")
    parser.add_argument("--json", action="store_true", help="print all figures as one JSON object")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        found = run(arguments, Path(folder))
    print(json.dumps(found) if arguments.json else table(found))


if __name__ == "__main__":
    main()
