"""The working directory of a benchmark, and helpers for all of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PIECE = 1 << 20
ASDFFS = (sys.executable, "-m", "asdffs")
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Place:
    """The working directory and the settings of a section.

    ``folder``: empty at the start of the section.  ``scale``: divides all sizes.  ``libraries``: those to measure.
    ``before``: another checkout of asdffs to compare with; empty for none.
    """

    folder: Path
    rounds: int
    scale: int
    libraries: tuple[str, ...]
    before: str = ""

    def size(self, mib: int) -> int:
        """Return ``mib`` MiB in bytes, divided by ``scale``."""
        return max(1, mib // self.scale) * PIECE


def timed(work: Callable[..., object], *arguments: object) -> float:
    """Call ``work`` and return the time in seconds."""
    begin = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - begin


def run(*command: object, **environment: str) -> str:
    """Run a command that must succeed, and return its output."""
    done = subprocess.run(
        list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )
    return done.stdout


def touch_memory(gib: int) -> None:
    """Touch ``gib`` GiB of memory, in a process of its own.

    A virtual machine gives idle memory back to its host.  The first access of such a page is slow and would falsify
    the figures.  The system counts the memory of a process that starts another one as memory of the new one.
    """
    run(sys.executable, "-c", f"held = bytearray({gib} << 30); held[::4096] = b'1' * len(held[::4096])")


def read_all(path: Path) -> int:
    """Read a file to its end, and return the number of bytes."""
    buffer, total = bytearray(PIECE), 0
    with open(path, "rb", buffering=0) as file:
        while got := file.readinto(buffer):
            total += got
    return total


def write_all(path: Path, size: int, piece_size: int = PIECE) -> None:
    """Overwrite ``size`` bytes from the start of a file, ``piece_size`` bytes with each call."""
    piece = os.urandom(piece_size)
    with open(path, "r+b", buffering=0) as file:
        for _ in range(size // piece_size):
            file.write(piece)


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process, in user and kernel mode."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int, name: str) -> float:
    """Return the memory of a process in MiB; ``name``: ``VmRSS``, or ``VmHWM`` for its peak."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"the kernel does not tell {name}")


@contextmanager
def file_systems(folder: Path, size: int) -> Iterator[dict[str, Path]]:
    """Mount ext4 and XFS inside the block, each from an image of ``size`` bytes.

    The value of the ``with`` statement maps the name of the file system to its directory.  Without root, it has only
    ``here``, the directory ``folder``.
    """
    found, mounted = {}, []
    try:
        for kind, options in (("ext4", ["-q", "-F", "-E", "lazy_itable_init=0"]), ("xfs", ["-q", "-m", "reflink=1"])):
            if os.geteuid() or not shutil.which(f"mkfs.{kind}"):
                continue
            image, point = folder / f"{kind}.image", folder / kind
            point.mkdir()
            with open(image, "wb") as file:
                file.truncate(size)
            run(f"mkfs.{kind}", *options, image)
            run("mount", "-o", "loop", image, point)
            mounted.append(point)
            found[kind] = point
        yield found or {"here": folder}
    finally:
        for point in mounted:
            run("umount", point)
