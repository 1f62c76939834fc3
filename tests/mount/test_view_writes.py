"""What is written through one view is neither lost nor misplaced, whatever other views, maps and commits do."""

from __future__ import annotations

import errno
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from support.arrays import tree_file
from support.mounts import LIMIT, Mounted, asdffs, mounted, run
from support.patience import patience
from support.processes import children_of, until
from support.samples import block_bytes, header_bytes, put, zlib_block

pytestmark = pytest.mark.mount

ARRAY = "!core/ndarray-1.0.0"
FACTS = "datatype: int64, byteorder: little"
HEADER = 128


def value(number: int) -> bytes:
    return number.to_bytes(8, "little")


@contextmanager
def two_arrays(folder: Path, *, packed: bool = False) -> Iterator[Mounted]:
    """``a`` in block 0, ``b`` in block 1; a thousand zeros each."""
    body = f"a: {ARRAY} {{source: 0, {FACTS}, shape: [1000]}}\nb: {ARRAY} {{source: 1, {FACTS}, shape: [1000]}}\n"
    make = zlib_block if packed else block_bytes
    path = put(folder, tree_file(body, [make(bytes(8000)), make(bytes(8000))], padding=b" " * 900))
    with mounted(path, packages=patience(folder)) as mount:
        yield mount


@contextmanager
def mapped(path: Path) -> Iterator[mmap.mmap]:
    with open(path, "r+b", buffering=0) as file, mmap.mmap(file.fileno(), 0) as found:
        yield found


def store(found: mmap.mmap, offset: int, raw: bytes) -> None:
    found[offset : offset + len(raw)] = raw


def edit(mount: Mounted, *changes: tuple[str, str]) -> None:
    text = mount.tree.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    mount.tree.write_text(text)


def swap(mount: Mounted) -> None:
    edit(mount, ("source: 0", "source: X"), ("source: 1", "source: 0"), ("source: X", "source: 1"))


def test_a_map_and_a_write_in_one_page(tmp_path: Path) -> None:
    """The page has both: neither the store nor what write(2) wrote is lost, in any order."""
    with two_arrays(tmp_path) as mount:
        array, block = mount.point / "arrays/a.npy", mount.block(0)
        with mapped(array) as stores, open(block, "r+b", buffering=0) as file:
            for number in range(1, 40):
                store(stores, HEADER, value(number))
                os.pwrite(file.fileno(), value(number), 8)
                if number % 2:
                    stores.flush()
                with open(mount.point / "exploded/data0000.asdf", "rb") as shown:
                    shown.seek(87)
                    assert shown.read(16) == value(number) * 2


def test_two_maps_of_one_page(tmp_path: Path) -> None:
    """What each of them stored is there when both are flushed."""
    with two_arrays(tmp_path) as mount:
        with mapped(mount.point / "arrays/a.npy") as one, mapped(mount.block(0)) as other:
            store(one, HEADER + 16, b"11111111")
            store(other, 8, b"22222222")
            one.flush()
            other.flush()
        assert mount.block(0).read_bytes()[:32] == bytes(8) + b"2222222211111111" + bytes(8)


def test_stores_before_a_commit_are_for_the_array_as_it_was(tmp_path: Path) -> None:
    """The sources of two arrays are exchanged while one is mapped and written."""
    with two_arrays(tmp_path) as mount:
        with mapped(mount.point / "arrays/a.npy") as stores:
            store(stores, HEADER, b"CCCCCCCC")
            swap(mount)
        assert mount.block(0).read_bytes() == b"CCCCCCCC" + bytes(7992)
        assert mount.block(1).read_bytes() == bytes(8000)


def test_a_new_header_drops_no_stores(tmp_path: Path) -> None:
    """By an edit of the shape, and by a stream that grows."""
    with two_arrays(tmp_path) as mount:
        with mapped(mount.point / "arrays/a.npy") as stores:
            store(stores, HEADER, b"DDDDDDDD")
            edit(mount, (f"source: 0, {FACTS}, shape: [1000]", f"source: 0, {FACTS}, shape: [999]"))
        assert mount.block(0).read_bytes()[:8] == b"DDDDDDDD"
    body = f"s: {ARRAY} {{source: 0, {FACTS}, shape: ['*']}}\n"
    path = tmp_path / "stream.asdf"
    path.write_bytes(tree_file(body, [header_bytes(b"", flags=1, md5=False) + bytes(800)], index="absent"))
    with mounted(path) as mount:
        with mapped(mount.point / "arrays/s.npy") as stores:
            store(stores, HEADER, b"EEEEEEEE")
            with open(mount.block(0), "ab") as stream:
                stream.write(bytes(80))
            stores.flush()
        assert np.load(mount.point / "arrays/s.npy").shape == (110,)
        assert mount.block(0).read_bytes()[:8] == b"EEEEEEEE"


def test_a_removed_array_writes_nowhere(tmp_path: Path) -> None:
    """Its block can only be removed when nobody has it open; what is open says that it is stale."""
    with two_arrays(tmp_path) as mount:
        with open(mount.point / "arrays/b.npy", "r+b", buffering=0) as file:
            text = mount.tree.read_text()
            mount.tree.write_text(
                "".join(line for line in text.splitlines(keepends=True) if not line.startswith("b:"))
            )
            assert run("rm", mount.block(1)).stderr.endswith("Device or resource busy\n")
            with pytest.raises(OSError, match="Stale file handle"):
                os.pwrite(file.fileno(), b"K", HEADER)
        assert run("rm", mount.block(1)).returncode == 0


