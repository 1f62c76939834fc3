"""Commands without a mount, killed, or with a full or broken disk, at system calls that change a file system.

The file that they change is the old or the new one, whole; a file that they make is there whole, or not at all; once
more without a fault they make it right, and nothing is left over.  ``./scripts/test --deep`` tries every call.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from crash.test_killed import CALLS, COUNTED, DEEP, can_trace, check_block
from support.commands import command
from support.contents import contents
from support.daf_stores import sample
from support.drafts import block_36, draft
from support.filesystems import filesystem, fill
from support.mounts import environment_in, run
from support.samples import DATA, MASK, block_bytes, odd_file, put, zlib_block

pytestmark = [
    pytest.mark.long,
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

    ``result``: what it makes or changes; ``editor``: $EDITOR; ``code``: with which it ends.  ``program``: run as
    Python instead, by who uses ``asdffs.open``.
    """

    arguments: tuple[str, ...]
    result: str
    editor: str = ""
    code: int = 0
    program: str = ""


#: Edits text and blocks, in place and by growth; once more it does the same.
PROGRAM = """
import asdffs
with asdffs.open("data.asdf", "r+") as document:
    document.blocks[0].write_at(3, b"by a program")
    document.tree_text = document.tree_text.replace("value: 1\\n", "value: 2\\n")
    document.commit()
    document.tree_text = document.tree_text.replace("value: 2\\n", "value: 3\\nmore: " + "x" * 9000 + "\\n")
    document.commit()
    document.blocks[1].replace(b"all of it" * 500)
"""

DRAFT = draft(b"a: 1\n", block_36(b"---\n[zlib]\n...\n" + zlib.compress(bytes(5000)), 5000), block_36(b"plain"))
WORKS = {
    "implode": Work(("implode", "parts/data.asdf", "out.asdf"), "out.asdf"),
    "implode --force --sync": Work(("implode", "--force", "--sync", "parts/data.asdf", "old.asdf"), "old.asdf"),
    "repack": Work(("repack", "--compression", "zlib", "data.asdf"), "data.asdf"),
    "repack OUT": Work(("repack", "--drop-unreferenced", "--force", "data.asdf", "out.asdf"), "out.asdf"),
    "edit": Work(("edit", "data.asdf"), "data.asdf", "sed -i 's/^value: 1$/value: 2/'"),
    "edit that grows": Work(("edit", "data.asdf"), "data.asdf", f"sed -i 's/^value: 1$/value: 2 #{'y' * 5000}/'"),
    "block": Work(("block", "data.asdf", "1", "--replace", "new"), "data.asdf"),
    "watch": Work(("watch", "--once", "--prefer", "dir", "changed", "data.asdf"), "data.asdf"),
    "explode": Work(("explode", "data.asdf", "made"), "made/data.asdf"),
    "explode --force --sync": Work(("explode", "--force", "--sync", "data.asdf", "changed"), "changed/data.asdf"),
    "repack --force OUT": Work(("repack", "--force", "--compression", "zlib", "data.asdf", "old.asdf"), "old.asdf"),
    "block --append": Work(("block", "data.asdf", "0", "--append", "new"), "data.asdf"),
    "block new": Work(("block", "data.asdf", "3", "--replace", "new"), "data.asdf"),
    "watch, a new block": Work(("watch", "--once", "--prefer", "dir", "more", "data.asdf"), "data.asdf"),
    "watch, into the directory": Work(
        ("watch", "--once", "--prefer", "file", "changed", "data.asdf"), "changed/data.asdf", code=7
    ),
    "upgrade": Work(("upgrade", "draft.asdf", "out.asdf"), "out.asdf"),
    "daf pack": Work(("daf", "pack", "store", "out.asdf"), "out.asdf"),
    "daf pack --force --sync": Work(("daf", "pack", "--force", "--sync", "store", "old.asdf"), "old.asdf"),
    "daf init": Work(("daf", "init", "data.asdf"), "data.asdf"),
    "asdffs.open": Work(("python",), "data.asdf", program=PROGRAM),
}


Found = tuple[bytes, list[bytes], list[str]]


