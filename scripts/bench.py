"""Measures asdffs beside native files, bindfs and the asdf library, all in one run.

One block of ``--size`` MiB at an offset that is no multiple of a page.  Every round runs every peer once, in turn
(A B C A B C), after several GiB of RAM were touched; the table shows medians and ratios, which are worth more than
the figures on a noisy machine.  "cold" is a fresh mount over a file in the page cache, "warm" the second pass.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PIECE = 1 << 20
STATS, RANDOM_READS, OPENS, ARRAYS = 20_000, 8_000, 3_000, 10_000


class Peer:
    """Something that shows the same bytes: ``data``, and a text ``tree``, in ``folder``."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.point = folder / f"mnt-{name}"
        self.point.mkdir()

    @contextmanager
    def ready(self) -> Iterator[tuple[Path, Path]]:
        raise NotImplementedError


class Native(Peer):
    @contextmanager
    def ready(self) -> Iterator[tuple[Path, Path]]:
        yield self.folder / "plain" / "data", self.folder / "plain" / "tree.yaml"


class Bindfs(Peer):
    @contextmanager
    def ready(self) -> Iterator[tuple[Path, Path]]:
        subprocess.run(["bindfs", self.folder / "plain", self.point], check=True)
        try:
            yield self.point / "data", self.point / "tree.yaml"
        finally:
            subprocess.run(["umount", self.point], check=True)


class Asdffs(Peer):
    @contextmanager
    def ready(self, file: Path | None = None) -> Iterator[tuple[Path, Path]]:
        command = [sys.executable, "-m", "asdffs"]
        file = file or self.folder / "data.asdf"
        subprocess.run([*command, "mount", "--binding", self.name, file, self.point], check=True)
        try:
            yield self.point / "blocks/0000.bin", self.point / "tree.yaml"
        finally:
            subprocess.run([*command, "umount", self.point], check=True)


def timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def read_all(path: Path) -> int:
    buffer, total = bytearray(PIECE), 0
    with open(path, "rb", buffering=0) as file:
        while got := file.readinto(buffer):
            total += got
    return total


