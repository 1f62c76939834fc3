"""What a command costs follows from what it changes, not from the size of the file: counted in bytes, not in time.

The kernel counts what a process reads and writes (``/proc/PID/io``: rchar, wchar).  Files of a large block are holes.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.made import make_file
from support.filesystems import inserts
from support.mounts import environment_in

MIB = 1 << 20
SIZES = (MIB, 1 << 30, 100 * 10**9)
COUNTS = (1, 1_000, 100_000)
#: Bytes that differ because numbers have more digits, and a sidecar more pages.
ABOUT = 64 << 10
#: Bytes at the end of a file among which the index is looked for, and more; the smallest files have not so many.
WINDOW = 512 << 10
#: Runs a command, and tells what it read and wrote.
PROGRAM = """
import sys
from asdffs.cli.main import main
def count():
    return [int(line.split()[1]) for line in open("/proc/self/io")][:2]
before = count()
code = main(sys.argv[1:])
print("cost", code, *(b - a for a, b in zip(before, count())), file=sys.stderr)
"""


def cost(folder: Path, *words: object, editor: str = "true") -> tuple[int, int]:
    """Bytes read and written by a command that succeeds; among those that are read, its modules."""
    environment = {**environment_in(folder), "EDITOR": editor, "VISUAL": "", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", PROGRAM, *map(str, words)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    _, code, read, written = done.stderr.splitlines()[-1].split()
    assert code == "0", done.stderr
    return int(read), int(written)


def make(path: Path, count: int = 2, size: int = 8) -> Path:
    return make_file(path, count, size, padding=4096)


def add_block(file: Path, folder: Path) -> tuple[int, int]:
    (folder / "new.bin").write_bytes(b"x" * 8)
    return cost(folder, "block", file, "new", "--replace", folder / "new.bin")


def append(file: Path, folder: Path) -> tuple[int, int]:
    """To the last block."""
    (folder / "new.bin").write_bytes(b"x" * 8)
    with open(file, "rb") as opened:
        opened.seek(max(0, file.stat().st_size - 4 * MIB))
        last = opened.read().rpartition(b"#ASDF BLOCK INDEX")[2].count(b"- ") - 1
    return cost(folder, "block", file, last, "--append", folder / "new.bin")


def grow_tree(file: Path, folder: Path) -> tuple[int, int]:
    (folder / "more").write_text(f"long: {'x' * MIB}\n")
    return cost(folder, "edit", file, editor=f"sed -i '/^value:/r {folder / 'more'}'")


#: Modules that take long to import.  A command on a small file does not need them.
SLOW = [
    *("tempfile", "secrets", "numpy", "rich", "asdf", "ctypes", "subprocess", "multiprocessing"),
    *("dataclasses", "inspect", "shutil", "difflib"),
]
OF_INFO = [
    "json",
    "hashlib",
    "asdffs.document.blocks.committing",
    "asdffs.document.blocks.decoding",
    "asdffs.storage.journal",
    "asdffs.document.arrays.array",
    "asdffs.document.values",
    "asdffs.document.schema",
    "asdffs.cli.file_map",
]
IMPORTED = """
import sys, typing
slow, usual = [], typing.NamedTupleMeta.__new__
typing.NamedTupleMeta.__new__ = lambda *of, **more: slow.append(of[3]["__module__"]) or usual(*of, **more)
from asdffs.__main__ import main
code = main()
print("slow", *slow, file=sys.stderr)
print("modules", code, *sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize(("words", "most"), [(("get", "value"), 52), (("info",), 84), (("check",), 116)])
def test_commands_import_little(words: tuple[str, ...], most: int, tmp_path: Path) -> None:
    file = make(tmp_path / "data.asdf")
    command = [sys.executable, "-c", IMPORTED, *words, str(file)]
    done = subprocess.run(command, env=environment_in(tmp_path), capture_output=True, text=True, timeout=120)
    _, code, *modules = done.stderr.splitlines()[-1].split()
    assert code == "0", done.stderr
    _, *slow = done.stderr.splitlines()[-2].split()
    assert [name for name in slow if name.startswith("asdffs.")] == [], "see quick_imports"
    unneeded = [*SLOW, *(OF_INFO if words[0] == "info" else [])]
    assert [name for name in unneeded if name in modules] == []
    assert len([name for name in modules if name.startswith("asdffs.")]) <= most


COMMANDS: dict[str, Callable[[Path, Path], tuple[int, int]]] = {
    "info": lambda file, folder: cost(folder, "info", "--json", file),
    "check": lambda file, folder: cost(folder, "check", file),
    "edit": lambda file, folder: cost(folder, "edit", file, editor="sed -i s/^value:.*/value:\\ 2/"),
    "add a block": add_block,
    "append": append,
    "recover": lambda file, folder: cost(folder, "recover", file),
}


@pytest.mark.long
@pytest.mark.parametrize("name", COMMANDS)
def test_the_size_of_the_blocks_costs_nothing(name: str, tmp_path: Path) -> None:
    found = []
    for size in SIZES:
        file = make(tmp_path / "data.asdf", size=size // 2)
        found.append(COMMANDS[name](file, tmp_path))
        file.unlink()
    for read, written in found[1:]:
        assert abs(read - found[0][0]) < ABOUT
        assert abs(written - found[0][1]) < ABOUT


@pytest.mark.long
@pytest.mark.parametrize("name", ["edit", "add a block", "append", "recover"])
def test_the_number_of_blocks_costs_their_index(name: str, tmp_path: Path) -> None:
    """Of each block its entry of the index is read.

    Before a change of layout each header is read as well, because the index goes; and it is written again, by way of
    the journal.
    """
    found = {}
    for count in COUNTS:
        file = make(tmp_path / "data.asdf", count=count)
        found[count] = (*COMMANDS[name](file, tmp_path), index_size(file))
        file.unlink()
    moves = name in ("add a block", "append")
    for count, (read, written, index) in found.items():
        assert read <= found[1][0] + WINDOW + 2 * index + (64 * count if moves else 0)
        assert written <= found[1][1] + ABOUT + (2 * index if moves else 0)


def index_size(file: Path) -> int:
    with open(file, "rb") as opened:
        opened.seek(max(0, file.stat().st_size - 4 * MIB))
        return len(opened.read().rpartition(b"#ASDF BLOCK INDEX")[2])


@pytest.mark.parametrize("size", SIZES)
def test_a_tree_that_grows_costs_the_tree(size: int, tmp_path: Path) -> None:
    """1 MiB more of tree: both images in the journal, the text, and nothing of the blocks."""
    if not inserts(tmp_path):
        pytest.skip("this file system cannot insert into a file: it copies the blocks")
    file = make(tmp_path / "data.asdf", size=size // 2)
    read, written = grow_tree(file, tmp_path)
    assert written < 6 * MIB
    assert read < 12 * MIB
