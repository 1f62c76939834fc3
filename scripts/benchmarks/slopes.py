"""Measures how the time and the memory of twelve operations grow with bytes, blocks, arrays and files.

Blocks are holes, so that large files need little disk space; ``explode``, ``repack`` and ``write`` fill them.  The
notes at the end have the slopes: 0 is a cost that does not depend on the size, 1 one that grows as the size does.
Less memory than Python itself has, some 9 MiB, is not told apart.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.request import HTTPCookieProcessor, build_opener

from benchmarks.archive import make_archive
from benchmarks.figures import Figures, Target
from benchmarks.made import make_file
from benchmarks.peers import mounted
from benchmarks.place import ASDFFS, PIECE, Place, memory, read_all, write_all

#: What grows -> its sizes.
BYTES = (1 << 20, 1 << 25, 1 << 30, 1 << 33)
BLOCKS = ARRAYS = (1, 100, 10_000, 200_000)
FILES = (10, 1_000, 100_000)
TARGETS: tuple[Target, ...] = ()
#: Seconds and MiB of a process.
Spent = tuple[float, float]


def measure(place: Place, figures: Figures) -> None:
    for axis, sizes, prepared in (
        ("bytes", BYTES, _bytes),
        ("blocks", BLOCKS, _blocks),
        ("arrays", ARRAYS, _arrays),
        ("files", FILES, _files),
    ):
        for size in (max(1, one // place.scale) for one in sizes):
            for operation, work in prepared(place.folder, size):
                for _ in range(1 if axis == "files" else place.rounds):
                    seconds, mib = work()
                    figures.add(f"{operation} by {axis}, s", f"{size:,}", seconds)
                    figures.add(f"{operation} by {axis}, MiB", f"{size:,}", mib)
            for old in place.folder.iterdir():
                shutil.rmtree(old) if old.is_dir() else old.unlink()
    figures.notes.extend(_slopes(figures))


def _slopes(figures: Figures) -> Iterator[str]:
    """Yield a sentence for each row: what its figure is multiplied by where the size is multiplied by ten."""
    for row, peers in figures.rows.items():
        sizes = [int(one.replace(",", "")) for one in peers]
        first, last = (figures.median(row, one) for one in (f"{min(sizes):,}", f"{max(sizes):,}"))
        if first and last and len(sizes) > 1:
            slope = math.log(last / first) / math.log(max(sizes) / min(sizes))
            yield f"slope of {row.rsplit(',', 1)[0]}: {row.rsplit(' ', 1)[1]} {slope:.2f}"


_Work = tuple[str, Callable[[], Spent]]


def _bytes(folder: Path, size: int) -> Iterator[_Work]:
    file = make_file(folder / "data.asdf", 1, size)
    yield from _commands(folder, file)
    yield "read", partial(_through_mount, file, read_all)
    yield "write", partial(_through_mount, file, lambda block: write_all(block, max(PIECE, size)))


def _blocks(folder: Path, count: int) -> Iterator[_Work]:
    yield from _commands(folder, make_file(folder / "data.asdf", count, 64))


def _arrays(folder: Path, count: int) -> Iterator[_Work]:
    line = b"  a%d: !core/ndarray-1.1.0 {source: 0, datatype: uint8, byteorder: little, shape: [64], offset: %d}\n"
    text = b"arrays:\n" + b"".join(line % (n, n) for n in range(count))
    file = make_file(folder / "data.asdf", 1, 64 + count, text=text)
    yield from _on_tree(file)
    yield "page outline", partial(_outline, file)


def _files(folder: Path, count: int) -> Iterator[_Work]:
    make_archive(folder / "archive", count)
    asked = ("--catalog", folder / "archive.db")
    yield "index", partial(_spent, "index", *asked, folder / "archive")
    yield "find", partial(_spent, "find", *asked, "roman.meta.exposure.nresultants == 0")


def _commands(folder: Path, file: Path) -> Iterator[_Work]:
    """Yield what is done with the whole file, after what is done with its tree."""
    yield from _on_tree(file)
    yield "repack", partial(_spent, "repack", "--force", file, folder / "packed.asdf")
    yield "explode", partial(_exploded, file, folder / "exploded")


def _on_tree(file: Path) -> Iterator[_Work]:
    yield "mount", partial(_through_mount, file, lambda block: os.listdir(block.parents[1]))
    yield "info", partial(_spent, "info", file)
    yield "get", partial(_spent, "get", "value", file)
    yield "set", partial(_set, file, 1)
    yield "save that grows", partial(_set, file, 1 << 16)


def _exploded(file: Path, folder: Path) -> Spent:
    shutil.rmtree(folder, ignore_errors=True)
    return _spent("explode", file, folder)


def _set(file: Path, length: int) -> Spent:
    """Set the value to a text that is not what it was, of ``length`` characters more than a number has."""
    found = f"{time.perf_counter_ns()}{'x' * (length + file.stat().st_mtime_ns % 2)}"
    return _spent("set", f"value={found}", file)


#: Runs a command, and prints its seconds and the MiB of its largest process.  It is a process of its own, because the
#: system counts the memory of whoever starts a process as that of the new one.
_STARTER = (
    "import os, sys, time; begin = time.perf_counter();"
    "quiet = [(os.POSIX_SPAWN_OPEN, 1, '/dev/null', os.O_WRONLY, 0)];"
    "process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet);"
    "status, usage = os.wait4(process, 0)[1:];"
    "print(time.perf_counter() - begin, usage.ru_maxrss / 1024); sys.exit(bool(status))"
)


def _spent(*arguments: object) -> Spent:
    """Run a command of asdffs; return its time, and the memory of its largest process."""
    command = [sys.executable, "-S", "-c", _STARTER, *ASDFFS, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    seconds, mib = map(float, done.stdout.split())
    return seconds, mib


def _through_mount(file: Path, work: Callable[[Path], object]) -> Spent:
    """Mount, and do something with the first block; the time is that of both, the memory that of the daemon."""
    point, begin = file.parent / "mnt", time.perf_counter()
    with mounted(file, point, "libfuse3") as pid:
        work(point / "blocks/0000.bin")
        return time.perf_counter() - begin, memory(pid, "VmHWM")


def _outline(file: Path) -> Spent:
    """Start the page and ask for the values of the tree; the memory is that of the server."""
    begin = time.perf_counter()
    command = [*ASDFFS, "view", "--no-browser", "--read-only", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = next(found[0] for line in process.stdout if (found := re.search(r"http://\S+", line)))
        opener = build_opener(HTTPCookieProcessor(CookieJar()))
        opener.open(address).read()
        opener.open("/".join(address.split("/")[:3]) + "/api/tree?path=").read()
        spent = time.perf_counter() - begin, memory(process.pid, "VmHWM")
        process.terminate()
    return spent
