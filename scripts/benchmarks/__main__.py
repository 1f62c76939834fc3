"""Runs sections of the benchmarks, and prints one table with each target met or missed."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import tempfile
from pathlib import Path

from benchmarks.figures import Figures, Target, judged, table
from benchmarks.place import Place, touch_memory

#: In the order in which they run; module -> what is said of it.
SECTIONS = {
    "transfer": "reads, writes, names and attributes through the mount, beside bindfs and ratarmount",
    "start": "from the command to a mount that can be used",
    "edit": "one value of the tree of a large file, beside the asdf library and asdftool",
    "values": "one value of 2,000 files, beside a loop over asdffs.open and asdf update()",
    "growth": "a tree and a block that outgrow their room in 8 GiB, on ext4 and XFS, beside cp",
    "footprint": "memory of the daemon",
    "decode": "compressed blocks through the mount, beside their libraries",
    "costs": "bytes and seconds of a mount and an edit as files grow",
    "views": "arrays as .npy, and listing many of them",
    "large_tree": "a tree of 50 MB: mount, save, check, beside yaml.parse",
}


def main() -> None:
    sections = "\n".join(f"  {name:<11} {said}" for name, said in SECTIONS.items())
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description=f"Measures asdffs beside its peers.  Sections (default: all):\n{sections}",
        epilog="Others, with options of their own: scripts/bench commands, tiles, daf.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="which to run")
    parser.add_argument("--rounds", type=int, default=5, help="default 5")
    parser.add_argument("--scale", type=int, default=1, help="divide all sizes by this (targets then mean little)")
    parser.add_argument("--touch", type=int, default=4, help="GiB of RAM to touch first (default 4)")
    parser.add_argument("--binding", action="append", choices=["mfusepy", "fusepy"], help="default: both")
    parser.add_argument("--folder", help="where to put the files (default: the temporary directory); 40 GB")
    parser.add_argument("--json", action="store_true", help="print all figures and verdicts as one JSON object")
    arguments = parser.parse_args()
    unknown = set(arguments.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no such section: {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    found = {}
    for name in arguments.sections or SECTIONS:
        print(f"== {name}: {SECTIONS[name]}", file=sys.stderr)
        figures, targets = _measure(name, arguments)
        if arguments.json:
            found[name] = {"rows": figures.rows, "targets": list(judged(figures, targets))}
        else:
            print(table(figures, targets), flush=True)
    if arguments.json:
        print(json.dumps(found, indent=1))


def _measure(name: str, arguments: argparse.Namespace) -> tuple[Figures, tuple[Target, ...]]:
    section, figures = importlib.import_module(f"benchmarks.{name}"), Figures()
    bindings = tuple(dict.fromkeys(arguments.binding or ["mfusepy", "fusepy"]))
    touch_memory(arguments.touch)
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="asdffs-bench-") as folder:
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        section.measure(Place(Path(folder), arguments.rounds, arguments.scale, bindings), figures)
    return figures, section.TARGETS


if __name__ == "__main__":
    main()
