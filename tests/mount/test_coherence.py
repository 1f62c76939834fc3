"""What the kernel caches is never older than docs/semantics.md, Caching, says."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest
from support.mounts import mounted
from support.samples import DATA, block_bytes, odd_file, put

pytestmark = pytest.mark.mount

SAVES = 300


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return put(tmp_path, odd_file(padding=b" " * 5000))


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
