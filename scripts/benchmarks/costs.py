"""Measures a mount and an edit as files grow: bytes that the daemon reads and writes, and seconds.

Blocks are holes, so the largest file needs no disk space.  ``tests/mount/test_costs.py`` checks that the costs do not
grow with the file.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from benchmarks.figures import Figures, Target
from benchmarks.made import make_file
from benchmarks.peers import mounted
from benchmarks.place import Place

#: Name -> number of blocks, bytes in each.
FILES = {
    "1 MB": (1, 10**6),
    "1 GB": (1, 10**9),
    "100 GB": (1, 100 * 10**9),
    "1,000 blocks": (1_000, 64),
    "100,000 blocks": (100_000, 64),
}
MOUNT, EDIT, READ, WRITTEN = "mount of {}, s", "edit in {}, s", "mounted {}: KiB read", "edit in {}: KiB written"
TARGETS: tuple[Target, ...] = ()


def measure(place: Place, figures: Figures) -> None:
    point = place.folder / "mnt"
    for name, (count, size) in FILES.items():
        file = make_file(place.folder / "data.asdf", count, size)
        for number in range(place.rounds):
            for turn, binding in enumerate(place.bindings):
                value = (number * len(place.bindings) + turn) % 10  # the same value would write nothing
                begin = time.perf_counter()
                with mounted(file, point, binding) as pid:
                    figures.add(MOUNT.format(name), binding, time.perf_counter() - begin)
                    read, written = _counted(pid)
                    figures.add(READ.format(name), binding, read / 1024)
                    begin = time.perf_counter()
                    subprocess.run(["sed", "-i", f"s/^value: .*/value: {value}/", point / "tree.yaml"], check=True)
                    figures.add(EDIT.format(name), binding, time.perf_counter() - begin)
                    figures.add(WRITTEN.format(name), binding, (_counted(pid)[1] - written) / 1024)
        file.unlink()


def _counted(pid: int) -> tuple[int, int]:
    """Return the bytes that a process has read and written, including FUSE requests and answers."""
    read, written = Path(f"/proc/{pid}/io").read_text().splitlines()[:2]
    return int(read.split()[1]), int(written.split()[1])
