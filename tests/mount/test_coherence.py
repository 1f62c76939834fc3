"""What the kernel caches is never older than docs/semantics.md, Caching, says."""

from __future__ import annotations

import errno
import json
import mmap
import os
import random
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.mounts import LIMIT, Mounted, mounted
from support.samples import DATA, block_bytes, odd_file, opened

pytestmark = pytest.mark.mount

SAVES = 300
ROUNDS = 8
SECONDS = float(os.environ.get("ASDFFS_STRESS_SECONDS", "8" if os.environ.get("ASDFFS_DEEP") else "0"))
COUNTER = struct.Struct(">Q")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data.asdf"
    path.write_bytes(odd_file(padding=b" " * 5000))
    return path


def test_every_save_is_seen_at_once(file: Path) -> None:
    """By new opens, open descriptors, maps and stat, of the tree, committed.yaml and status.json."""
    with mounted(file) as mount:
        text = mount.tree.read_bytes()
        committed = mount.point / ".asdffs/committed.yaml"
        descriptor = os.open(committed, os.O_RDONLY)
        with open(committed, "rb") as opened_file:
            view = mmap.mmap(opened_file.fileno(), 0, prot=mmap.PROT_READ)
        late = 0
        for number in range(SAVES):
            new = text.replace(b"value: 1\n", b"value: %d\n" % (number % 7) + b"# longer\n" * (number % 5))
            mount.tree.write_bytes(new)
            assert committed.read_bytes() == new
            assert committed.stat().st_size == len(new) == mount.tree.stat().st_size
            assert mount.status["tree_size"] == len(new)
            late += os.pread(descriptor, 10_000, 0) != new
            late += view[:200] != new[:200]
        view.close()
        os.close(descriptor)
        assert late == 0


def test_an_error_is_seen_at_once(file: Path) -> None:
    with mounted(file) as mount:
        text = mount.tree.read_bytes()
        for number in range(20):
            with pytest.raises(OSError, match="Bad message"):
                mount.tree.write_bytes(text.replace(b"value: 1\n", b"\n" * number + b"value: 1: 2\n"))
            assert f"line {number + 8}," in mount.error
            assert (mount.point / ".asdffs/error").stat().st_size == len(mount.error)
            mount.tree.write_bytes(text.replace(b"value: 1\n", b"value: %d\n" % number))
            assert mount.error == ""
            assert len(os.listdir(mount.point / ".asdffs/rejected")) == number + 1


@pytest.mark.parametrize("replaced", [False, True])
def test_another_program_is_seen_at_the_next_open(file: Path, *, replaced: bool) -> None:
    """Also by stat and by descriptors that were open before, once somebody opened something."""
    with mounted(file) as mount:
        assert mount.block(1).stat().st_size == 40
        os.listdir(mount.point / "blocks")
        new = odd_file(
            blocks=[block_bytes(DATA), block_bytes(b"other" * 50), block_bytes(b"third")], padding=b" " * 50
        )
        target = file.with_name("new") if replaced else file
        target.write_bytes(new.replace(b"value: 1\n", b"value: 5\n"))
        os.replace(target, file)
        assert b"value: 5" in mount.tree.read_bytes()
        assert mount.block(1).read_bytes() == b"other" * 50
        assert mount.block(1).stat().st_size == 250
        assert mount.block(2).read_bytes() == b"third"
        mount.edit(b"value: 5\n", b"value: 6\n")
    assert b"value: 6\n" in file.read_bytes()


def test_times_that_a_program_sets_stay(file: Path) -> None:
    with mounted(file) as mount:
        text = mount.tree.read_bytes()
        for number in range(3):
            mount.tree.write_bytes(text.replace(b"value: 1\n", b"value: %d\n" % number))
            os.utime(mount.tree, ns=(10**18, 10**18 + number))
            assert mount.tree.stat().st_mtime_ns == 10**18 + number
            with open(mount.tree, "rb") as reader:
                assert reader.read()
            assert mount.tree.stat().st_mtime_ns == 10**18 + number


class Crowd:
    """Threads that do something until each has done it ``ROUNDS`` times and the time is over.

    The first failure is raised.
    """

    def __init__(self) -> None:
        self.end = time.monotonic() + SECONDS
        self.failures: list[BaseException] = []
        self.rounds: dict[str, int] = {}
        self._threads: list[threading.Thread] = []

    def goes_on(self) -> bool:
        enough = time.monotonic() > self.end and min(self.rounds.values()) >= ROUNDS
        return not self.failures and not enough

    def add(self, name: str, step: Callable[[random.Random], None]) -> None:
        self.rounds[name] = 0

        def run() -> None:
            rng = random.Random(name)
            try:
                while self.goes_on():
                    step(rng)
                    self.rounds[name] += 1
            except (AssertionError, OSError, ValueError, IndexError) as err:
                err.add_note(name)
                self.failures.append(err)

        self._threads.append(threading.Thread(target=run, name=name))

    def work(self) -> None:
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join(SECONDS + LIMIT)
            assert not thread.is_alive(), f"{thread.name} does not end: {self.rounds}"
        if self.failures:
            raise self.failures[0]


