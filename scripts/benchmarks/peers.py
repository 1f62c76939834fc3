"""The measured file systems: the kernel's own, asdffs with each library, and the other programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.place import ASDFFS, BIN, run


@dataclass(frozen=True)
class View:
    """The files of a peer: one large file, and a folder of small ones, if it has one.

    ``pid``: the process that serves them; 0 for the kernel.
    """

    large: Path
    small: Path | None
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

    has_small = True

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
            small = self.point / "small" if self.has_small else None
            yield View(self.point / "large", small, process.pid, self.point)
        finally:
            run("umount", self.point)
            process.wait()


class Bindfs(_Server):
    name = "bindfs"

    def command(self) -> list[object]:
        return ["bindfs", "-f", self.folder / "plain", self.point]


class WindowServer(_Server):
    """A window on the same block, served by the least possible C (``window_server.c``)."""

    name = "C window"
    has_small = False

    def __init__(self, folder: Path, program: Path) -> None:
        super().__init__(folder)
        self._program = program

    def command(self) -> list[object]:
        start, size = window_of_block(self.folder / "large.asdf")
        return [self._program, self.folder / "large.asdf", start, size, self.point]


def built_window_server(folder: Path) -> Path | None:
    """Compile the window server into ``folder``; return None without a compiler or the headers of libfuse 3."""
    if not shutil.which("cc") or not shutil.which("pkg-config") or subprocess.run(["pkg-config", "fuse3"]).returncode:
        print("no C compiler or no headers of libfuse 3: no C window server", file=sys.stderr)
        return None
    program = folder / "window_server"
    flags = run("pkg-config", "--cflags", "--libs", "fuse3").split()
    run("cc", "-O2", "-o", program, Path(__file__).with_name("window_server.c"), *flags)
    return program


class Ratarmount(_Server):
    """The same files in a tar archive, with its index in memory."""

    name = "ratarmount"

    def command(self) -> list[object]:
        return [BIN / "ratarmount", "-f", "--index-file", ":memory:", self.folder / "plain.tar", self.point]


class Asdffs(Peer):
    """asdffs with one library: one mount for the large block, and one for the small blocks.

    ``source``: another checkout of asdffs to run; empty for this one.
    """

    def __init__(self, folder: Path, library: str, source: str = "") -> None:
        self.name = f"{library} before" if source else library
        super().__init__(folder)
        self._library, self._source = library, source
        self._second = folder / f"mnt-{self.name}-small"
        self._second.mkdir()

    @contextmanager
    def ready(self) -> Iterator[View]:
        small = mounted(self.folder / "small.asdf", self._second, self._library, source=self._source)
        large = mounted(self.folder / "large.asdf", self.point, self._library, source=self._source)
        with large as pid, small:
            yield View(self.point / "blocks/0000.bin", self._second / "blocks", pid, self.point)


@contextmanager
def mounted(file: Path, point: Path, library: str, *options: str, source: str = "") -> Iterator[int]:
    """Mount an ASDF file inside the block.  The value of the ``with`` statement is the process id of the daemon.

    ``source``: another checkout of asdffs to run; empty for this one.
    """
    environment = {"PYTHONPATH": source, "PYTHONSAFEPATH": "1"} if source else {}
    point.mkdir(exist_ok=True)
    run(*ASDFFS, "mount", "--libfuse", library[-1], *options, file, point, **environment)
    try:
        yield int(json.loads((point / ".asdffs/status.json").read_text())["pid"])
    finally:
        run(*ASDFFS, "umount", point, **environment)


@contextmanager
def mounted_by_bindfs(folder: Path, point: Path, *options: str) -> Iterator[None]:
    """Mount a directory by bindfs inside the block."""
    point.mkdir(exist_ok=True)
    process = subprocess.Popen(["bindfs", "-f", *options, folder, point], stderr=subprocess.DEVNULL)
    while not os.path.ismount(point):
        time.sleep(0.01)
    try:
        yield
    finally:
        run("umount", point)
        process.wait()


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


def window_of_block(file: Path) -> tuple[int, int]:
    """Return the offset and the size of the content of the first block in bytes; the block is not compressed."""
    start = offset_of_block(file)
    with open(file, "rb") as opened:
        opened.seek(start)
        header = opened.read(54)
    return start + 6 + int.from_bytes(header[4:6], "big"), int.from_bytes(header[30:38], "big")


def peers(folder: Path, libraries: tuple[str, ...], before: str = "") -> list[Peer]:
    """Return all installed peers.  ``before``: another checkout of asdffs; empty for none."""
    found: list[Peer] = [Native(folder)]
    if program := built_window_server(folder):
        found.append(WindowServer(folder, program))
    if shutil.which("bindfs"):
        found.append(Bindfs(folder))
    if (folder / "plain.tar").exists():
        found.append(Ratarmount(folder))
    found.extend(Asdffs(folder, name) for name in libraries)
    return [*found, *(Asdffs(folder, name, before) for name in libraries if before)]
