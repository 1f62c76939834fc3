"""Compares reads of a file on a web server with asdf over fsspec, ``rclone mount`` and obstore itself.

The server adds a delay to each request; its bandwidth is that of loopback.  It counts requests and bytes.
"""

from __future__ import annotations

import functools
import itertools
import json
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figures import Figures, Target
from benchmarks.place import ASDFFS, Place, read_all, run, timed

DELAYS = (0, 30, 100)
FEW = 30
FILES = 100
#: Seconds that ``rclone mount`` may take until it is there.
PATIENCE = 30
PARTS = (1 << 20, 4 << 20, 8 << 20)
FLIGHTS = (8, 16, 32)
FSSPEC, RCLONE, OBSTORE, LOCAL = "asdf + fsspec", "rclone mount", "obstore, best", "local file"
STORED = "obstore, best, into a file"
REQUESTS, MOVED = "metadata, requests", "metadata, KiB"
CUTOUT = "cutout 30 x 30, MB"
GET, GET_REQUESTS = f"get of {FILES} files at {FEW} ms, s", f"get of {FILES} files, requests"


def sequential(delay: int) -> str:
    return f"read at {delay} ms, MiB/s"


def again(library: str) -> str:
    return f"read with a warm cache by {library}, MiB/s"


TARGETS = (
    Target(REQUESTS, "", most=0, plus=2, of=("asdffs",)),
    Target(MOVED, "", most=0, plus=128, of=("asdffs",)),
    Target(CUTOUT, "", most=0, plus=1, of=("asdffs",)),
    Target(sequential(FEW), OBSTORE, least=0.8),
    *(Target(again(library), LOCAL, least=0.9, of=("asdffs",)) for library in ("libfuse3", "libfuse2")),
    Target(GET, FSSPEC, most=0.1, of=("asdffs",)),
    Target(GET_REQUESTS, "", most=0, plus=110, of=("asdffs",)),
)


def measure(place: Place, figures: Figures) -> None:
    files = place.folder / "files"
    files.mkdir()
    _make(files, place)
    for delay in DELAYS:
        with serving(files, delay / 1000) as url:
            for number in range(place.rounds):
                work = place.folder / f"{delay}-{number}"
                work.mkdir()
                _Round(place, figures, url, delay, work).measure()
                shutil.rmtree(work)


class _Round:
    """One round of all peers, with empty caches in ``work``."""

    def __init__(self, place: Place, figures: Figures, url: str, delay: int, work: Path) -> None:
        self._place = place
        self._figures = figures
        self._server = url
        self._url = f"{url}/large.asdf"
        self._delay = delay
        self._work = work
        self._caches = itertools.count()

    def measure(self) -> None:
        self._measure_metadata()
        self._measure_cutout()
        self._measure_reads()
        if self._delay == FEW:
            self._measure_many()

    def _cache(self) -> dict[str, str]:
        return {"XDG_CACHE_HOME": str(self._work / f"cache{next(self._caches)}")}

    def _count(self) -> dict[str, int]:
        with urllib.request.urlopen(f"{self._server}/.counters") as answer:
            found: dict[str, int] = json.load(answer)
        return found

    def _measure_metadata(self) -> None:
        for peer, command in (
            ("asdffs", [sys.executable, "-c", _OPEN_BY_ASDFFS, self._url]),
            (FSSPEC, [sys.executable, "-c", _OPEN, self._url, "value"]),
        ):
            self._count()
            run(*command, **self._cache())
            found = self._count()
            self._figures.add(REQUESTS, peer, found["requests"])
            self._figures.add(MOVED, peer, found["sent"] / 1024)

    def _measure_cutout(self) -> None:
        for peer, code in (("asdffs", _CUTOUT), (FSSPEC, _CUTOUT_BY_ASDF)):
            self._count()
            run(sys.executable, "-c", code, self._url, **self._cache())
            self._figures.add(CUTOUT, peer, self._count()["sent"] / 1e6)

    def _measure_reads(self) -> None:
        mib = _array_size(self._place) / (1 << 20)
        row, local = sequential(self._delay), self._place.folder / "files/large.asdf"
        for library in self._place.libraries:
            cache = self._cache()
            with self._mounted(self._url, library, cache) as point:
                self._figures.add(row, library, mib / timed(read_all, point / "blocks/0000.bin"))
            with self._mounted(self._url, library, cache) as point:
                self._figures.add(again(library), "asdffs", mib / timed(read_all, point / "blocks/0000.bin"))
            with self._mounted(str(local), library, cache) as point:
                self._figures.add(again(library), LOCAL, mib / timed(read_all, point / "blocks/0000.bin"))
        if shutil.which("rclone"):
            with self._rclone() as point:
                self._figures.add(row, RCLONE, mib / timed(read_all, point / "large.asdf"))
        self._figures.add(row, OBSTORE, mib / _best_by_obstore(self._url, local.stat().st_size, lambda piece: None))
        with open(self._work / "copy", "wb", buffering=0) as copy:
            seconds = _best_by_obstore(self._url, local.stat().st_size, copy.write)
        self._figures.add(row, STORED, mib / seconds)
        seconds = timed(run, sys.executable, "-c", _OPEN, self._url, "data")
        self._figures.add(row, FSSPEC, mib / seconds)

    def _measure_many(self) -> None:
        urls = [f"{self._server}/small{number:03d}.asdf" for number in range(FILES)]
        self._count()
        cache = self._cache()
        self._figures.add(GET, "asdffs", timed(lambda: run(*ASDFFS, "get", "meta.value", *urls, **cache)))
        self._figures.add(GET_REQUESTS, "asdffs", self._count()["requests"])
        self._figures.add(GET, FSSPEC, timed(run, sys.executable, "-c", _GET_BY_ASDF, *urls))
        self._figures.add(GET_REQUESTS, FSSPEC, self._count()["requests"])

    @contextmanager
    def _mounted(self, path: str, library: str, cache: dict[str, str]) -> Iterator[Path]:
        point = self._work / "mnt"
        point.mkdir(exist_ok=True)
        run(*ASDFFS, "mount", path, point, ASDFFS_LIBFUSE=library[-1], **cache)
        try:
            yield point
        finally:
            run(*ASDFFS, "umount", point)

    @contextmanager
    def _rclone(self) -> Iterator[Path]:
        point = self._work / "rclone"
        point.mkdir(exist_ok=True)
        words = ["rclone", "mount", f":http,url='{self._server}/':", point, "--read-only", "--config", "/dev/null"]
        more = ["--vfs-cache-mode", "full", "--cache-dir", self._work / "rclone-cache"]
        with subprocess.Popen([*words, *more], stderr=subprocess.DEVNULL) as process:
            try:
                deadline = time.monotonic() + PATIENCE
                while not (point / "large.asdf").exists():
                    if process.poll() is not None or time.monotonic() > deadline:
                        raise RuntimeError("rclone does not mount the server")
                    time.sleep(0.05)
                yield point
            finally:
                process.terminate()


