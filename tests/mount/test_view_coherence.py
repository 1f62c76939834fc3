"""A byte written through one view of a block shows in all others: at once when nothing else happens, else soon."""

from __future__ import annotations

import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.arrays import tree_file
from support.mounts import LIMIT, Mounted, lazily_unmount, mounted, run
from support.patience import patience
from support.processes import children_of, until, wait_for
from support.samples import block_bytes, opened, put

pytestmark = pytest.mark.mount

DEEP = bool(os.environ.get("ASDFFS_DEEP"))
WRITES = int(os.environ.get("ASDFFS_STRESS_WRITES", "1000"))
SECONDS = float(os.environ.get("ASDFFS_STRESS_SECONDS", "6" if DEEP else "0"))
COUNTER = struct.Struct(">Q")
SIZE = 100_000
#: With ASDFFS_DEEP: what a view may be behind in a crowd, in seconds; how often the machine may be late itself.
BOUND, OUTLIERS = 0.1, 3
BODY = "a: &a !core/ndarray-1.0.0 {source: 0, datatype: uint8, byteorder: big, shape: [100000]}\nb: *a\n"
BODY += "c: !core/ndarray-1.0.0 {source: 0, datatype: '>u2', byteorder: big, shape: [50000]}\n".replace(
    ">u2", "uint16"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return put(tmp_path, tree_file(BODY, [block_bytes(bytes(SIZE)), block_bytes(b"other")]))


@pytest.fixture
def mount(file: Path) -> Iterator[Mounted]:
    with mounted(file) as mount:
        yield mount


@pytest.fixture
def patient(file: Path, tmp_path: Path) -> Iterator[Mounted]:
    with mounted(file, packages=patience(tmp_path)) as mount:
        yield mount


def views_of(mount: Mounted) -> dict[Path, int]:
    """Every file that shows block 0 as it is, and where its bytes begin in it; those that can be written first."""
    names = [
        "blocks/0000.bin",
        "arrays/a.npy",
        "arrays/b.npy",
        "arrays/c.npy",
        "exploded/data0000.asdf",
        "arrays/a.fits",
    ]
    paths = [mount.point / name for name in names]
    starts = {path: path.stat().st_size - SIZE for path in paths}
    starts[paths[-1]] = 2880
    return starts


class Watched:
    """A view with warm caches: its name, a descriptor and a map."""

    def __init__(self, path: Path, start: int) -> None:
        self.path, self.start = path, start
        self.descriptor = os.open(path, os.O_RDONLY)
        self.map = mmap.mmap(self.descriptor, 0, prot=mmap.PROT_READ)
        self.map.read()
        self.mtime = path.stat().st_mtime_ns

    def close(self) -> None:
        self.map.close()
        os.close(self.descriptor)

    def mapped(self, at: int, length: int) -> bytes:
        return self.map[self.start + at : self.start + at + length]

    def read(self, at: int, length: int) -> bytes:
        return os.pread(self.descriptor, length, self.start + at)

    def opened(self, at: int, length: int) -> bytes:
        with open(self.path, "rb", buffering=0) as file:
            return os.pread(file.fileno(), length, self.start + at)


@pytest.mark.long
def test_a_thousand_writes(patient: Mounted) -> None:
    """Each through one view, read back through all others: by map, by descriptor, by a new open, and seen by stat."""
    starts = views_of(patient)
    watched = [Watched(path, start) for path, start in starts.items()]
    rng = random.Random(8)
    for _ in range(WRITES):
        writer = rng.choice(watched[:4])
        at, payload = rng.randrange(SIZE - 9000), rng.randbytes(rng.choice([1, 8, 9000]))
        with open(writer.path, "r+b", buffering=0) as file:
            assert os.pwrite(file.fileno(), payload, writer.start + at) == len(payload)
        for view in watched:
            assert view.mapped(at, len(payload)) == payload, view.path
            assert view.read(at, len(payload)) == payload, view.path
            mtime = view.path.stat().st_mtime_ns
            assert mtime > view.mtime, view.path
            view.mtime = mtime
            assert view.opened(at, len(payload)) == payload, view.path
    for view in watched:
        view.close()


class Published:
    """Numbers that a writer made visible, and when."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, float]] = [(0, 0.0)]

    def add(self) -> None:
        self.steps.append((self.steps[-1][0] + 1, time.monotonic()))

    def least(self) -> int:
        """What everybody must see by now."""
        bound = time.monotonic() - BOUND
        return next(number for number, at in reversed(self.steps) if at <= bound)


class Crowd:
    """Writers and readers of the same block through its views, each of its own place.

    They work for ``seconds``, and until each has done ``enough``.
    """

    READS, WRITES = 101, 21

    def __init__(self, mount: Mounted, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self.latest = self.end + LIMIT
        self.views = list(views_of(mount).items())
        self.published = [Published() for _ in range(4)]
        self.stale: list[str] = []
        self.failures: list[BaseException] = []
        self.reads = 0
        self.mapped = threading.Barrier(4, timeout=LIMIT)

    def run(self) -> None:
        work = [lambda slot=slot: self.write(slot) for slot in range(4)] + [
            lambda n=n: self.read(n) for n in range(4)
        ]
        threads = [threading.Thread(target=self.guarded, args=(step,), daemon=True) for step in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, self.latest - time.monotonic()) + LIMIT)
            assert not thread.is_alive(), "it hangs"

    def goes_on(self) -> bool:
        now = time.monotonic()
        written = min(published.steps[-1][0] for published in self.published)
        enough = self.failures or (self.reads >= self.READS and written >= self.WRITES)
        return now < (self.end if enough else self.latest)

    def guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except (OSError, ValueError, threading.BrokenBarrierError) as err:
            self.failures.append(err)
            self.mapped.abort()

    def write(self, slot: int) -> None:
        """Slot 2 through a map, the others by write."""
        path, start = self.views[slot % 3]
        place = start + slot * 20_000
        with open(path, "r+b", buffering=0) as file, mmap.mmap(file.fileno(), 0) as mapped:
            self.mapped.wait()  # once one has written through its map, mmap is refused for the other views
            while self.goes_on():
                raw = COUNTER.pack(self.published[slot].steps[-1][0] + 1)
                if slot == 2:
                    mapped[place : place + 8] = raw
                    mapped.flush(place // 4096 * 4096, 8192)
                else:
                    os.pwrite(file.fileno(), raw, place)
                self.published[slot].add()

    def read(self, number: int) -> None:
        rng = random.Random(number)
        watched = [Watched(path, start) for path, start in self.views]
        while self.goes_on():
            slot, view = rng.randrange(4), rng.choice(watched)
            how = rng.choice([view.mapped, view.read, view.opened])
            least = self.published[slot].least()
            found = COUNTER.unpack(how(slot * 20_000, 8))[0]
            self.reads += 1
            if found < least:
                self.stale.append(f"{view.path.name} {how.__name__} slot {slot}: {found} < {least}")
        for view in watched:
            view.close()


@pytest.mark.long
def test_a_crowd(mount: Mounted) -> None:
    """Eight readers and writers: nobody hangs; at the end all views, and the file, are right.

    ASDFFS_DEEP=1: nothing is older than the bound, either.
    """
    crowd = Crowd(mount, SECONDS)
    watched = [Watched(path, start) for path, start in crowd.views]
    crowd.run()
    assert not crowd.failures
    assert not DEEP or len(crowd.stale) <= OUTLIERS, crowd.stale[:5]
    assert crowd.reads >= Crowd.READS
    last = [published.steps[-1][0] for published in crowd.published]
    assert min(last) >= Crowd.WRITES
    for view in watched:
        until(lambda view=view: numbers(view.mapped(0, SIZE)) == last, f"the map of {view.path} to show {last}")
        assert numbers(view.read(0, SIZE)) == last
        view.close()
    run("sync", mount.point)
    with opened(mount.file) as found:
        assert numbers(found["a"][:].tobytes()) == last


def numbers(raw: bytes) -> list[int]:
    """What the writers wrote last."""
    return [COUNTER.unpack_from(raw, slot * 20_000)[0] for slot in range(4)]


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_daemon_that_ends_in_a_crowd_takes_nobody_along(file: Path, number: signal.Signals) -> None:
    """Programs get an error, the daemon and its helper are gone: nothing waits for a page that nobody will bring."""
    script = file.parent / "crowd.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\nfrom support.mounts import Mounted\n"
        "from mount.test_view_coherence import Crowd\n"
        f"Crowd(Mounted(Path('x'), Path(sys.argv[1]), {{}}), {LIMIT}).run()\n"
    )
    with mounted(file, code=None) as mount:
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        crowd = subprocess.Popen([sys.executable, script, mount.point], env=environment, stderr=subprocess.DEVNULL)
        until(lambda: bool(children_of(mount.pid)), "the helper, because two views are open")
        helpers = children_of(mount.pid)
        os.kill(mount.pid, number)
        crowd.wait(LIMIT)  # by an error or by SIGBUS in a map
        lazily_unmount(mount.point)
        for pid in (mount.pid, *helpers):
            wait_for(pid)
