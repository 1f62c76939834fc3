"""The measured file systems: the kernel's own, asdffs with each binding, and the other programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.place import ASDFFS, BIN, run


@dataclass(frozen=True)
class View:
    """The files of a peer: one large file, and a folder of small ones.

    ``pid``: the process that serves them; 0 for the kernel.
    """

    large: Path
    small: Path
    pid: int
    mountpoint: Path


class Peer:
    """A way to access the files that ``make_sources`` made in ``folder``."""

    name: str

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.point = folder / f"mnt-{self.name}"
        self.point.mkdir()

    @contextmanager
    def ready(self) -> Iterator[View]:
        raise NotImplementedError


class Native(Peer):
    name = "native"

    @contextmanager
    def ready(self) -> Iterator[View]:
        plain = self.folder / "plain"
        yield View(plain / "large", plain / "small", 0, plain)


class _Server(Peer):
    """A peer whose program stays in the foreground."""

    def command(self) -> list[object]:
        raise NotImplementedError

    @contextmanager
    def ready(self) -> Iterator[View]:
        with open(os.devnull, "w") as quiet:
            process = subprocess.Popen([*map(str, self.command())], stdout=quiet, stderr=quiet)
            while not os.path.ismount(self.point):
                if process.poll() is not None:
                    raise SystemExit(f"{self.name} did not mount")
                time.sleep(0.01)
        try:
            yield View(self.point / "large", self.point / "small", process.pid, self.point)
        finally:
            run("umount", self.point)
            process.wait()


class Bindfs(_Server):
    name = "bindfs"

    def command(self) -> list[object]:
        return ["bindfs", "-f", self.folder / "plain", self.point]


class Ratarmount(_Server):
    """The same files in a tar archive, with its index in memory."""

    name = "ratarmount"

    def command(self) -> list[object]:
        return [BIN / "ratarmount", "-f", "--index-file", ":memory:", self.folder / "plain.tar", self.point]


class Asdffs(Peer):
    """asdffs with one binding: one mount for the large block, and one for the small blocks."""

    def __init__(self, folder: Path, binding: str) -> None:
        self.name = binding
        super().__init__(folder)
        self._second = folder / f"mnt-{self.name}-small"
        self._second.mkdir()

    @contextmanager
    def ready(self) -> Iterator[View]:
        small = mounted(self.folder / "small.asdf", self._second, self.name)
        with mounted(self.folder / "large.asdf", self.point, self.name) as pid, small:
            yield View(self.point / "blocks/0000.bin", self._second / "blocks", pid, self.point)


@contextmanager
def mounted(file: Path, point: Path, binding: str, *options: str) -> Iterator[int]:
    """Mount an ASDF file inside the block.  The value of the ``with`` statement is the process id of the daemon."""
    point.mkdir(exist_ok=True)
    run(*ASDFFS, "mount", "--binding", binding, *options, file, point)
    try:
        yield int(json.loads((point / ".asdffs/status.json").read_text())["pid"])
    finally:
        run(*ASDFFS, "umount", point)


def make_sources(folder: Path, size: int, count: int) -> None:
    """Make the same content for each peer: a file of ``size`` bytes, and ``count`` files of 8 bytes each."""
    import asdf
    import numpy as np

    plain = folder / "plain"
    (plain / "small").mkdir(parents=True)
    content = np.frombuffer(os.urandom(1 << 20) * (size >> 20), dtype="u1")
    content.tofile(plain / "large")
    asdf.AsdfFile({"value": 1, "data": content}).write_to(folder / "large.asdf", pad_blocks=0.1)
    if (offset_of_block(folder / "large.asdf") + 54) % 4096 == 0:
        raise SystemExit("the block begins at a page; change the size")
    arrays = {f"array{n}": np.arange(n, n + 2, dtype="<i4") for n in range(count)}
    asdf.AsdfFile(arrays).write_to(folder / "small.asdf", include_block_index=True)
    for number, array in enumerate(arrays.values()):
        array.tofile(plain / "small" / f"{number:04d}.bin")
    if shutil.which(BIN / "ratarmount"):
        with tarfile.open(folder / "plain.tar", "w") as tar:
            tar.add(plain / "large", "large")
            tar.add(plain / "small", "small")


def offset_of_block(file: Path) -> int:
    """Return the offset of the magic of the first block in bytes."""
    with open(file, "rb") as opened:
        return opened.read(100_000).index(b"\xd3BLK")


def peers(folder: Path, bindings: tuple[str, ...]) -> list[Peer]:
    """Return all installed peers."""
    found: list[Peer] = [Native(folder)]
    if shutil.which("bindfs"):
        found.append(Bindfs(folder))
    if (folder / "plain.tar").exists():
        found.append(Ratarmount(folder))
    return [*found, *(Asdffs(folder, name) for name in bindings)]