class Published:
    """A number that a writer has made visible: whoever begins to read later finds no older one."""

    def __init__(self) -> None:
        self.number = 0


def writes_block(mount: Mounted, number: int, slot: int, published: Published) -> Callable[[random.Random], None]:
    def step(rng: random.Random) -> None:
        with open(mount.block(number), "r+b", buffering=0) as file:
            for _ in range(20):
                os.pwrite(file.fileno(), COUNTER.pack(published.number + 1), slot * 4096)
                published.number += 1

    return step


def reads_block(
    mount: Mounted, number: int, published: list[Published], held: int
) -> Callable[[random.Random], None]:
    def step(rng: random.Random) -> None:
        slot = rng.randrange(len(published))
        least = published[slot].number
        if rng.random() < 0.5:
            raw = os.pread(held, 8, slot * 4096)
        else:
            with open(mount.block(number), "rb", buffering=0) as file:
                raw = os.pread(file.fileno(), 8, slot * 4096)
        assert COUNTER.unpack(raw)[0] >= least, "stale"

    return step


def saves_tree(mount: Mounted, text: bytes, published: Published) -> Callable[[random.Random], None]:
    def step(rng: random.Random) -> None:
        number = published.number + 1
        new = text.replace(b"value: 1\n", b"value: %d\n" % number + b"# room\n" * rng.choice([0, 3, 900]))
        if rng.random() < 0.5:
            mount.tree.write_bytes(new)
        else:
            (mount.point / "temporary").write_bytes(new)
            os.rename(mount.point / "temporary", mount.tree)
        published.number = number

    return step


def reads_tree(mount: Mounted, name: str, published: Published) -> Callable[[random.Random], None]:
    def step(rng: random.Random) -> None:
        least = published.number
        try:
            text = (mount.point / name).read_bytes()
        except OSError as err:  # docs/semantics.md, Caching: it was replaced twice while the kernel opened it
            assert (name, err.errno) == ("tree.yaml", errno.ESTALE)
            return
        if published.number != least or not text.endswith(b"...\n"):
            return  # a read beside a save may see some of both
        assert int(text.split(b"value: ")[1].split()[0]) >= least, "stale"

    return step


def uses_scratch(mount: Mounted, name: str) -> Callable[[random.Random], None]:
    def step(rng: random.Random) -> None:
        path, content = mount.point / f".{name}-{rng.randrange(5)}", rng.randbytes(rng.randrange(20_000))
        path.write_bytes(content)
        assert path.read_bytes() == content
        path.rename(path.with_suffix(".moved"))
        path.with_suffix(".moved").unlink()

    return step


def finishes(mount: Mounted) -> Callable[[random.Random], None]:
    def step(rng: random.Random) -> None:
        folder = os.open(mount.point, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        assert json.loads((mount.point / ".asdffs/status.json").read_text())["failures"] == []

    return step


@pytest.mark.long
def test_a_crowd(tmp_path: Path) -> None:
    """Ten readers and writers at once: no deadlock, no stale byte; the file is right at the end."""
    path = tmp_path / "data.asdf"
    path.write_bytes(odd_file(blocks=[block_bytes(DATA), block_bytes(bytes(40_000)), block_bytes(bytes(400_000))]))
    with mounted(path) as mount, open(mount.block(2), "rb") as held:
        crowd, text = Crowd(), mount.tree.read_bytes()
        slots = [Published() for _ in range(3)]
        saved = Published()
        for slot, published in enumerate(slots):
            crowd.add(f"block writer {slot}", writes_block(mount, 2, slot, published))
        for number in range(2):
            crowd.add(f"block reader {number}", reads_block(mount, 2, slots, held.fileno()))
            crowd.add(f"scratch {number}", uses_scratch(mount, f"s{number}"))
        crowd.add("tree writer", saves_tree(mount, text, saved))
        crowd.add("tree reader", reads_tree(mount, ".asdffs/committed.yaml", saved))
        crowd.add("draft reader", reads_tree(mount, "tree.yaml", saved))
        crowd.add("finisher", finishes(mount))
        crowd.work()
    with opened(path) as found:
        assert found["value"] == saved.number
        assert found["data"][:].tobytes() == DATA
    raw = path.read_bytes()
    block = raw.rfind(b"\xd3BLK") + 6 + 48
    assert [COUNTER.unpack_from(raw, block + slot * 4096)[0] for slot in range(3)] == [p.number for p in slots]
