"""Compares FilesDaf stores in an ASDF file with plain directories: packing, large reads, and what clients do.

The clients' pattern is that of dafr, the client in R: it reads many small files, and after each property that it
overwrites, it makes ``metadata.zip`` anew from all JSON files.
"""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from pathlib import Path

from benchmarks.figures import Figures, Target
from benchmarks.peers import mounted, mounted_by_bindfs
from benchmarks.place import ASDFFS, PIECE, Place, run, timed

PLAIN, DAF, BINDFS = "directory", "asdffs", "bindfs"
PACK, READ = "daf pack, s", "read a matrix cold, MiB/s"
SMALL, OVERWRITE = "1,000 small reads of a store, ms", "overwrite a property, ms"
#: The start of a command in seconds (section ``start``); a copy has none.
START = 0.1
TARGETS = (
    Target(PACK, "cp -r", most=1.05, plus=START, of=(DAF,)),
    Target(READ, "its block", least=0.9, of=(DAF,)),
    Target(SMALL, BINDFS, most=1),
    Target(OVERWRITE, BINDFS, most=1),
)
#: Number of small vectors, and how many of them are overwritten in each round.
VECTORS, OVERWRITTEN = 500, 20


def measure(place: Place, figures: Figures) -> None:
    large = make_store(place.folder / "large.daf", place.size(1024))
    small = make_small_store(place.folder / "small.daf")
    packed = place.folder / "large.asdf"
    for _ in range(place.rounds):
        _measure_packing(place.folder, figures)
        _measure_reading(packed, place.folder / "mnt", large, figures)
        _measure_client(small, PLAIN, figures)
        if shutil.which("bindfs"):
            with mounted_by_bindfs(small, place.folder / "mnt"):
                _measure_client(place.folder / "mnt", BINDFS, figures)
        for library in place.libraries:
            run(*ASDFFS, "daf", "pack", "--force", small, place.folder / "small.asdf")
            with mounted(place.folder / "small.asdf", place.folder / "mnt", library, "--layout", "daf"):
                _measure_client(place.folder / "mnt", library, figures)


def make_store(root: Path, size: int) -> Path:
    """Make a store with one dense matrix of ``size`` bytes, and return the path of its payload."""
    import numpy as np

    rows, columns = 1 << 12, size >> 15
    for folder in ("scalars", "axes", "vectors/a", "vectors/b", "matrices/a/b"):
        (root / folder).mkdir(parents=True)
    (root / "daf.json").write_text('{"version":[1,0]}\n')
    (root / "axes/a.txt").write_text("".join(f"c{n}\n" for n in range(rows)))
    (root / "axes/b.txt").write_text("".join(f"g{n}\n" for n in range(columns)))
    (root / "matrices/a/b/m.json").write_text('{"format":"dense","eltype":"Float64"}\n')
    payload = root / "matrices/a/b/m.data"
    np.random.default_rng(1).random(rows * columns).tofile(payload)
    return payload


def make_small_store(root: Path) -> Path:
    """Make a store with many small vectors, and return ``root``."""
    for folder in ("scalars", "axes", "vectors/a", "matrices/a/a"):
        (root / folder).mkdir(parents=True)
    (root / "daf.json").write_text('{"version":[1,0]}\n')
    (root / "axes/a.txt").write_text("".join(f"c{n}\n" for n in range(50)))
    for number in range(VECTORS):
        _write_vector(root, number, bytes(400))
    _make_metadata(root)
    return root


def _write_vector(root: Path, number: int, payload: bytes) -> None:
    (root / f"vectors/a/v{number}.data").write_bytes(payload)
    (root / f"vectors/a/v{number}.json").write_text('{"format":"dense","eltype":"Float64"}\n')


def _make_metadata(root: Path) -> None:
    """Make ``metadata.zip``: all JSON files of the store."""
    with zipfile.ZipFile(root / "metadata.zip.new", "w") as archive:
        for path in sorted(root.rglob("*.json")):
            archive.writestr(str(path.relative_to(root)), path.read_bytes())
    os.replace(root / "metadata.zip.new", root / "metadata.zip")


def _measure_client(root: Path, who: str, figures: Figures) -> None:
    figures.add(SMALL, who, 1000 * timed(_read_small, root))
    figures.add(OVERWRITE, who, 1000 * timed(_overwrite, root) / OVERWRITTEN)


def _read_small(root: Path) -> None:
    for number in range(VECTORS):
        assert json.loads((root / f"vectors/a/v{number}.json").read_bytes())["eltype"] == "Float64"
        assert len((root / f"vectors/a/v{number}.data").read_bytes()) == 400


def _overwrite(root: Path) -> None:
    for number in range(OVERWRITTEN):
        for suffix in ("json", "data"):
            os.unlink(root / f"vectors/a/v{number}.{suffix}")
        _write_vector(root, number, os.urandom(400))
        _make_metadata(root)


def _measure_packing(folder: Path, figures: Figures) -> None:
    copy, packed = folder / "copy.daf", folder / "large.asdf"
    shutil.rmtree(copy, ignore_errors=True)
    packed.unlink(missing_ok=True)
    os.sync()
    figures.add(PACK, "cp -r", timed(run, "cp", "-r", folder / "large.daf", copy))
    os.sync()
    figures.add(PACK, DAF, timed(run, *ASDFFS, "daf", "pack", folder / "large.daf", packed))
    shutil.rmtree(copy)


def _measure_reading(packed: Path, point: Path, payload: Path, figures: Figures) -> None:
    mib = payload.stat().st_size / PIECE
    with mounted(packed, point, "libfuse3"):
        block = max((point / "blocks").iterdir(), key=lambda path: path.stat().st_size)
        ways = {"native": payload, "its block": block, DAF: point / "daf/matrices/a/b" / payload.name}
        for name, path in ways.items():
            figures.add(READ, name, mib / _read_cold(path))


def _read_cold(path: Path) -> float:
    """Return the seconds to read all of a file, after its pages were dropped from the cache."""
    fd = os.open(path, os.O_RDONLY)
    buffer = bytearray(PIECE)

    def read() -> None:
        while os.readv(fd, [buffer]):
            continue

    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        return timed(read)
    finally:
        os.close(fd)
