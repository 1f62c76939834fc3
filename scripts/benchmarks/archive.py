"""Compares the catalogue of many files with loops that open each, and with find(1)."""

from __future__ import annotations

import os
import random
import sys
import zlib
from multiprocessing import get_context
from pathlib import Path

from benchmarks import archive_mount
from benchmarks.figures import Figures, Target
from benchmarks.made import make_file
from benchmarks.place import ASDFFS, Place, run, timed

FILES = 100_000
#: So many of them are compared with the peers.
SAMPLE = 5000
QUERY = 'roman.meta.exposure.type == "WFI_IMAGE" and roman.meta.exposure.exposure_time > 199'
LOAD = "asdf.util.load_yaml"
ALL = "index of all, s"
READ, AGAIN, SIZE, ASKED = "index, files/s", "nothing changed, s", "catalogue, MiB", "a query, ms"
TARGETS = (
    Target(READ, "asdf.open", least=6, of=("asdffs",)),
    Target(READ, LOAD, least=2, of=("asdffs",)),
    Target(AGAIN, "find -newer", most=2, of=("asdffs",)),
    Target(SIZE, "compressed trees", most=1, of=("asdffs",)),
    Target(ASKED, "", plus=100, of=("asdffs",)),
    *archive_mount.TARGETS,
)


def measure(place: Place, figures: Figures) -> None:
    folder, catalog = place.folder / "archive", place.folder / "archive.db"
    count = max(SAMPLE, FILES // place.scale)
    trees = make_archive(folder, count)
    figures.add(ALL, "asdffs", timed(run, *ASDFFS, "index", "--catalog", catalog, folder))
    figures.add(SIZE, "asdffs", catalog.stat().st_size / 2**20)
    figures.add(SIZE, "compressed trees", sum(trees) / 2**20)
    sample = sorted(folder.rglob("*.asdf"))[:SAMPLE]
    places = sorted(path for path in folder.iterdir())[: SAMPLE // 1000]
    for number in range(place.rounds):
        seconds = timed(run, *ASDFFS, "index", "--catalog", place.folder / f"sample{number}.db", *places)
        figures.add(READ, "asdffs", SAMPLE / seconds)
        figures.add(READ, "asdf.open", _in_processes(_open_by_asdf, sample))
        figures.add(READ, LOAD, _in_processes(_load_yaml, sample))
        figures.add(AGAIN, "asdffs", timed(run, *ASDFFS, "index", "--catalog", catalog, folder))
        figures.add(AGAIN, "find -newer", timed(run, "find", folder, "-newer", catalog))
        figures.add(ASKED, "asdffs", _ask(catalog))
    archive_mount.measure_mount(folder, place, figures)


def make_archive(folder: Path, count: int) -> list[int]:
    """Make ``count`` files in directories of 1,000; return the bytes of the compressed tree of each."""
    return [_make(folder, number) for number in range(count)]


def _make(folder: Path, number: int) -> int:
    """Make a file with a tree of 49 kB and sparse blocks; return the bytes of its compressed tree."""
    path = folder / f"{number // 1000:03d}" / f"{number:06d}.asdf"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = _tree(random.Random(number), number)
    make_file(path, 5, 512 * 1024, text=text)
    return len(zlib.compress(text))


def _tree(chance: random.Random, number: int) -> bytes:
    lines = ["roman:", "  meta:"]
    for section in range(60):
        lines.append(f"    section{section:02d}:")
        lines += [f"      key_number_{key:02d}: {_scalar(chance, section * 24 + key)}" for key in range(24)]
    kind = ("WFI_IMAGE", "WFI_DARK")[number % 2]
    lines.append(
        f"    exposure: {{type: {kind}, exposure_time: {chance.random() * 200:.3f}, nresultants: {number % 9}}}"
    )
    return "\n".join(lines).encode() + b"\n"


def _scalar(chance: random.Random, kind: int) -> str:
    return (
        str(chance.randrange(1000)),
        f"{chance.random() * 100:.12f}",
        f"name_{chance.randrange(50)}",
        ("true", "false")[chance.randrange(2)],
        f"'2026-11-{chance.randrange(1, 29):02d}T10:11:12.000'",
    )[kind % 5]


def _in_processes(work: object, files: list[Path]) -> float:
    """Return how many files a second as many processes read as there are processors."""
    with get_context("spawn").Pool(len(os.sched_getaffinity(0))) as pool:
        pool.map(work, files[:20], chunksize=1)  # type: ignore[arg-type]  # imports are done
        return len(files) / timed(lambda: pool.map(work, files, chunksize=50))  # type: ignore[arg-type]


def _open_by_asdf(path: Path) -> int:
    """Open a file and walk over its tree."""
    import asdf

    with asdf.open(path) as found:
        return _count(found.tree)


def _count(node: object) -> int:
    if isinstance(node, dict):
        return sum(map(_count, node.values()))
    return sum(map(_count, node)) if isinstance(node, list) else 1


def _load_yaml(path: Path) -> int:
    """Read the tree and nothing else, and walk over it."""
    import asdf.util

    return _count(asdf.util.load_yaml(path))


def _ask(catalog: Path) -> float:
    """Return the milliseconds of a query in another process that has imported what it needs."""
    script = (
        "import sys, time; from asdffs.features.catalog.store import open_catalog; "
        "from asdffs.features.catalog.query import find; from asdffs.tree.conditions import parse_condition; "
        "begin = time.perf_counter(); catalog = open_catalog(sys.argv[1], writable=False); "
        "find(catalog, parse_condition(sys.argv[2]), [], []); print(1000 * (time.perf_counter() - begin))"
    )
    return float(run(sys.executable, "-c", script, catalog, QUERY))