def test_fsync_and_close_store_what_was_written(tmp_path: Path) -> None:
    """Of a compressed block, also when the tree gave the array another one meanwhile."""
    with two_arrays(tmp_path, packed=True) as mount:
        for raw in (b"FFFFFFFF", b"GGGGGGGG"):
            with open(mount.point / "arrays/a.npy", "r+b", buffering=0) as file:
                os.pwrite(file.fileno(), raw, HEADER)
                swap(mount)
                os.fsync(file.fileno())
            number = 0 if raw == b"FFFFFFFF" else 1
            stored = mount.point / f"exploded/data000{number}.asdf"
            assert b"zlib" in stored.read_bytes()[:64], "it is stored, not only in the spool"
            assert mount.block(number).read_bytes()[:8] == raw


def test_regression_a_new_block_took_over_sources_that_count_from_the_end(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    body = f"a: {ARRAY} {{source: -1, {FACTS}, shape: [2]}}\n"
    path.write_bytes(tree_file(body, [block_bytes(bytes(16))], padding=b" " * 900))
    with mounted(path) as mount:
        with pytest.raises(OSError, match="busy"):
            mount.block(1).write_bytes(value(9) * 2)
        assert "line 6: a has source -1" in mount.error
        assert "write 'source: 0'" in mount.error
        assert np.load(mount.point / "arrays/a.npy").tolist() == [0, 0]
        edit(mount, ("source: -1", "source: 0"))
        mount.block(1).write_bytes(value(9) * 2)
        assert np.load(mount.point / "arrays/a.npy").tolist() == [0, 0]
    assert asdffs("check", path, environment=mount.environment).returncode == 0


def test_a_helper_that_is_killed_is_replaced(tmp_path: Path) -> None:
    with two_arrays(tmp_path) as mount, mapped(mount.point / "arrays/a.npy") as view:
        for number in range(1, 5):
            with open(mount.block(0), "r+b", buffering=0) as file:
                os.pwrite(file.fileno(), value(number), 0)
            until(lambda number=number: view[HEADER : HEADER + 8] == value(number))
            assert children_of(mount.pid)
            for pid in children_of(mount.pid):
                os.kill(pid, signal.SIGKILL)


WRITER = """
import os, sys
path, start, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
file = os.open(path, os.O_RDWR)
for number in range(count):
    last = number % 250 + 1
    os.pwrite(file, bytes([last]) * 500, start)
print(last)
"""


def test_another_program_writes_the_page_that_is_mapped(tmp_path: Path) -> None:
    """One stores in a map, another writes other bytes of the same pages through the block: both keep theirs.

    Neither waits for pages that the other one has until its own request is answered.
    """
    with two_arrays(tmp_path) as mount:
        command = [sys.executable, "-c", WRITER, mount.block(0), "1000", "1000"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
            with mapped(mount.point / "arrays/a.npy") as stores:
                last, end = 0, time.monotonic() + 3 * LIMIT  # each time that they do, it takes LIMIT
                while other.poll() is None:
                    assert time.monotonic() < end, "they wait for each other"
                    last = last % 250 + 1
                    store(stores, HEADER + 300, bytes([last]) * 500)
                    stores.flush()
            assert other.stdout is not None
            wanted = int(other.stdout.read())
        content = mount.block(0).read_bytes()
        assert (set(content[300:800]), set(content[1000:1500])) == ({last}, {wanted})
        assert set(content[:300] + content[800:1000] + content[1500:]) == {0}


def test_stores_come_before_fallocate_and_rename(tmp_path: Path) -> None:
    """No page of a map brings back what was zeroed or replaced."""
    with two_arrays(tmp_path) as mount:
        (mount.point / "new").write_bytes(b"\5" * 8000)
        with mapped(mount.point / "arrays/a.npy") as stores:
            store(stores, HEADER + 300, b"stored")
            os.rename(mount.point / "new", mount.block(0))
        assert mount.block(0).read_bytes() == b"\5" * 8000
        with mapped(mount.point / "arrays/a.npy") as stores:
            store(stores, HEADER + 300, b"stored")
            done = run("fallocate", "-z", "-l", 8000, mount.block(0))
        assert done.returncode == 0, done.stderr
        assert mount.block(0).read_bytes() == bytes(8000)


def test_old_maps_do_not_write_into_the_file_of_another_program(tmp_path: Path) -> None:
    with two_arrays(tmp_path) as mount:
        with mapped(mount.point / "arrays/a.npy") as stores:
            store(stores, HEADER, b"old page")
            body = f"a: {ARRAY} {{source: 0, {FACTS}, shape: [1000]}}\n"
            (tmp_path / "new.asdf").write_bytes(tree_file(body, [block_bytes(b"\4" * 8000)]))
            os.replace(tmp_path / "new.asdf", mount.file)
            until(lambda: set(mount.block(0).read_bytes()) == {4})
            try:
                stores.flush()
            except OSError as err:
                assert err.errno in (errno.ESTALE, errno.EIO)
        assert set(mount.block(0).read_bytes()) == {4}
        assert np.load(mount.point / "arrays/a.npy")[0] == 0x0404040404040404
