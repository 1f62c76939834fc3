"""Several programs write one block through all its views while it moves and is recompressed: no byte is lost.

See ``support/page_writers`` for the model.  ASDFFS_DEEP=1: ten minutes for each growth strategy instead of seconds.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import page_writers
from support.arrays import tree_file
from support.filesystems import filesystem
from support.mounts import LIMIT, Mounted, asdffs, mounted
from support.page_writers import FIRST, SIZE, stripes_of
from support.samples import block_bytes

import asdffs as library

pytestmark = [pytest.mark.long, pytest.mark.mount]

DEEP = bool(os.environ.get("ASDFFS_DEEP"))
SECONDS = float(os.environ.get("ASDFFS_MODEL_SECONDS", "600" if DEEP else "4"))
SEED = int(os.environ.get("ASDFFS_MODEL_SEED", "1"))
PROGRAMS = 4
TAIL = 9_000
VALUE = 1
ARRAY = "!core/ndarray-1.0.0 {source: 0, datatype: uint8, byteorder: big"
BODY = f"a: {ARRAY}, shape: [{SIZE}]}}\nb: {ARRAY}, shape: [{SIZE - 100}], offset: 100}}\nnote: x\n"
#: Where the block's first byte lies in each view.
VIEWS = {"blocks/0000.bin": 0, "arrays/a.npy": 128, "arrays/b.npy": 128 - 100}


class Others:
    """What happens meanwhile; each in a thread of its own until the programs have ended."""

    def __init__(self, mount: Mounted, seed: int) -> None:
        self.mount = mount
        self.rng = random.Random(seed)
        self.ended = threading.Event()
        self.failures: list[str] = []
        self.tail = bytearray(TAIL)
        self.text = mount.tree.read_text()
        self.saved = 0

    @contextlib.contextmanager
    def beside(self, *acts: Callable[[], None]) -> Iterator[None]:
        threads = [threading.Thread(target=self._repeat, args=(act,)) for act in acts]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.ended.set()
            for thread in threads:
                thread.join()

    def _repeat(self, act: Callable[[], None]) -> None:
        while not self.ended.wait(self.rng.random() * 0.3):
            try:
                act()
            except (OSError, AssertionError) as err:
                self.failures.append(f"{act.__name__}: {err!r}")

    def grow(self) -> None:
        """A save of a tree that is longer or shorter, in place or by a rename."""
        start, end = self.text.index("note:"), self.text.index("...\n")
        size, number = self.rng.choice([1, 10, 3000, 60_000]), self.saved + 1
        new = f"{self.text[:start]}note: {number} {'y' * size}\n{self.text[end:]}"
        if self.rng.random() < 0.5:
            self.mount.tree.write_text(new)
        else:
            (self.mount.point / "temporary").write_text(new)
            os.rename(self.mount.point / "temporary", self.mount.tree)
        self.saved = number

    def read_tree(self) -> None:
        """Whoever begins to read after a save finds no older tree."""
        name, least = self.rng.choice(["tree.yaml", ".asdffs/committed.yaml"]), self.saved
        try:
            text = (self.mount.point / name).read_text()
        except OSError as err:  # docs/semantics.md, Caching: it was replaced twice while the kernel opened it
            assert (name, err.errno) == ("tree.yaml", errno.ESTALE)
            return
        if self.saved == least and text.endswith("...\n"):  # a read beside a save may see some of both
            assert least == 0 or int(text.split("note: ")[1].split()[0]) >= least, "stale"

    def use_scratch(self) -> None:
        path, content = (
            self.mount.point / f".s{self.rng.randrange(5)}",
            self.rng.randbytes(self.rng.randrange(20_000)),
        )
        path.write_bytes(content)
        assert path.read_bytes() == content
        path.rename(path.with_suffix(".moved"))
        path.with_suffix(".moved").unlink()

    def recompress(self) -> None:
        choice = self.rng.choice([b"none", b"zlib", b"lz4", b"none"])
        os.setxattr(self.mount.block(0), "user.asdf.compression", choice)

    def finish(self) -> None:
        """sync MNT."""
        descriptor = os.open(self.mount.point, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        assert self.mount.status["failures"] == []

    def resize(self) -> None:
        """What lies behind the arrays grows and shrinks, beside bytes of theirs in one page."""
        size = self.rng.randrange(2 * TAIL)
        with open(self.mount.block(0), "r+b", buffering=0) as file:
            os.truncate(file.fileno(), SIZE + size)
            self.tail = self.tail[:size].ljust(size, b"\0")
            if size:
                start, raw = self.rng.randrange(size), self.rng.randbytes(self.rng.randrange(1, 500))
                os.pwrite(file.fileno(), raw, SIZE + start)
                self.tail[start : start + len(raw)] = raw


def hows(seed: int) -> tuple[str, ...]:
    """How the programs change bytes through each of ``VIEWS``.  ``Others.resize`` uses write(2) through the first.

    Only one view is mapped: two that are mapped before either stores anything have a limit (docs/semantics.md).
    """
    return ("write", *random.Random(seed).choice([("map", "write"), ("write", "map")]))


def run_programs(mount: Mounted, seed: int) -> dict[int, int]:
    """Run the programs; what each byte that they own must be."""
    views = [
        f"{mount.point / name}:{start}:{how}" for (name, start), how in zip(VIEWS.items(), hows(seed), strict=True)
    ]
    command = [sys.executable, page_writers.__file__, str(seed)]
    started = [
        subprocess.Popen(
            [*command, str(number), str(PROGRAMS), str(SECONDS), str(VALUE), *views],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(PROGRAMS)
    ]
    ended = [program.communicate(timeout=SECONDS + LIMIT) for program in started]
    assert all(program.returncode == 0 for program in started), "\n".join(said for _, said in ended)
    print(*(said for _, said in ended))
    lines = [line.split() for written, _ in ended for line in written.splitlines()]
    return {int(place): int(byte) for place, byte in lines}


def wrong(raw: bytes, wanted: dict[int, int]) -> list[str]:
    return [f"{place}: {raw[place]}, not {byte}" for place, byte in wanted.items() if raw[place] != byte]


@pytest.mark.parametrize("growth", ["clone", "insert", "copy"])
def test_no_byte_is_lost(tmp_path: Path, growth: str) -> None:
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(filesystem("xfs", tmp_path)) if growth == "clone" else tmp_path
        try_views(folder / "data.asdf", growth)


def try_views(path: Path, growth: str) -> None:
    path.write_bytes(tree_file(BODY, [block_bytes(bytes([VALUE]) * SIZE + bytes(TAIL)), block_bytes(b"next")]))
    owned = {at for number in range(PROGRAMS) for stripe in stripes_of(number, PROGRAMS) for at in range(*stripe)}
    assert min(owned) == FIRST
    with mounted(path, "-o", f"growth={growth}") as mount:
        others = Others(mount, SEED)
        beside = (others.grow, others.recompress, others.finish, others.resize, others.read_tree, others.use_scratch)
        with others.beside(*beside):
            wanted = run_programs(mount, SEED)
        assert others.failures == []
        raw = mount.block(0).read_bytes()
        assert wrong(raw, wanted) == []
        assert wanted.keys() == owned
        assert {raw[place] for place in range(FIRST)} == {VALUE}, "bytes that nobody owns"
        assert raw[SIZE:] == others.tail
    assert asdffs("check", "--deep", path, environment=mount.environment).returncode == 0
    with library.open(path) as document:
        assert document.blocks[0].read_at(0, len(raw)) == raw
