"""A model-based exerciser in the spirit of fsx: the same random operations on the mount and on a plain file."""

from __future__ import annotations

import mmap
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.mounts import Mounted, mounted, run
from support.samples import DATA, block_bytes, check_saved, odd_file, opened, put

pytestmark = [pytest.mark.long, pytest.mark.mount]

OPERATIONS = 10_000 if os.environ.get("ASDFFS_DEEP") else 4_000  # for each of the two kinds of files
LARGEST = 300_000


class Pair:
    """A file in the mount and a plain one; every operation is done on both, and the results are equal."""

    def __init__(self, shown: Path, plain: Path, rng: random.Random) -> None:
        self.paths = [shown, plain]
        self.rng = rng
        self.files = [os.open(path, os.O_RDWR) for path in self.paths]

    def both(self, act):
        first, second = (act(fd) for fd in self.files)
        assert first == second
        return second

    @property
    def size(self) -> int:
        return self.both(lambda fd: os.fstat(fd).st_size)

    def place(self) -> tuple[int, int]:
        offset = self.rng.randrange(LARGEST)
        return offset, self.rng.choice([1, 7, 512, 4096, 20_000, 131_073])

    def read(self) -> None:
        offset, length = self.place()
        self.both(lambda fd: os.pread(fd, length, offset))

    def write(self) -> None:
        offset, length = self.place()
        data = self.rng.randbytes(min(length, max(0, LARGEST - offset)))
        self.both(lambda fd: os.pwrite(fd, data, offset))

    def write_nothing(self) -> None:
        self.both(lambda fd: os.pwrite(fd, b"", LARGEST + 10))

    def append(self) -> None:
        data = self.rng.randbytes(self.rng.randrange(1, 3000))
        if self.size + len(data) > LARGEST:
            return
        for path in self.paths:
            with open(path, "ab", buffering=0) as file:
                assert file.write(data) == len(data)

    def truncate(self) -> None:
        size = self.rng.randrange(LARGEST) if self.rng.random() < 0.7 else self.size // 2
        self.both(lambda fd: os.ftruncate(fd, size))

    def truncate_by_name(self) -> None:
        size = self.rng.randrange(LARGEST)
        for path in self.paths:
            os.truncate(path, size)

    def map_read(self) -> None:
        if self.size:
            start, length = self.place()
            self.both(lambda fd: mmap.mmap(fd, 0, prot=mmap.PROT_READ)[start : start + length])

    def map_write(self) -> None:
        size = self.size
        if size:
            start = self.rng.randrange(size)
            data = self.rng.randbytes(min(5000, size - start))
            for fd in self.files:
                with mmap.mmap(fd, 0) as view:
                    view[start : start + len(data)] = data
                    view.flush()

    def reopen(self) -> None:
        for fd in self.files:
            os.close(fd)
        self.files = [os.open(path, os.O_RDWR) for path in self.paths]

    def second_reader(self) -> None:
        offset, length = self.place()
        found = []
        for path in self.paths:
            with open(path, "rb", buffering=0) as file:
                found.append((os.stat(path).st_size, os.pread(file.fileno(), length, offset)))
        assert found[0] == found[1]

    def sync(self) -> None:
        self.both(os.fsync)

    def close(self) -> None:
        for fd in self.files:
            os.close(fd)


class Scratch(Pair):
    """Scratch has names as well."""

    def rename(self) -> None:
        for number, path in enumerate(self.paths):
            new = path.with_name(f"renamed-{self.rng.randrange(10) if number == 0 else self.last}")
            self.last = new.name.partition("-")[2]
            os.rename(path, new)
            self.paths[number] = new

    def link_and_unlink(self) -> None:
        for path in self.paths:
            os.link(path, path.with_name("second"))
            os.unlink(path)
            os.rename(path.with_name("second"), path)

    def replace_open(self) -> None:
        """Another file takes the name; the open one goes on."""
        content = self.rng.randbytes(1000)
        for path in self.paths:
            path.with_name("other").write_bytes(content)
            os.rename(path.with_name("other"), path)
        self.read()
        self.write()
        self.reopen()


RARE = {"sync": 0.02, "reopen": 0.3, "replace_open": 0.1, "map_write": 0.5}


def exercise(pair: Pair, count: int) -> None:
    names = [name for name in dir(pair) if not name.startswith("_") and callable(getattr(pair, name))]
    names = [name for name in names if name not in ("both", "place", "close")]
    weights = [RARE.get(name, 1.0) for name in names]
    for number in range(count):
        name = pair.rng.choices(names, weights)[0]
        try:
            getattr(pair, name)()
        except BaseException as err:
            err.add_note(f"operation {number}: {name}")
            raise


@pytest.mark.parametrize("seed", [1])
def test_the_last_block_is_like_a_plain_file(tmp_path: Path, seed: int) -> None:
    path, plain = tmp_path / "data.asdf", tmp_path / "plain"
    content = random.Random(seed).randbytes(100_000)
    path.write_bytes(
        odd_file(blocks=[block_bytes(DATA), block_bytes(content, slack=b"\xaa" * 777)], padding=b" " * 99)
    )
    plain.write_bytes(content)
    with mounted(path) as mount:
        pair = Pair(mount.block(1), plain, random.Random(seed))
        exercise(pair, OPERATIONS)
        pair.close()
        assert mount.block(1).read_bytes() == plain.read_bytes()
        assert mount.block(0).read_bytes() == DATA
    with opened(path) as found:
        assert found["data"][:].tobytes() == DATA
    assert plain.read_bytes() in path.read_bytes()


@pytest.mark.parametrize("seed", [2])
def test_scratch_is_like_plain_files(tmp_path: Path, seed: int) -> None:
    path = put(tmp_path, odd_file())
    before = path.read_bytes()
    plain = tmp_path / "plain"
    plain.mkdir()
    with mounted(path) as mount:
        folder = mount.point / "folder"
        folder.mkdir()
        for place in (folder, plain):
            (place / "file").write_bytes(b"start")
        pair = Scratch(folder / "file", plain / "file", random.Random(seed))
        exercise(pair, OPERATIONS)
        pair.close()
        assert {p.name: p.read_bytes() for p in folder.iterdir()} == {p.name: p.read_bytes() for p in plain.iterdir()}
        for found in list(folder.iterdir()):
            found.unlink()
        folder.rmdir()
    assert path.read_bytes() == before


# -- exercisers of others, several programs at once --------------------------------


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


@pytest.fixture
def mount(file: Path) -> Iterator[Mounted]:
    with mounted(file) as mount:
        yield mount
    check_saved(file, 1)


@needs("stress-ng")
@pytest.mark.parametrize("options", ["wr-seq,rd-seq,fsync", "wr-rnd,rd-rnd,utimes,fdatasync"])
def test_stress_ng(mount: Mounted, options: str) -> None:
    done = run(
        *("stress-ng", "--hdd", "2", "--hdd-ops", "300", "--hdd-bytes", "4m", "--hdd-opts", options, "--verify"),
        *("--temp-path", mount.point),
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs("dbench")
def test_dbench(mount: Mounted) -> None:
    load = mount.file.parent / "client.txt"
    lines = Path("/usr/share/dbench/client.txt").read_text().splitlines()
    load.write_text("\n".join(lines[:6000]) + "\n")
    done = run("dbench", "-c", load, "-D", mount.point, "-t", "4", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ERROR" not in done.stdout
    assert run("rm", "-rf", mount.point / "clients").returncode == 0