def write_all(path: Path, size: int) -> None:
    piece = os.urandom(PIECE)
    with open(path, "r+b", buffering=0) as file:
        for _ in range(size // PIECE):
            file.write(piece)


def read_randomly(path: Path, size: int) -> None:
    rng = random.Random(1)
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        for _ in range(RANDOM_READS):
            os.pread(file.fileno(), 4096, rng.randrange(size // 4096) * 4096)


def stat_often(path: Path) -> None:
    for _ in range(STATS):
        os.stat(path)


def open_often(path: Path) -> None:
    for _ in range(OPENS):
        with open(path, "rb", buffering=0) as file:
            file.read(4096)


def save(tree: Path, number: int) -> None:
    subprocess.run(["sed", "-i", f"s/^value: .*/value: {number % 10}/", tree], check=True)


def measure(peer: Peer, size: int, number: int) -> dict[str, float]:
    """One round; each row as a rate, larger is better."""
    mib = size / PIECE
    found = {}
    with peer.ready() as (data, tree):
        found["seq read cold MiB/s"] = mib / timed(lambda: read_all(data))
        found["seq read warm MiB/s"] = mib / timed(lambda: read_all(data))
        found["stat /s"] = STATS / timed(lambda: stat_often(data))
        found["open+read+close /s"] = OPENS / timed(lambda: open_often(tree))
        found["save (sed -i) /s"] = 1 / timed(lambda: save(tree, number))
    with peer.ready() as (data, tree):
        found["random 4 KiB cold /s"] = RANDOM_READS / timed(lambda: read_randomly(data, size))
        found["seq write MiB/s"] = mib / timed(lambda: write_all(data, size))
    return found


def grow(peer: Asdffs, folder: Path) -> dict[str, float]:
    """A save of 1 MiB that fits, one that does not, and ``cp`` of the file, all of a copy; per second."""
    copy, line = folder / "grown.asdf", b"long: " + b"x" * PIECE + b"\n"
    found = {"cp of the file /s": 1 / timed(lambda: subprocess.run(["cp", folder / "data.asdf", copy], check=True))}
    os.sync()
    with peer.ready(copy) as (_, tree):
        text = tree.read_bytes()
        larger = text.replace(b"value: ", line + b"value: ")
        found["save + 1 MiB, grows /s"] = 1 / timed(lambda: tree.write_bytes(larger))
        found["save 1 MiB, fits /s"] = 1 / timed(lambda: tree.write_bytes(larger.replace(b"x" * PIECE, b"y" * PIECE)))
    copy.unlink()
    return found


def compare_views(peer: Asdffs, size: int) -> dict[str, float]:
    """The same bytes as a block and as its array's .npy, each read from a fresh mount, the order by turns."""
    mib, found = size / PIECE, {}
    for name in ("blocks/0000.bin", "arrays/data.npy", "arrays/data.npy", "blocks/0000.bin"):
        with peer.ready():
            rate = mib / timed(lambda name=name: read_all(peer.point / name))
        row = "block, cold MiB/s" if name.startswith("blocks") else ".npy, cold MiB/s"
        found[row] = max(rate, found.get(row, 0.0))
    return found


def list_arrays(peer: Asdffs, folder: Path) -> dict[str, float]:
    """``ls -l`` of 10,000 arrays: without and with a .fits for each (20,000 entries then), the mean of three."""
    found = {}
    for row, fits in (("ls -l of 10,000 /s", "off"), ("ls -l with .fits /s", "on")):
        command = [sys.executable, "-m", "asdffs"]
        many = folder / "many.asdf"
        subprocess.run(
            [*command, "mount", "--binding", peer.name, "-o", f"fits={fits}", many, peer.point], check=True
        )
        try:
            found[row] = 3 / timed(lambda: [list_long(peer.point / "arrays") for _ in range(3)])
        finally:
            subprocess.run([*command, "umount", peer.point], check=True)
    return found


def list_by_bindfs(peer: Bindfs, files: Path) -> float:
    subprocess.run(["bindfs", files, peer.point], check=True)
    try:
        return 3 / timed(lambda: [list_long(peer.point) for _ in range(3)])
    finally:
        subprocess.run(["umount", peer.point], check=True)


def list_long(folder: Path) -> None:
    subprocess.run(["ls", "-l", folder], check=True, stdout=subprocess.DEVNULL)


def save_by_library(file: Path, number: int) -> float:
    """The same edit by ``update()`` of the asdf library, per second."""
    import asdf

    def edit() -> None:
        with asdf.open(file, mode="rw") as opened:
            opened["value"] = number
            opened.update()

    return 1 / timed(edit)


def touch_memory(gib: int) -> None:
    held = bytearray(gib << 30)
    for place in range(0, len(held), 4096):
        held[place] = 1


def prepare(folder: Path, size: int) -> None:
    import asdf
    import numpy as np

    plain = folder / "plain"
    plain.mkdir()
    content = np.frombuffer(os.urandom(PIECE) * (size // PIECE), dtype="u1")
    asdf.AsdfFile({"value": 1, "data": content}).write_to(folder / "data.asdf", pad_blocks=0.1)
    shutil.copy(folder / "data.asdf", folder / "library.asdf")
    content.tofile(plain / "data")
    with open(folder / "data.asdf", "rb") as file:
        head = file.read(100_000)
    (plain / "tree.yaml").write_bytes(head[: head.index(b"\n...\n") + 5])
    if (head.index(b"\xd3BLK") + 54) % 4096 == 0:
        raise SystemExit("the block begins at a page; change the size")


def prepare_many(folder: Path) -> None:
    """A file of 10,000 arrays, and 10,000 files of their size."""
    import asdf
    import numpy as np

    arrays = {f"array{n}": np.arange(n, n + 2, dtype="<i4") for n in range(ARRAYS)}
    asdf.AsdfFile(arrays).write_to(folder / "many.asdf")
    (folder / "files").mkdir()
    for name, array in arrays.items():
        np.save(folder / "files" / name, array)


def run(arguments: argparse.Namespace, folder: Path) -> dict[str, dict[str, list[float]]]:
    size = arguments.size * PIECE
    prepare(folder, size)
    prepare_many(folder)
    touch_memory(arguments.touch)
    peers = [
        Native("native", folder),
        Bindfs("bindfs", folder),
        *(Asdffs(name, folder) for name in arguments.binding),
    ]
    found: dict[str, dict[str, list[float]]] = {}
    for number in range(arguments.rounds):
        for name in ("data.asdf", "library.asdf", "plain/data"):
            read_all(folder / name)
        for peer in peers:
            for row, rate in measure(peer, size, number).items():
                found.setdefault(row, {}).setdefault(peer.name, []).append(rate)
        for peer in peers:
            if isinstance(peer, Asdffs):
                rows = {**grow(peer, folder), **compare_views(peer, size), **list_arrays(peer, folder)}
                for row, rate in rows.items():
                    found.setdefault(row, {}).setdefault(peer.name, []).append(rate)
            elif isinstance(peer, Bindfs):
                rate = list_by_bindfs(peer, folder / "files")
                found.setdefault("ls -l of 10,000 /s", {}).setdefault(peer.name, []).append(rate)
        rate = save_by_library(folder / "library.asdf", number)
        found["save (sed -i) /s"].setdefault("asdf update()", []).append(rate)
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
    return found


def table(found: dict[str, dict[str, list[float]]]) -> str:
    lines = []
    for row, rates in found.items():
        medians = {name: statistics.median(values) for name, values in rates.items()}
        for name, median in medians.items():
            others = [other for other in ("native", "bindfs") if other in medians]
            ratios = "  ".join(f"{median / medians[other]:6.2f} x {other}" for other in others)
            lines.append(f"{row:<22} {name:<14} {median:>12,.{0 if median > 100 else 2}f}   {ratios}")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=512, help="of the block, in MiB (default 512)")
    parser.add_argument("--rounds", type=int, default=5, help="default 5")
    parser.add_argument("--touch", type=int, default=3, help="GiB of RAM to touch first (default 3)")
    parser.add_argument("--binding", action="append", choices=["mfusepy", "fusepy"], help="default: both")
    parser.add_argument("--folder", help="where to put the files (default: the temporary directory)")
    parser.add_argument("--json", action="store_true", help="print every figure as one JSON object")
    arguments = parser.parse_args()
    arguments.binding = arguments.binding or ["mfusepy", "fusepy"]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        found = run(arguments, Path(folder))
    print(json.dumps(found) if arguments.json else table(found))


if __name__ == "__main__":
    main()
