"""What a mount costs: bytes that the daemon reads and writes for what is done, whatever the size of the file.

The kernel counts them (``/proc/PID/io``: rchar, wchar); requests and answers of FUSE are among them, an answer that
is spliced is not.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import asdf
import numpy as np
import pytest
from benchmarks.made import make_file
from support.filesystems import inserts
from support.mounts import ASDFFS, Mounted, environment_in, mounted, run
from support.processes import bytes_of, memory, until

pytestmark = pytest.mark.mount

MIB = 1 << 20
SIZES = (MIB, 1 << 30, 100 * 10**9)
COUNTS = (1, 1_000, 100_000)
ABOUT = 128 << 10


def spent(mount: Mounted) -> tuple[int, int]:
    """Bytes that the daemon has read and written since it began."""
    return bytes_of(mount.pid, "rchar"), bytes_of(mount.pid, "wchar")


def settled(mount: Mounted) -> None:
    """Wait until the daemon has imported what it may need later, which it does beside its work."""
    last = [-1]

    def is_still() -> bool:
        before, last[0] = last[0], bytes_of(mount.pid, "rchar")
        return before == last[0]

    until(lambda: "/lz4/" in Path(f"/proc/{mount.pid}/maps").read_text())  # one of the last modules
    until(is_still)


def steps(mount: Mounted) -> dict[str, tuple[int, int]]:
    """What each step costs: bytes read, bytes written."""
    found, last = {}, spent(mount)
    for name, step in STEPS.items():
        step(mount)
        now = spent(mount)
        found[name], last = (now[0] - last[0], now[1] - last[1]), now
    return found


def edit(mount: Mounted) -> None:
    subprocess.run(["sed", "-i", "s/^value: .*/value: 2/", mount.tree], check=True)


def write_a_byte(mount: Mounted) -> None:
    with open(mount.block(0), "r+b", buffering=0) as block:
        os.pwrite(block.fileno(), b"x", mount.block(0).stat().st_size - 1)
        os.fsync(block.fileno())


def read_a_byte(mount: Mounted) -> None:
    with open(mount.block(0), "rb", buffering=0) as block:
        os.posix_fadvise(block.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        block.read(1)


def finish(mount: Mounted) -> None:
    subprocess.run(["sync", mount.point], check=True)


STEPS = {
    "look": lambda mount: os.listdir(mount.point),
    "edit": edit,
    "read": read_a_byte,
    "write": write_a_byte,
    "finish": finish,
}


def cost_of(folder: Path, count: int, size: int) -> dict[str, tuple[int, int]]:
    file = make_file(folder / "data.asdf", count, size)
    with mounted(file) as mount:
        settled(mount)
        found = {"mount": spent(mount), **steps(mount)}
    file.unlink()
    return found


def test_the_size_of_a_block_costs_nothing(tmp_path: Path) -> None:
    first, *others = [cost_of(tmp_path, 1, size) for size in SIZES]
    for other in others:
        for name, (read, written) in other.items():
            assert abs(read - first[name][0]) < ABOUT, name
            assert abs(written - first[name][1]) < ABOUT, name


def test_the_number_of_blocks_costs_their_index(tmp_path: Path) -> None:
    """Some 10 bytes of it for each, read when the file is opened; nothing that is done later looks at all blocks."""
    first, *others = [cost_of(tmp_path, count, 64) for count in COUNTS]
    for count, other in zip(COUNTS[1:], others, strict=True):
        for name, (read, written) in other.items():
            index = 2 * 10 * count + 3 * ABOUT if name == "mount" else 0
            assert read < first[name][0] + ABOUT + index, name
            assert written < first[name][1] + ABOUT, name


@pytest.mark.parametrize("size", SIZES)
def test_what_grows_costs_what_it_grows_by(size: int, tmp_path: Path) -> None:
    """1 MiB more of tree, and of a block in the middle: the blocks behind are moved without being copied."""
    if not inserts(tmp_path):
        pytest.skip("this file system cannot insert into a file: it copies the blocks")
    file = make_file(tmp_path / "data.asdf", 3, size // 3, padding=64)
    with mounted(file) as mount:
        before = spent(mount)
        mount.tree.write_text(mount.tree.read_text().replace("value: ", f"long: {'x' * MIB}\nvalue: "))
        after_tree = spent(mount)
        with open(mount.block(1), "ab", buffering=0) as block:
            block.write(b"x" * MIB)
            os.fsync(block.fileno())
        after_block = spent(mount)
    assert after_tree[0] - before[0] < 12 * MIB
    assert after_tree[1] - before[1] < 12 * MIB
    assert after_block[0] - after_tree[0] < 4 * MIB
    assert after_block[1] - after_tree[1] < 4 * MIB
    assert file.stat().st_size >= size + 2 * MIB - 3


#: Starts a mount, and tells what the process has imported that becomes the daemon.
IMPORTED = """
import sys
from asdffs.cli.main import main
code = main(["mount", *sys.argv[1:]])
print("modules", code, *sys.modules, file=sys.stderr)
"""
UNNEEDED = [
    *("dataclasses", "difflib", "glob", "urllib.parse", "numpy", "rich"),
    *("asdffs.document.blocks.committing", "asdffs.storage.growth"),
    *("asdffs.features.archive.documents", "asdffs.features.daf.live_file"),
]


def test_a_mount_imports_little(tmp_path: Path) -> None:
    file, point = make_file(tmp_path / "data.asdf", 1, 8, padding=4096), tmp_path / "mnt"
    point.mkdir()
    try:
        done = run(sys.executable, "-c", IMPORTED, file, point, env=environment_in(tmp_path))
        _, code, *modules = done.stderr.splitlines()[-1].split()
        assert code == "0", done.stderr
    finally:
        run(*ASDFFS, "umount", point, env=environment_in(tmp_path), check=True)
    assert [name for name in UNNEEDED if name in modules] == []
    assert len([name for name in modules if name.startswith("asdffs.")]) <= 178


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told to keep freed memory")
def test_decoding_uses_the_same_memory_again(tmp_path: Path) -> None:
    """Of 256 MiB in parts of 4 MiB: each new page that the system must clear is a page fault.

    Up to ``IN_WORK``, 32 MiB, and some parts more are in memory at a time, all of them if the machine is busy.
    """
    file, size, page = tmp_path / "data.asdf", 256 * MIB, 4096
    asdf.AsdfFile({"a": np.zeros(size, np.uint8)}).write_to(file, all_array_compression="lz4")
    log = tmp_path / "log"
    # with packages, the command starts as a user's: in a fork of the tests' helper, shared pages would be copied
    with mounted(file, "-v", "-o", f"log={log}", packages=tmp_path) as mount:
        until(lambda: "all modules are imported" in log.read_text())
        idle, before = memory(mount.pid, "VmRSS"), faults(mount)
        assert mount.block(0).stat().st_size == size
        with mount.block(0).open("rb") as block:
            while block.read(MIB):
                continue
        assert faults(mount) - before < size // page // 3
        until(lambda: memory(mount.pid, "VmRSS") - idle < 16 * MIB, "the memory to be given back")


def faults(mount: Mounted) -> int:
    """Minor page faults of the daemon (proc(5), ``stat``)."""
    return int(Path(f"/proc/{mount.pid}/stat").read_text().rpartition(")")[2].split()[7])


@pytest.mark.long
@pytest.mark.parametrize("letter", ["e", "\u00e9"] if os.environ.get("ASDFFS_DEEP") else ["\u00e9"])
def test_a_large_tree_takes_its_own_size_a_few_times(letter: str, tmp_path: Path) -> None:
    """Every byte of it moves by one: the new text, the old one, and both in the journal.

    The lesser of two peaks, because threads of the allocator may keep some MiB more or less.
    """
    idle, _ = memory_of_a_mount(tmp_path, b"")
    text = b"".join(b"item%07d: [1, 2.5, thr%se]  # of many\n" % (n, letter.encode()) for n in range(12 * MIB // 38))
    (taken, whole), (again, _) = (memory_of_a_mount(tmp_path, text) for _ in range(2))
    assert min(taken, again) - idle < 5 * whole, (taken - idle) / whole


def memory_of_a_mount(folder: Path, text: bytes) -> tuple[int, int]:
    """What a mount takes at most until a value is changed in a tree that has ``text``; and the size of the tree."""
    file, log = make_file(folder / "data.asdf", 1, 8, text=text, padding=64), folder / "log"
    log.unlink(missing_ok=True)
    with mounted(file, "-v", "-o", f"log={log}") as mount:
        until(lambda: "all modules are imported" in log.read_text())
        whole = mount.tree.read_bytes()
        mount.tree.write_bytes(whole.replace(b"value: ", b"value: 1", 1))
        assert mount.status["error"] == ""
        return memory(mount.pid, "VmHWM"), len(whole)