def _best_by_obstore(url: str, size: int, keep: Callable[[object], object]) -> float:
    """Return the seconds that obstore takes for all bytes, with the best size and number of requests.

    ``keep`` is called for the bytes of each part, in order.
    """
    import obstore
    from obstore.store import HTTPStore

    best = float("inf")
    for part, flights in itertools.product(PARTS, FLIGHTS):
        get = functools.partial(obstore.get_range, HTTPStore.from_url(url, client_options={"allow_http": True}), "")
        begin = time.perf_counter()
        with ThreadPoolExecutor(flights) as pool:
            parts = [pool.submit(get, start=start, length=min(part, size - start)) for start in range(0, size, part)]
            for one in parts:
                keep(one.result())
        best = min(best, time.perf_counter() - begin)
    return best


@contextmanager
def serving(files: Path, delay: float) -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.slow_server", str(files), str(delay)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def _array_size(place: Place) -> int:
    return place.size(200)


def _make(files: Path, place: Place) -> None:
    import asdf
    import numpy as np

    rows = _array_size(place) // (4 * 5120)
    data = np.arange(rows * 5120, dtype="<f4").reshape(rows, 5120)
    tree = {"meta": {"value": 1} | {f"key_{number}": f"text {number}" for number in range(900)}}
    asdf.AsdfFile(tree | {"data": data, "mask": data[:512] > 0}).write_to(files / "large.asdf")
    for number in range(FILES):
        asdf.AsdfFile(tree | {"data": np.arange(100_000)}).write_to(files / f"small{number:03d}.asdf")


_OPEN_BY_ASDFFS = """
import sys, asdffs
with asdffs.open(sys.argv[1]) as document:
    document.values["meta"]["value"]
"""
_OPEN = """
import sys, asdf, fsspec, numpy
with fsspec.open(sys.argv[1]) as file, asdf.open(file) as found:
    found["meta"]["value"] if sys.argv[2] == "value" else numpy.asarray(found["data"]).sum()
"""
_CUTOUT_BY_ASDF = """
import sys, asdf, fsspec
with fsspec.open(sys.argv[1]) as file, asdf.open(file, lazy_load=True) as found:
    found["data"][1000:1030, 1000:1030].sum()
"""
_CUTOUT = """
import sys, asdffs
with asdffs.open(sys.argv[1]) as document:
    document.arrays["data"][1000:1030, 1000:1030].sum()
"""
_GET_BY_ASDF = """
import sys, asdf, fsspec
for url in sys.argv[1:]:
    with fsspec.open(url) as file, asdf.open(file) as found:
        print(found["meta"]["value"])
"""