class Place:
    """The directory of one test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**environment_in(folder), "SOURCE_DATE_EPOCH": "1447000000"}
        (folder / "files").mkdir()
        self.files = folder / "files"
        self.lay_out()

    def lay_out(self) -> None:
        """The files as they are at the start."""
        for path in sorted(self.files.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        (self.files / "data.asdf").write_bytes(START)
        (self.files / "old.asdf").write_bytes(odd_file())
        (self.files / "draft.asdf").write_bytes(DRAFT)
        (self.files / "new").write_bytes(b"replaced" * 700)
        sample("full_v1.0", self.files).rename(self.files / "store")
        for name in ("parts", "changed", "more"):
            done = command("explode", self.files / "data.asdf", self.files / name, environment=self.environment)
            assert done.code == 0
        tree = self.files / "changed/data.asdf"
        tree.write_bytes(tree.read_bytes().replace(b"value: 1\n", b"value: 3\n"))
        shutil.copy(self.files / "more/data0000.asdf", self.files / "more/data0003.asdf")
        block = self.files / "changed/data0000.asdf"
        block.write_bytes(block.read_bytes().replace(DATA, DATA[::-1]))

    def run(self, work: Work, *strace: str) -> int:
        """Its exit code, under strace if there are options for it."""
        command = [sys.executable, *(["-c", work.program] if work.program else ["-m", "asdffs", *work.arguments])]
        tracing = ["strace", "-f", "-qq", "-o", self.folder / "trace", "-e", f"trace={CALLS}", *strace]
        where = {"cwd": self.files, "env": {**self.environment, "EDITOR": work.editor, "VISUAL": ""}}
        return run(*(tracing if strace else []), *command, **where, stdin=subprocess.DEVNULL, text=False).returncode

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
        """What it makes or changes, if it is there: text, decoded blocks, their compressions.

        Of an exploded form what is imploded of it: when its tree is there, all of it must be.
        """
        path = self.files / work.result
        if not path.exists():
            return None
        if "/" in work.result:
            whole = self.folder / "imploded.asdf"
            done = command("implode", "--force", path, whole, environment=self.environment)
            assert done.code == 0, done.err
            path = whole
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
    assert place.run(work, "-e", "status=all") == work.code
    calls, new = place.calls(), place.result(work)
    assert new not in (None, old)
    assert len(calls) >= 3
    for seed, fault in enumerate(FAULTS):
        for call, number in chosen(calls, seed):
            place.lay_out()
            code = place.run(work, "-e", f"inject={call}:{fault}:when={number}")
            check(place, work, old, new, f"{call} {number} {fault}: {code}")


def check_found(work: Work, found: Found | None, old: Found | None, new: Found, what: str) -> None:
    """What a reader may see."""
    if work.program:  # commit by commit
        check_program(found, old, new, what)
    elif "--force" in work.arguments and work.arguments[0] == "explode":
        assert found in (None, old, new), what
    elif "changed/data.asdf" in work.result:  # file by file
        assert found[0] in (old[0], new[0]), what
        assert all(now in pair for now, *pair in zip(*(one[1] for one in (found, old, new)), strict=True)), what
    elif work.arguments[0] in ("watch", "block"):  # blocks are written through, as by a mount
        check_written(found, old, new, what)
    else:
        assert found in (old, new), what


def check(place: Place, work: Work, old: Found | None, new: Found, what: str) -> None:
    """What a reader sees; then once more without a fault."""
    found = place.result(work)
    check_found(work, found, old, new, what)
    if work.result != "data.asdf":
        assert contents(place.files / "data.asdf") == contents(put(place.folder, START, "start.asdf")), what
    if work.code:
        check_kept(place, what)
    for path in place.files.glob("[!.]*.asdf.*"):  # what is kept beside the file; the journal is for the next one
        path.unlink()
    arguments = [*work.arguments]
    if (arguments[0] == "explode" and "--force" not in arguments) or (arguments[-1] == "out.asdf" and found == new):
        arguments.insert(2 if arguments[0] == "daf" else 1, "--force")
    adds = arguments[:3] in (["block", "data.asdf", "0"], ["block", "data.asdf", "3"])  # once more adds once more
    if adds or ((work.editor or arguments[:2] == ["daf", "init"]) and found == new):
        arguments = ["recover", "data.asdf"]
    again = Work(tuple(arguments), work.result, work.editor, program=work.program)
    assert place.run(again) in (0, work.code), what
    if adds:
        check_written(place.result(work), old, new, what)
    else:
        assert place.result(work) == new, what
    assert [path.name for path in place.files.rglob(".*") if "asdffs-" in path.name] == [], what


def check_program(found: Found, old: Found, new: Found, what: str) -> None:
    """The tree of one of its commits; the bytes of the first block as they are written, the second as a whole."""
    between = old[0].replace(b"value: 1\n", b"value: 2\n")
    assert found[0] in (old[0], between, new[0]), what
    check_block(found[1][0], old[1][0], new[1][0])
    assert found[1][1] in (old[1][1], new[1][1]), what
    assert found[1][2:] == old[1][2:] == new[1][2:], what


def check_kept(place: Place, what: str) -> None:
    """What was saved in the directory is there, or beside the file."""
    for name, saved in (("data.asdf", b"value: 3\n"), ("data0000.asdf", DATA[::-1])):
        found = [place.files / "changed" / name, *place.files.glob(f"data.asdf.conflict-*.{name}")]
        assert any(saved in path.read_bytes() for path in found if path.exists()), what


def check_written(found: Found, old: Found, new: Found, what: str) -> None:
    """The tree is the old or the new one; a block is, or some bytes of it; a new one is there, or empty, or not."""
    assert found[0] in (old[0], new[0]), what
    assert len(old[1]) <= len(found[1]) <= len(new[1]), what
    for number, now in enumerate(found[1]):
        check_block(now, old[1][number] if number < len(old[1]) else b"", new[1][number])


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
        said = "free disk space" if name == "block" else "No space left on device"
        assert (done.code, said in done.sentence) == (8, True), done.err
        after = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
        if name == "block":
            assert contents(here / "data.asdf")[1][1] == MASK
        else:
            assert after == before


def test_a_full_disk_while_watching(tmp_path: Path) -> None:
    """The save is told, stays in the directory, and is carried when there is room."""
    from support.watched import watched

    with filesystem("tmpfs", tmp_path, 3 << 20) as here:
        file = put(here, odd_file(blocks=[block_bytes(b"x" * 100_000), block_bytes(MASK)]))
        environment = environment_in(tmp_path)
        with watched(file, code=None, end=signal.SIGTERM) as watch:
            ballast = fill(here)
            os.truncate(ballast, ballast.stat().st_size - (64 << 10))
            text = watch.tree.read_bytes()
            watch.tree.write_bytes(text.replace(b"value: 1\n", b"value: 2 # " + b"y" * 40_000 + b"\n"))
            watch.until(lambda: "free disk space" in watch.error)
            assert contents(file)[0] == START[: len(contents(file)[0])]
            ballast.unlink()
            os.utime(watch.tree)
            watch.until(lambda: b"value: 2 # yyy" in file.read_bytes()[:1000])
        assert command("check", file, environment=environment).code in (0, 4)


@pytest.mark.parametrize("call", ["unlinkat", "renameat"])
def test_regression_explode_that_was_terminated_left_no_tree(tmp_path: Path, call: str) -> None:
    """SIGTERM at each name that it takes away or gives: the exploded form is the old one or the new one."""
    place, work = Place(tmp_path), WORKS["explode --force --sync"]
    for number in range(1, 20):
        place.lay_out()
        before = {path.name: path.read_bytes() for path in (place.files / "changed").glob("*.asdf")}
        code = place.run(work, "-e", f"inject={call}:signal=SIGTERM:when={number}")
        after = {path.name: path.read_bytes() for path in (place.files / "changed").glob("[!.]*.asdf")}
        assert after.keys() == before.keys()
        differ = {name for name in after if after[name] != before[name]}
        assert differ in (set(), {"data.asdf", "data0000.asdf"}), (number, differ)
        if code == 0:
            break
    assert number > 1


@pytest.mark.parametrize(
    "name", [name for name, work in WORKS.items() if work.arguments[0] != "watch" and not work.program]
)
def test_ended_by_a_signal_nothing_is_left(tmp_path: Path, name: str) -> None:
    """SIGTERM or SIGHUP at a name that is made, given or taken away, or at a write: no temporary file stays."""
    place, work = Place(tmp_path), WORKS[name]
    before = {path.relative_to(place.files) for path in place.files.rglob("*")}
    ended = 0
    for call in ("pwrite64", "openat", "rename,renameat", "unlink,unlinkat")[: 4 if DEEP else 2]:
        for how in ("SIGTERM", "SIGHUP")[:: 1 if DEEP else 2]:
            for number in range(1, 60) if DEEP else (1, 3):
                place.lay_out()
                path = ("-P", place.files) if call == "openat" else ()
                code = place.run(work, *map(str, path), "-e", f"inject={call}:signal={how}:when={number}")
                ended += code in (128 + getattr(signal, how), -getattr(signal, how))
                found = {path.relative_to(place.files) for path in place.files.rglob("*")}
                assert {path for path in found - before if ".asdffs-" in path.name} == set(), (call, how, number)
    assert ended
