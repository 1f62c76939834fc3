"""Measures reads and writes through the mount: one large block at an odd offset, and many small blocks."""

from __future__ import annotations

import multiprocessing
import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figures import Figures, Target
from benchmarks.peers import Native, Peer, Ratarmount, View, make_sources, peers
from benchmarks.place import Place, cpu_seconds, read_all, timed, write_all

SMALL, STATS, RANDOM_READS, OPENS, READERS = 10_000, 20_000, 16_000, 3_000, 4
COLD, PLAIN, SECOND = "read cold, MiB/s", "read cold at 128 KiB read-ahead, MiB/s", "read again, MiB/s"
WRITE, RANDOM, STAT = "write in place, {} KiB, MiB/s", "random 4 KiB cold, /s", "stat, /s"
FIRST_STAT, RANDOM_BY_MANY = "stat, first pass, /s", "random 4 KiB cold, four readers, /s"
OPEN, LIST, CPU = "open+read+close of small files, /s", "ls -l of 10,000, /s", "CPU of a cold read, s/GiB"
WRITE_CPU, RANDOM_CPU = "CPU of a write of {} KiB, us", "CPU of a random read of 4 KiB, us"
#: KiB in each write.
WRITES = (1024, 128, 4)
C, BEFORE = "C window", "{} before"

TARGETS = (
    Target(COLD, C, least=1.2),
    Target(COLD, "bindfs", least=1.5),
    Target(COLD, "ratarmount", least=2),
    Target(COLD, "native", least=0.35),
    Target(PLAIN, "native", least=0.25),
    Target(SECOND, C, least=0.9),  # no program sees these reads: the page cache of FUSE answers them
    Target(WRITE.format(1024), C, least=0.7),
    Target(WRITE.format(128), C, least=0.6),
    *(Target(WRITE_CPU.format(4), BEFORE.format(name), most=0.6, of=(name,)) for name in ("libfuse3", "libfuse2")),
    Target(RANDOM, "bindfs", least=1.3),
    *(Target(RANDOM_CPU, BEFORE.format(name), most=0.7, of=(name,)) for name in ("libfuse3", "libfuse2")),
    Target(RANDOM_BY_MANY, "bindfs", least=0.9),
    Target(FIRST_STAT, "bindfs", least=0.7),
    Target(STAT, "bindfs", least=1),
    Target(OPEN, "bindfs", least=0.8),
    Target(LIST, "bindfs", least=4),
    Target(CPU, "bindfs", most=1),
)


def measure(place: Place, figures: Figures) -> None:
    size = place.size(1024)
    make_sources(place.folder, size, SMALL)
    everybody = peers(place.folder, place.libraries, place.before)
    for number in range(place.rounds):
        for name in ("large.asdf", "plain/large", "plain.tar"):
            if (place.folder / name).exists():
                read_all(place.folder / name)
        first = number % len(everybody)  # who comes later gets memory that the host need not bring first
        for peer in everybody[first:] + everybody[:first]:
            _measure_one(peer, size, figures)


def _measure_one(peer: Peer, size: int, figures: Figures) -> None:
    mib = size / (1 << 20)
    with peer.ready() as view:
        with _cpu(view, figures, CPU, peer.name, 1024 / mib):
            figures.add(COLD, peer.name, mib / timed(read_all, view.large))
        figures.add(SECOND, peer.name, mib / timed(read_all, view.large))
        if view.small is not None:
            _measure_small(peer, view.small, figures)
    with peer.ready() as view, _cpu(view, figures, RANDOM_CPU, peer.name, 1e6 / RANDOM_READS):
        figures.add(RANDOM, peer.name, RANDOM_READS / timed(_read_randomly, view.large, size, 1, RANDOM_READS))
    with peer.ready() as view:
        figures.add(RANDOM_BY_MANY, peer.name, RANDOM_READS / _read_by_many(view.large, size))
        if not isinstance(peer, Ratarmount):
            _measure_writes(peer, view, size, figures)
    with peer.ready() as view:
        if isinstance(peer, Native) or _set_read_ahead(view.mountpoint, 128):
            figures.add(PLAIN, peer.name, mib / timed(read_all, view.large))


def _measure_writes(peer: Peer, view: View, size: int, figures: Figures) -> None:
    for kib in WRITES:
        total = size if kib > 4 else size // 16
        with _cpu(view, figures, WRITE_CPU.format(kib), peer.name, 1e6 * (kib << 10) / total):
            rate = total / (1 << 20) / timed(write_all, view.large, total, kib << 10)
        figures.add(WRITE.format(kib), peer.name, rate)


@contextmanager
def _cpu(view: View, figures: Figures, row: str, name: str, factor: float) -> Iterator[None]:
    """Measure the processor time of the server inside the block, times ``factor``; of the kernel, nothing."""
    before = cpu_seconds(view.pid) if view.pid else 0.0
    yield
    if view.pid:
        figures.add(row, name, (cpu_seconds(view.pid) - before) * factor)


def _measure_small(peer: Peer, folder: Path, figures: Figures) -> None:
    names = [folder / f"{number:04d}.bin" for number in range(SMALL)]
    figures.add(FIRST_STAT, peer.name, SMALL / timed(_stat_all, names, SMALL))
    figures.add(LIST, peer.name, 1 / timed(_list, folder))
    figures.add(STAT, peer.name, STATS / timed(_stat_all, names, STATS))
    figures.add(OPEN, peer.name, OPENS / timed(_read_all_small, names[:OPENS]))


def _list(folder: Path) -> None:
    subprocess.run(["ls", "-l", folder], check=True, stdout=subprocess.DEVNULL)


def _stat_all(names: list[Path], count: int) -> None:
    for number in range(count):
        os.stat(names[number % len(names)])


def _read_all_small(names: list[Path]) -> None:
    for name in names:
        with open(name, "rb", buffering=0) as file:
            file.read(4096)


def _read_randomly(path: Path, size: int, seed: int, count: int) -> None:
    rng = random.Random(seed)
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        for _ in range(count):
            os.pread(file.fileno(), 4096, rng.randrange(size // 4096) * 4096)


def _read_by_many(path: Path, size: int) -> float:
    """Read randomly with several processes at once, and return the seconds."""
    with multiprocessing.get_context("fork").Pool(READERS) as pool:
        pool.map(abs, range(READERS), chunksize=1)  # all of them have started
        parts = [(path, size, seed, RANDOM_READS // READERS) for seed in range(READERS)]
        return timed(pool.starmap, _read_randomly, parts, 1)


def _set_read_ahead(mountpoint: Path, kib: int) -> bool:
    """Set the read-ahead of a mount, and return whether that worked.  Without root, mounts have 128 KiB."""
    device = os.stat(mountpoint).st_dev
    try:
        Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb").write_text(str(kib))
    except OSError:
        return False
    return True
