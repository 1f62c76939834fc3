"""Runs sections of the benchmarks, and prints a table for each with its figures and targets."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import tempfile
from pathlib import Path

from benchmarks.figures import HEAD, Figures, Target, in_markdown, judged, table
from benchmarks.place import Place, touch_memory

#: Module -> description for users, in the order in which they run.
SECTIONS = {
    "transfer": "reads, writes, names and attributes through the mount, compared with bindfs and ratarmount",
    "start": "time from the command to a usable mount",
    "edit": "change one value in the tree of a large file, compared with the asdf library and asdftool",
    "values": "set, get and check a value in 1,000 files, compared with a parse, asdffs.open and asdf update()",
    "growth": "a tree and a block grow in a file of 8 GiB, on ext4 and XFS, compared with cp",
    "footprint": "memory of the daemon",
    "decode": "read compressed blocks through the mount, compared with their libraries",
    "pieces": "read the end of a compressed block, compared with the whole block and the asdf library",
    "commands": "explode, implode, repack and others, compared with cp and asdftool",
    "daf": "pack, read and change FilesDaf stores, compared with directories",
    "slopes": "time and memory of twelve operations as bytes, blocks, arrays and files grow",
    "views": "read an array as .npy, and list many arrays",
    "remote": "read a file on a slow web server, compared with asdf over fsspec, rclone mount and obstore",
    "dask": "sum many files on dask, compared with dask over asdf and fsspec",
    "archive": "a catalogue and a mount of 100,000 files, compared with asdf.open, find(1) and bindfs",
    "large_tree": "mount, save and check a tree of 50 MB, compared with yaml.parse",
}


def main() -> None:
    sections = "\n".join(f"  {name:<13} {said}" for name, said in SECTIONS.items())
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description=f"Compares asdffs with its peers.  Sections (default: all):\n{sections}",
        epilog="Another benchmark, with its own options: scripts/bench tiles.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="section to run")
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds (default 5)")
    parser.add_argument("--scale", type=int, default=1, help="divide all sizes by this; the targets then mean little")
    parser.add_argument("--touch", type=int, default=4, help="GiB of RAM to touch first (default 4)")
    parser.add_argument("--library", action="append", choices=["libfuse3", "libfuse2"], help="default: libfuse3")
    parser.add_argument("--before", default="", metavar="DIR", help="also measure the asdffs of this other checkout")
    parser.add_argument("--folder", help="where to put the files, up to 40 GB (default: the temporary directory)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print all figures and verdicts as one JSON object")
    form.add_argument("--markdown", action="store_true", help="print tables for a page")
    arguments = parser.parse_args()
    unknown = set(arguments.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no such section: {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    found = {}
    if arguments.markdown:
        print(HEAD)
    for name in arguments.sections or SECTIONS:
        print(f"== {name}: {SECTIONS[name]}", file=sys.stderr)
        figures, targets = _measure(name, arguments)
        if arguments.json:
            found[name] = {"rows": figures.rows, "targets": list(judged(figures, targets))}
        else:
            print(in_markdown(figures, targets) if arguments.markdown else table(figures, targets), flush=True)
    if arguments.json:
        print(json.dumps(found, indent=1))


def _measure(name: str, arguments: argparse.Namespace) -> tuple[Figures, tuple[Target, ...]]:
    section, figures = importlib.import_module(f"benchmarks.{name}"), Figures()
    libraries = tuple(dict.fromkeys(arguments.library or ["libfuse3"]))
    touch_memory(arguments.touch)
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="asdffs-bench-") as folder:
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        place = Place(Path(folder), arguments.rounds, arguments.scale, libraries, arguments.before)
        section.measure(place, figures)
    return figures, section.TARGETS


if __name__ == "__main__":
    main()
