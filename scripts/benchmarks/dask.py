"""Compares work on many files on dask with dask over the asdf library and fsspec, local and on a slow web server.

Each peer is a process of its own; the time is without its start, its imports (dask imports ``distributed`` when it
first computes), and xarray's search for plug-ins, which each of 16 threads makes if they ask at once.  Local files
are read by a thread for each processor, as dask does it; those of the server by 16, because these wait most of the
time.  ``references`` are read by zarr from what ``asdffs refs`` wrote before, as a catalogue is written before.
"""

from __future__ import annotations

import json
import shutil
import sys
import urllib.request
from pathlib import Path

from benchmarks.figures import Figures, Target
from benchmarks.place import ASDFFS, Place, run
from benchmarks.remote import serving

FILES = 40
DELAYS = (0, 30)
WAITING = 16
FSSPEC, REFERENCES = "asdf + fsspec", "references"
WHOLE, CUTOUT = ":", "100:356"
LOCAL, LOCAL_CUTOUT = "sum of local files, s", "sum of local cutouts, s"
MOVED = "bytes moved for the sums, x the data"


def remote(delay: int, part: str = WHOLE) -> str:
    return f"sum {'' if part == WHOLE else 'of cutouts '}at {delay} ms, s"


TARGETS = (
    Target(LOCAL, FSSPEC, most=1.0, of=("asdffs",)),
    Target(LOCAL_CUTOUT, FSSPEC, most=1.0, of=("asdffs",)),
    Target(remote(30), FSSPEC, most=0.5, of=("asdffs", REFERENCES)),
    Target(remote(30, CUTOUT), FSSPEC, most=0.5, of=("asdffs", REFERENCES)),
    Target(MOVED, "", plus=1.05, of=("asdffs",)),
)


def measure(place: Place, figures: Figures) -> None:
    files = place.folder / "files"
    files.mkdir()
    names = _make(files, place.size(8))
    mib = FILES * place.size(8) / 2**20
    peers = {"asdffs": _ASDFFS, FSSPEC: _ASDF}
    paths = [str(files / name) for name in names]
    for _ in range(place.rounds):
        for part, row in ((WHOLE, LOCAL), (CUTOUT, LOCAL_CUTOUT)):
            for peer, code in peers.items():
                figures.add(row, peer, _seconds(code, paths, place, part, 0))
    for delay in DELAYS:
        with serving(files, delay / 1000) as url:
            urls = [f"{url}/{name}" for name in names]
            refs = place.folder / f"refs-{delay}.json"
            run(*ASDFFS, "refs", *urls, "-o", refs, XDG_CACHE_HOME=str(place.folder / "refs-cache"))
            for _ in range(place.rounds):
                for part in (WHOLE, CUTOUT):
                    for peer, code in (*peers.items(), (REFERENCES, _REFERENCES)):
                        _sent(url)
                        opened = [str(refs)] if peer == REFERENCES else urls
                        figures.add(remote(delay, part), peer, _seconds(code, opened, place, part, WAITING))
                        if part == WHOLE:
                            figures.add(MOVED, peer, _sent(url) / 2**20 / mib)


def _seconds(code: str, files: list[str], place: Place, part: str, threads: int) -> float:
    folder = place.folder / "cache"
    try:
        words = [sys.executable, "-W", "ignore", "-c", code, str(threads), part, *files]
        return float(run(*words, XDG_CACHE_HOME=str(folder)))
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


_START = """
import sys, time, dask, dask.array, distributed, numpy
threads, part, files = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
part = slice(*(int(end) if end else None for end in part.split(":")))
dask.config.set(scheduler="threads", **({"num_workers": threads} if threads else {}))
"""
_ASDFFS = f"""{_START}
import xarray, asdffs.features.datasets.backend, asdffs.features.remote.backends.remote
from xarray.namedarray.parallelcompat import list_chunkmanagers
xarray.backends.list_engines(), list_chunkmanagers()
begin = time.perf_counter()
found = xarray.open_mfdataset(files, engine="asdffs", combine="nested", concat_dim="file", parallel=bool(threads))
float(found["data"][:, part, part].sum())
print(time.perf_counter() - begin)
"""
_ASDF = f"""{_START}
import asdf, fsspec, fsspec.implementations.http
def load(url):
    with fsspec.open(url) as file, asdf.open(file, lazy_load=True) as found:
        return numpy.asarray(found["data"][part, part])
asdf.AsdfFile()
begin = time.perf_counter()
first = load(files[0])
arrays = [dask.array.from_delayed(dask.delayed(load)(url), first.shape, first.dtype) for url in files]
float(dask.array.stack(arrays).sum().compute())
print(time.perf_counter() - begin)
"""

_REFERENCES = f"""{_START}
import xarray, zarr, fsspec.implementations.http
from xarray.namedarray.parallelcompat import list_chunkmanagers
xarray.backends.list_engines(), list_chunkmanagers()
begin = time.perf_counter()
storage = {{"fo": files[0], "asynchronous": True, "remote_options": {{"asynchronous": True}}}}
settings = {{"storage_options": storage, "consolidated": False}}
found = xarray.open_dataset("reference://", engine="zarr", chunks={{}}, backend_kwargs=settings)
float(found["data"][:, part, part].sum())
print(time.perf_counter() - begin)
"""
