"""Measures reads and writes through the mount: one large block at an odd offset, and many small blocks."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

from benchmarks.figures import Figures, Target
from benchmarks.peers import Native, Peer, Ratarmount, View, make_sources, peers
from benchmarks.place import Place, cpu_seconds, read_all, timed, write_all

SMALL, STATS, RANDOM_READS, OPENS = 10_000, 20_000, 8_000, 3_000
COLD, PLAIN, SECOND = "read cold, MiB/s", "read cold at 128 KiB read-ahead, MiB/s", "read again, MiB/s"
WRITE, RANDOM, STAT = "write in place, MiB/s", "random 4 KiB cold, /s", "stat, /s"
OPEN, LIST, CPU = "open+read+close of small files, /s", "ls -l of 10,000, /s", "CPU of a cold read, s/GiB"

TARGETS = (
    Target(COLD, "bindfs", least=1.5),
    Target(COLD, "ratarmount", least=2),
    Target(COLD, "native", least=0.35),
    Target(PLAIN, "native", least=0.25),
    Target(SECOND, "native", least=0.6),
    Target(WRITE, "bindfs", least=1),
    Target(RANDOM, "bindfs", least=0.6),
    Target(STAT, "bindfs", least=1),
    Target(OPEN, "bindfs", least=1),
    Target(LIST, "bindfs", least=1),
    Target(CPU, "bindfs", most=1),
)


def measure(place: Place, figures: Figures) -> None:
    size = place.size(1024)
    make_sources(place.folder, size, SMALL)
    everybody = peers(place.folder, place.bindings)
    for _ in range(place.rounds):
        for name in ("large.asdf", "plain/large", "plain.tar"):
            if (place.folder / name).exists():
                read_all(place.folder / name)
        for peer in everybody:
            _measure_one(peer, size, figures)


def _measure_one(peer: Peer, size: int, figures: Figures) -> None:
    mib = size / (1 << 20)
    with peer.ready() as view:
        before = cpu_seconds(view.pid) if view.pid else 0.0
        figures.add(COLD, peer.name, mib / timed(read_all, view.large))
        if view.pid:
            figures.add(CPU, peer.name, (cpu_seconds(view.pid) - before) * 1024 / mib)
        figures.add(SECOND, peer.name, mib / timed(read_all, view.large))
        _measure_small(peer, view, figures)
    with peer.ready() as view:
        figures.add(RANDOM, peer.name, RANDOM_READS / timed(_read_randomly, view.large, size))
        if not isinstance(peer, Ratarmount):
            figures.add(WRITE, peer.name, mib / timed(write_all, view.large, size))
    with peer.ready() as view:
        if isinstance(peer, Native) or _set_read_ahead(view.mountpoint, 128):
            figures.add(PLAIN, peer.name, mib / timed(read_all, view.large))


def _measure_small(peer: Peer, view: View, figures: Figures) -> None:
    names = [view.small / f"{number:04d}.bin" for number in range(SMALL)]
    figures.add(LIST, peer.name, 1 / timed(_list, view.small))
    figures.add(STAT, peer.name, STATS / timed(_stat_all, names))
    figures.add(OPEN, peer.name, OPENS / timed(_read_all_small, names[:OPENS]))


def _list(folder: Path) -> None:
    subprocess.run(["ls", "-l", folder], check=True, stdout=subprocess.DEVNULL)


def _stat_all(names: list[Path]) -> None:
    for number in range(STATS):
        os.stat(names[number % len(names)])


def _read_all_small(names: list[Path]) -> None:
    for name in names:
        with open(name, "rb", buffering=0) as file:
            file.read(4096)


def _read_randomly(path: Path, size: int) -> None:
    rng = random.Random(1)
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        for _ in range(RANDOM_READS):
            os.pread(file.fileno(), 4096, rng.randrange(size // 4096) * 4096)


def _set_read_ahead(mountpoint: Path, kib: int) -> bool:
    """Set the read-ahead of a mount, and return whether that worked.  Without root, mounts have 128 KiB."""
    device = os.stat(mountpoint).st_dev
    try:
        Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb").write_text(str(kib))
    except OSError:
        return False
    return True
