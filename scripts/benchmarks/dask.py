"""Compares sums over many files on dask with dask over the asdf library and fsspec, local and on a slow web server.

Each peer is a process of its own with 16 threads, because these wait for the server most of the time.  The time is
without the start and the imports.
"""

from __future__ import annotations

import json
import shutil
import sys
import urllib.request
from pathlib import Path

from benchmarks.figures import Figures, Target
from benchmarks.place import Place, run
from benchmarks.remote import serving

FILES = 40
DELAYS = (0, 30)
FSSPEC = "asdf + fsspec"
LOCAL, MOVED = "sum of local files, MiB/s", "bytes moved, x the data"


def remote(delay: int) -> str:
    return f"sum at {delay} ms, MiB/s"


TARGETS = (
    Target(LOCAL, FSSPEC, least=1.0, of=("asdffs",)),
    Target(remote(30), FSSPEC, least=3.0, of=("asdffs",)),
    Target(MOVED, "", plus=1.05, of=("asdffs",)),
)


def measure(place: Place, figures: Figures) -> None:
    files = place.folder / "files"
    files.mkdir()
    names = _make(files, place.size(8))
    mib = FILES * place.size(8) / 2**20
    peers = {"asdffs": _ASDFFS, FSSPEC: _ASDF}
    for number in range(place.rounds):
        for peer, code in peers.items():
            figures.add(LOCAL, peer, mib / _seconds(code, [str(files / name) for name in names], place, f"{number}"))
    for delay in DELAYS:
        with serving(files, delay / 1000) as url:
            for number in range(place.rounds):
                for peer, code in peers.items():
                    _sent(url)
                    urls = [f"{url}/{name}" for name in names]
                    figures.add(remote(delay), peer, mib / _seconds(code, urls, place, f"{delay}-{number}"))
                    figures.add(MOVED, peer, _sent(url) / 2**20 / mib)


def _seconds(code: str, files: list[str], place: Place, cache: str) -> float:
    folder = place.folder / f"cache-{cache}"
    try:
        return float(run(sys.executable, "-W", "ignore", "-c", code, *files, XDG_CACHE_HOME=str(folder)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sent(server: str) -> int:
    with urllib.request.urlopen(f"{server}/.counters") as answer:
        return int(json.load(answer)["sent"])


def _make(files: Path, size: int) -> list[str]:
    """Make files with a tree of 49 kB and an image of ``size`` bytes; return their names."""
    import asdf
    import numpy as np

    chance = np.random.default_rng(1)
    tree = {"meta": {f"key_{number}": f"text {number}" for number in range(1800)}}
    names = [f"{number:03d}.asdf" for number in range(FILES)]
    for name in names:
        asdf.AsdfFile(tree | {"data": chance.random((size // 8192, 2048), "f4")}).write_to(files / name)
    return names


_ASDFFS = """
import sys, time, dask, dask.array, xarray, asdffs.workflows.datasets.backend, asdffs.storage.remote.backend
dask.config.set(scheduler="threads", num_workers=16)
begin = time.perf_counter()
found = xarray.open_mfdataset(sys.argv[1:], engine="asdffs", combine="nested", concat_dim="file", parallel=True)
float(found["data"].sum())
print(time.perf_counter() - begin)
"""
_ASDF = """
import sys, time, asdf, dask, dask.array, fsspec, fsspec.implementations.http, numpy
def load(url):
    with fsspec.open(url) as file, asdf.open(file) as found:
        return numpy.asarray(found["data"])
asdf.AsdfFile()
dask.config.set(scheduler="threads", num_workers=16)
begin = time.perf_counter()
with fsspec.open(sys.argv[1]) as file, asdf.open(file) as found:
    shape, dtype = found["data"].shape, found["data"].dtype
arrays = [dask.array.from_delayed(dask.delayed(load)(url), shape, dtype) for url in sys.argv[1:]]
float(dask.array.stack(arrays).sum().compute())
print(time.perf_counter() - begin)
"""
