"""Commands without a mount, killed, or with a full or broken disk, at system calls that change a file system.

The file that they change is the old or the new one, whole; a file that they make is there whole, or not at all; once
more without a fault they make it right, and nothing is left over.  ``./scripts/test --deep`` tries every call.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from crash.test_killed import CALLS, COUNTED, DEEP, can_trace, check_block, contents
from support.commands import command
from support.filesystems import filesystem
from support.mounts import LIMIT, environment_in
from support.samples import DATA, MASK, block_bytes, odd_file, zlib_block

pytestmark = [
    pytest.mark.strace,
    pytest.mark.skipif(not can_trace(), reason="needs strace and the right to trace"),
]
FAULTS = ("signal=SIGKILL", "error=ENOSPC", "error=EIO")
#: How many points of each run are tried unless deep, for each fault.
POINTS = 1
START = odd_file(
    padding=b" " * 500,
    blocks=[block_bytes(DATA, slack=b"\0" * 900), zlib_block(MASK), block_bytes(b"x")],
)


@dataclass(frozen=True)
class Work:
    """``arguments`` of a command in a directory with ``data.asdf`` and its exploded form in ``parts``.

    ``result``: what it makes or changes; ``editor``: $EDITOR.
    """

    arguments: tuple[str, ...]
    result: str
    editor: str = ""


WORKS = {
    "implode": Work(("implode", "parts/data.asdf", "out.asdf"), "out.asdf"),
    "implode --force --sync": Work(("implode", "--force", "--sync", "parts/data.asdf", "old.asdf"), "old.asdf"),
    "repack": Work(("repack", "--compression", "zlib", "data.asdf"), "data.asdf"),
    "repack OUT": Work(("repack", "--drop-unreferenced", "data.asdf", "out.asdf"), "out.asdf"),
    "edit": Work(("edit", "data.asdf"), "data.asdf", "sed -i 's/^value: 1$/value: 2/'"),
    "edit that grows": Work(("edit", "data.asdf"), "data.asdf", f"sed -i 's/^value: 1$/value: 2 #{'y' * 5000}/'"),
    "block": Work(("block", "data.asdf", "1", "--replace", "new"), "data.asdf"),
    "watch": Work(("watch", "--once", "--prefer", "dir", "changed", "data.asdf"), "data.asdf"),
    "explode": Work(("explode", "data.asdf", "made"), "made/data.asdf"),
}


Found = tuple[bytes, list[bytes], list[str]]


class Place:
    """The directory of one test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = environment_in(folder)
        (folder / "files").mkdir()
        self.files = folder / "files"
        self.lay_out()

    def lay_out(self) -> None:
        """The files as they are at the start."""
        for path in sorted(self.files.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        (self.files / "data.asdf").write_bytes(START)
        (self.files / "old.asdf").write_bytes(odd_file())
        (self.files / "new").write_bytes(b"replaced" * 700)
        for name in ("parts", "changed"):
            done = command("explode", self.files / "data.asdf", self.files / name, environment=self.environment)
            assert done.code == 0
        tree = self.files / "changed/data.asdf"
        tree.write_bytes(tree.read_bytes().replace(b"value: 1\n", b"value: 3\n"))
        block = self.files / "changed/data0000.asdf"
        block.write_bytes(block.read_bytes().replace(DATA, DATA[::-1]))

    def run(self, work: Work, *strace: str) -> int:
        """Its exit code, under strace if there are options for it."""
        command = [sys.executable, "-m", "asdffs", *work.arguments]
        tracing = ["strace", "-f", "-qq", "-o", self.folder / "trace", "-e", f"trace={CALLS}", *strace]
        tracing = tracing if strace else []
        environment = {**self.environment, "EDITOR": work.editor, "VISUAL": ""}
        return subprocess.run(
            [*map(str, tracing), *command],
            cwd=self.files,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT,
            check=False,
        ).returncode

    def calls(self) -> list[tuple[str, int]]:
        """The calls of the last run on files here, and which of their kind each is."""
        found: list[tuple[str, int]] = []
        counts: dict[str, int] = {}
        for line in (self.folder / "trace").read_text(errors="replace").splitlines():
            name = line.split(" ", 1)[1].strip().partition("(")[0]
            if name in COUNTED:
                counts[name] = counts.get(name, 0) + 1
                found.append((name, counts[name]))
        return found

    def result(self, work: Work) -> Found | None:
        """What it makes or changes, if it is there: text, decoded blocks, their compressions."""
        path = self.files / work.result
        if not path.exists():
            return None
        blocks = command("info", "--json", path, environment=self.environment).json["blocks"]
        return *contents(path), [block["compression"] for block in blocks]


def chosen(calls: list[tuple[str, int]], seed: int) -> list[tuple[str, int]]:
    """All of them, or some, evenly chosen, others for another fault."""
    if DEEP or len(calls) <= POINTS:
        return calls
    return [calls[(n * len(calls) + seed * len(calls) // len(FAULTS)) // POINTS % len(calls)] for n in range(POINTS)]


@pytest.mark.parametrize("name", WORKS)
def test_cut(tmp_path: Path, name: str) -> None:
    place, work = Place(tmp_path), WORKS[name]
    old = place.result(work)
    assert place.run(work, "-e", "status=all") == 0
    calls, new = place.calls(), place.result(work)
    assert new not in (None, old)
    assert len(calls) >= 3
    for seed, fault in enumerate(FAULTS):
        for call, number in chosen(calls, seed):
            place.lay_out()
            code = place.run(work, "-e", f"inject={call}:{fault}:when={number}")
            check(place, work, old, new, f"{call} {number} {fault}: {code}")


def check(place: Place, work: Work, old: Found | None, new: Found, what: str) -> None:
    """What a reader sees; then once more without a fault."""
    found = place.result(work)
    if work.arguments[0] != "watch":
        assert found in (old, new), what
    else:  # blocks are written through, as by a mount
        assert found[0] in (old[0], new[0]), what
        for blocks in zip(found[1], old[1], new[1], strict=True):
            check_block(*blocks)
    if work.result != "data.asdf":
        assert contents(place.files / "data.asdf") == contents_of_start(place), what
    for path in place.files.glob("*.asdf.*"):  # what is kept beside the file
        path.unlink()
    arguments = [*work.arguments]
    if arguments[0] == "explode" or (arguments[-1] == "out.asdf" and found == new):
        arguments.insert(1, "--force")
    if work.editor and found == new:
        arguments = ["recover", "data.asdf"]
    assert place.run(Work(tuple(arguments), work.result, work.editor)) == 0, what
    assert place.result(work) == new, what
    assert [path.name for path in place.files.rglob(".*") if "asdffs-" in path.name] == [], what


def contents_of_start(place: Place) -> object:
    path = place.folder / "start.asdf"
    path.write_bytes(START)
    return contents(path)


#: Writes that need room: what, and the exit code when there is none.
FULL: dict[str, Callable[[Path], list[str]]] = {
    "implode": lambda here: ["implode", f"{here}/parts/data.asdf", f"{here}/out.asdf"],
    "explode": lambda here: ["explode", f"{here}/data.asdf", f"{here}/made"],
    "repack": lambda here: ["repack", f"{here}/data.asdf"],
    "block": lambda here: ["block", f"{here}/data.asdf", "0", "--append", f"{here}/data.asdf"],
}


@pytest.mark.parametrize("name", FULL)
def test_a_full_disk(tmp_path: Path, name: str) -> None:
    """One sentence, exit code 8, and all is as it was."""
    with filesystem("tmpfs", tmp_path, 5 << 20) as here:
        (here / "data.asdf").write_bytes(odd_file(blocks=[block_bytes(os.urandom(2 << 20)), block_bytes(MASK)]))
        environment = environment_in(tmp_path)
        assert command("explode", here / "data.asdf", here / "parts", environment=environment).code == 0
        before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
        done = command(*FULL[name](here), environment=environment)
        assert (done.code, "No space left on device" in done.sentence) == (8, True), done.err
        after = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
        if name == "block":
            assert contents(here / "data.asdf")[1][1] == MASK
        else:
            assert after == before


def test_a_full_disk_while_watching(tmp_path: Path) -> None:
    """The save is told, stays in the directory, and is carried when there is room."""
    from support.watched import watched

    with filesystem("tmpfs", tmp_path, 3 << 20) as here:
        file = here / "data.asdf"
        file.write_bytes(odd_file(blocks=[block_bytes(b"x" * 100_000), block_bytes(MASK)]))
        environment = environment_in(tmp_path)
        with watched(file, code=None, end=signal.SIGTERM) as watch:
            ballast = here / "ballast"
            with open(ballast, "wb", buffering=0) as filler:
                try:
                    while True:
                        filler.write(b"\0" * 4096)
                except OSError:
                    pass
            os.truncate(ballast, ballast.stat().st_size - (64 << 10))
            text = watch.tree.read_bytes()
            watch.tree.write_bytes(text.replace(b"value: 1\n", b"value: 2 # " + b"y" * 40_000 + b"\n"))
            watch.until(lambda: "No space left" in watch.error)
            assert contents(file)[0] == START[: len(contents(file)[0])]
            ballast.unlink()
            os.utime(watch.tree)
            watch.until(lambda: b"value: 2 # yyy" in file.read_bytes()[:1000])
        assert command("check", file, environment=environment).code in (0, 4)
