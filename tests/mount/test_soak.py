"""A mount of an archive under load for hours: memory, descriptors, threads, spool and log stay within bounds.

The load lasts ``ASDFFS_SOAK_SECONDS``, two hours by default.  After a tenth of it everything was used once; from then
on memory may grow by ``GROWTH`` at most.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import asdf
import numpy as np
import pytest
from support.hangs import LONGEST, ended_if_it_hangs
from support.mounts import Mounted, mounted, run

SECONDS = float(os.environ.get("ASDFFS_SOAK_SECONDS", "7200"))

pytestmark = [
    pytest.mark.long,
    pytest.mark.mount,
    pytest.mark.skipif(
        not {"ASDFFS_DEEP", "ASDFFS_SOAK_SECONDS"} & os.environ.keys(), reason="takes hours: ./scripts/test --deep"
    ),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root cuts a disk off"),
]

#: Files of the archive.  The mount keeps ``OPEN`` of them open.
FILES, OPEN = 60, 20
#: What the daemon may have, in KiB of its own memory, and how much of that it may get after the first tenth.
MEMORY, GROWTH = 80 << 10, 8 << 10
#: For each open file: the file, its directory, journal, state, lock, spool and the watch; and what the daemon has.
DESCRIPTORS = 12 * OPEN + 60
THREADS = 24
#: Bytes of the spool and of what is kept there, and of the logs: one of 16 MiB and the one before.
SPOOL, LOG = 16 << 20, 34 << 20
VALUE = np.arange(20_000, dtype="f4")


@pytest.fixture(autouse=True)
def _ends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """As for all tests, but later."""
    with ended_if_it_hangs(tmp_path_factory.getbasetemp(), LONGEST + SECONDS):
        yield


def write(path: Path, number: int) -> None:
    file = asdf.AsdfFile({"number": number, "plain": VALUE + number, "packed": VALUE})
    file.set_array_compression(file["packed"], "zlib")
    file.write_to(path)


class Load:
    """Programs that use the mount, each in a thread, until ``stop``.  ``done``: how often each did its work."""

    def __init__(self, mount: Mounted, disk: Path) -> None:
        self._mount = mount
        self._disk = disk
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.done: dict[str, int] = {}
        self.errors: list[str] = []

    def start(self, *programs: Callable[[random.Random], None]) -> None:
        for number, program in enumerate(programs):
            name = f"{program.__name__} {number}"
            self._threads.append(threading.Thread(target=self._run, args=(name, program, random.Random(number))))
            self._threads[-1].start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, name: str, program: Callable[[random.Random], None], chance: random.Random) -> None:
        self.done[name] = 0
        while not self._stop.is_set():
            try:
                program(chance)
            except OSError as err:  # a full disk, or a file that changed meanwhile; anything else is a failure
                if err.errno not in EXPECTED:
                    self.errors.append(f"{name}: {err}")
            except Exception as err:  # noqa: BLE001  # told at the end
                self.errors.append(f"{name}: {err!r}")
            self.done[name] += 1

    def _view(self, chance: random.Random, first: int = 0, last: int = FILES) -> Path:
        return self._mount.point / f"{chance.randrange(first, last):03d}.asdf.d"

    # Files from 0 to 39 are changed through the mount, the others from outside.

    def edit(self, chance: random.Random) -> None:
        """Save the tree, in place or by a rename, as editors do; sometimes a text that is refused."""
        tree = self._view(chance, 0, 40) / "tree.yaml"
        text = re.sub(r"number: .*", f"number: {chance.randrange(10**6)}", tree.read_text())
        if chance.randrange(50) == 0:
            with suppress(OSError):
                tree.write_text(text.replace("number: ", "number: ["))
        if chance.randrange(2):
            tree.write_text(text)
        else:
            new = tree.with_name(".tree.yaml.swp")
            new.write_text(text)
            new.rename(tree)

    def write(self, chance: random.Random) -> None:
        """Write into a block, stored or compressed."""
        with (self._view(chance, 0, 40) / f"blocks/000{chance.randrange(2)}.bin").open("r+b") as block:
            block.seek(chance.randrange(70_000))
            block.write(chance.randbytes(4000))
            os.fsync(block.fileno())

    def read(self, chance: random.Random) -> None:
        view = self._view(chance)
        assert np.load(view / f"arrays/{chance.choice(('plain', 'packed'))}.npy", mmap_mode="r")[:].size == VALUE.size
        assert next((view / "exploded").iterdir()).stat().st_size

    def set(self, chance: random.Random) -> None:
        """Set a value in the mount, or in a file that the mount may have open."""
        view = self._view(chance, 0, 40)
        command = [sys.executable, "-m", "asdffs", "set", f"number={chance.randrange(10**6)}", view / "tree.yaml"]
        subprocess.run(command, env=self._mount.environment, capture_output=True, check=False)

    def replace(self, chance: random.Random) -> None:
        """Write a new version of a file, and rename it into place: the mount reads it again."""
        path = self._mount.file / f"{chance.randrange(40, FILES):03d}.asdf"
        write(path.with_suffix(".new"), chance.randrange(10**6))
        path.with_suffix(".new").rename(path)

    def cut(self, chance: random.Random) -> None:
        """Fill the disk of the spool, and free it."""
        ballast = self._disk / "ballast"
        with suppress(OSError), ballast.open("wb") as file:
            while not self._stop.is_set():
                file.write(bytes(1 << 20))
        self._stop.wait(chance.random() * 5)
        ballast.unlink(missing_ok=True)
        self._stop.wait(chance.random() * 20)


#: A full disk, a file that another one replaced, a tree that is refused, a program that holds it, a name that goes.
EXPECTED = (28, 116, 74, 16, 2, 5)


def spooled(disk: Path, pid: int) -> int:
    """Bytes of all files on the disk, also of those without a name that the daemon has open."""
    found = {}
    named = (Path(top, name) for top, _, names in os.walk(disk) for name in names)  # a directory may go meanwhile
    for path in (*named, *Path(f"/proc/{pid}/fd").iterdir()):
        with suppress(OSError):
            one = path.stat()
            if one.st_dev == disk.stat().st_dev and path.name != "ballast":
                found[one.st_ino] = one.st_blocks * 512
    return sum(found.values())


def measured(mount: Mounted, disk: Path, log: Path) -> dict[str, int]:
    status = dict(re.findall(r"(\w+):\s+(\d+)", Path(f"/proc/{mount.pid}/status").read_text()))
    logs = (log, log.with_name("log.1"))
    return {
        "memory": int(status["RssAnon"]),
        "descriptors": len(os.listdir(f"/proc/{mount.pid}/fd")),
        "threads": int(status["Threads"]),
        "spool": spooled(disk, mount.pid),
        "log": sum(path.stat().st_size for path in logs if path.exists()),
    }


@contextmanager
def disk_at(point: Path) -> Iterator[Path]:
    """A disk of 64 MiB."""
    point.mkdir()
    assert run("mount", "-t", "tmpfs", "-o", "size=64m", "none", point).returncode == 0
    try:
        yield point
    finally:
        run("umount", "-l", point)


def test_soak(tmp_path: Path) -> None:
    archive, log = tmp_path / "archive", tmp_path / "log"
    archive.mkdir()
    for number in range(FILES):
        write(archive / f"{number:03d}.asdf", number)
    found: list[dict[str, int]] = []
    options = (f"log={log}", f"open_max={OPEN}", "idle=5")
    spool = tmp_path / "disk"
    with disk_at(spool) as disk, mounted(archive, "-o", ",".join((*options, f"spool={spool}")), code=None) as mount:
        load, begun = Load(mount, disk), time.monotonic()
        load.start(load.edit, load.edit, load.write, load.read, load.read, load.set, load.replace, load.cut)
        try:
            for number in itertools.count(1):
                while time.monotonic() < begun + number * SECONDS / 200:
                    threading.Event().wait(0.2)
                found.append(measured(mount, disk, log))
                if number == 200:
                    break
        finally:
            load.stop()
        assert mount.status["pid"] == mount.pid
    early = max(one["memory"] for one in found[:20])
    most = {key: max(one[key] for one in found) for key in found[0]}
    print(load.done, most, f"memory after a tenth: {early}, at the end: {found[-1]['memory']}")
    assert load.errors == []
    assert min(load.done.values()) > 0
    assert most["memory"] < MEMORY
    assert max(one["memory"] for one in found[-20:]) - early < GROWTH
    assert most["descriptors"] < DESCRIPTORS
    assert most["threads"] < THREADS
    assert most["spool"] < SPOOL
    assert most["log"] < LOG
