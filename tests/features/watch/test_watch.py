"""``asdffs watch``: every program that saves, changes of the file from outside, many saves, restarts, refusals."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import asdf
import numpy as np
import pytest
from support.commands import Done, command
from support.editors import PROGRAMS, SILENT_PROGRAMS, TERMINAL_PROGRAMS, follow
from support.mounts import LIMIT, asdffs, environment_in, run
from support.samples import DATA, MASK, block_bytes, check_saved, odd_file, opened, zlib_block
from support.watched import Watched, watched

from asdffs.document.opening import open_document
from asdffs.document.saves.drafts import Drafts
from asdffs.document.saves.history import History
from asdffs.features.watch.mirror import Mirror

Call = Callable[..., Done]
ALL = PROGRAMS | SILENT_PROGRAMS
#: These rename within a mount.
BY_HAND = {"mv within": "cp $N $M/new && mv $M/new $T"}
OLD = b"value: 1\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data.asdf"
    path.write_bytes(odd_file(padding=b" " * 2000))
    return path


@pytest.fixture
def call(tmp_path: Path) -> Call:
    return partial(command, environment=environment_in(tmp_path))


def has(file: Path, line: bytes) -> Callable[[], bool]:
    """Whether the file, as a reader without the lock sees it, has ``line`` in its tree."""
    return lambda: line in file.read_bytes()


def save(watch: Watched, line: bytes, old: bytes = OLD) -> None:
    watch.tree.write_bytes(watch.tree.read_bytes().replace(old, line))


def kept(file: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(file.parent.glob("data.asdf.*"))]


def test_regression_the_files_of_a_private_file_are_private(file: Path) -> None:
    """Also one that is written again because it was removed."""
    file.chmod(0o600)
    before = os.umask(0o022)
    try:
        with watched(file) as watch:
            watch.block(0).unlink()
            save(watch, b"value: 7\n")
            watch.until(has(file, b"value: 7\n"))
        with watched(file) as watch:
            modes = {name: (watch.point / name).stat().st_mode & 0o777 for name in os.listdir(watch.point)}
    finally:
        os.umask(before)
    assert set(modes.values()) <= {0o600, 0o700}, modes
    assert watch.block(0).name in modes


@pytest.mark.long
def test_every_program_saves(file: Path) -> None:
    """One after the other: the file has each text, and at the end no text is left over."""
    with watched(file) as watch:
        text = file.parent / "new.yaml"
        first = watch.tree.read_bytes()
        for number, (name, program) in enumerate(ALL.items(), 100):
            text.write_bytes(first.replace(OLD, b"value: %d\n" % number))
            assert program(watch, text) == 0, name
            watch.until(has(file, b"value: %d\n" % number))
            assert watch.tree.read_bytes() == text.read_bytes(), name
    check_saved(file, number)
    assert kept(file) == []


@pytest.mark.long
def test_every_program_in_a_terminal_saves(file: Path) -> None:
    with watched(file, code=None) as watch:
        line = watch.tree.read_bytes()[: watch.tree.read_bytes().index(OLD)].count(b"\n") + 1
        typed = b"1"
        for name, keys in TERMINAL_PROGRAMS.items():
            with keys.open(watch, line) as terminal:
                terminal.write("2")
                typed += b"2"
                follow(terminal, keys.save)
                terminal.see(keys.saved)
                watch.until(has(file, b"value: " + typed + b"\n"))
                follow(terminal, keys.leave)
                assert terminal.end() == 0, name
    check_saved(file, int(typed))
    assert kept(file) == [], watch.said


def test_blocks(file: Path) -> None:
    """Written in place, replaced, grown, shrunk, added; what is not a block stays out."""
    with watched(file) as watch:
        with open(watch.block(0), "r+b") as block:
            block.seek(-100, os.SEEK_END)
            block.write(b"hello")
        watch.until(has(file, b"hello" + DATA[5:]))
        other = odd_file(tree=None, comments="", blocks=[zlib_block(MASK * 50)], index="absent")
        watch.block(1).write_bytes(other)
        new = odd_file(tree=None, comments="", blocks=[block_bytes(b"a new one")], index="absent")
        watch.block(2).write_bytes(new)
        (watch.point / "notes.txt").write_text("mine")
        (watch.point / "data0007.asdf~").write_bytes(new)
        watch.until(has(file, b"a new one"))
        more = b"value: 3\nmore: !core/ndarray-1.0.0 {source: %b, datatype: uint8, byteorder: big, shape: [9]}\n"
        save(watch, more % b"data0002.asdf")
        watch.until(has(file, more % b"2"))
    with opened(file) as found:
        assert found["data"][:].tobytes() == b"hello" + DATA[5:]
        assert found["mask"][:].tobytes() == MASK
        assert found["more"][:].tobytes() == b"a new one"
    environment = environment_in(file.parent)
    facts = command("info", "--json", file, environment=environment).json
    assert [block["compression"] for block in facts["blocks"]] == ["none", "zlib", "none"]
    assert [block["data_size"] for block in facts["blocks"]] == [100, 2000, 9]
    assert facts["index"] == "valid"
    assert command("check", file, environment=environment).out == f"{file}: nothing wrong\n"


def test_the_library_saves(tmp_path: Path) -> None:
    """``update`` of the exploded form, with external arrays, writes tree and blocks."""
    path = tmp_path / "real.asdf"
    asdf.AsdfFile({"a": np.arange(500), "b": np.ones((3, 4)), "value": 1}).write_to(path)
    with watched(path) as watch:
        with asdf.open(watch.tree, memmap=False, lazy_load=False) as found:
            tree = {"a": found["a"][:] + 1, "b": np.zeros((5, 5)), "c": np.arange(9.0), "value": 2}
            asdf.AsdfFile(tree).write_to(watch.tree, all_array_storage="external")
        watch.until(has(path, b"value: 2\n"))
    with opened(path) as found:
        assert all(np.array_equal(found[name], array) for name, array in tree.items())


def test_a_refused_tree_is_told_and_kept(file: Path) -> None:
    with watched(file) as watch:
        save(watch, b"value: 1: 2\n")
        watch.until(lambda: "line 8, column 9" in watch.error)
        check_saved(file, 1)
        save(watch, b"value: 5\n", b"value: 1: 2\n")
        watch.until(has(file, b"value: 5\n"))
        watch.until(lambda: watch.error == "")
    assert "data.asdf.rejected-1.yaml" in watch.said
    assert b"value: 1: 2\n" in kept(file)[0]


def test_half_a_save_is_not_carried(file: Path) -> None:
    """An emptied tree, one that is gone, and one without an end are no saves; what follows is."""
    with watched(file) as watch:
        text = watch.tree.read_bytes().replace(OLD, b"value: 4\n")
        watch.tree.write_bytes(b"")
        watch.tree.unlink()
        with open(watch.tree, "wb", buffering=0) as tree:
            tree.write(text[:300])
            os.fsync(tree.fileno())
            tree.write(text[300:])
        watch.until(has(file, b"value: 4\n"))
        watch.tree.unlink()
    check_saved(file, 4)
    assert kept(file) == []


def test_another_program_changes_the_file(file: Path) -> None:
    """Clean: the directory has it.  At the same time as a save: the watch ends, and both stay as they are."""
    with watched(file, code=7) as watch:
        with watch.stopped(), asdf.open(file, mode="rw", ignore_unrecognized_tag=True) as found:
            found["value"] = 6
            found.update()
        watch.until(lambda: b"value: 6\n" in watch.tree.read_bytes())
        save(watch, b"value: 7\n", b"value: 6\n")
        watch.until(has(file, b"value: 7\n"))
        theirs = odd_file().replace(OLD, b"value: 9\n")
        with watch.stopped():
            save(watch, b"value: 8  # mine\n", b"value: 7\n")
            mine = watch.tree.read_bytes()
            foreign(file, theirs)
        assert watch.process is not None
        watch.process.wait(LIMIT)
    assert (file.read_bytes(), watch.tree.read_bytes(), kept(file)) == (theirs, mine, [])
    sentence = "another program changed it, and data.asdf was saved meanwhile; use --prefer dir or --prefer file"
    assert f"{file}: some edits are not in the file: {sentence}; kept: {watch.tree}\n" in watch.said
    assert watch.error == f"{sentence}\n"
    again = ("watch", "--once", watch.point, file)
    assert asdffs(*again, environment=watch.environment).returncode == 2
    assert asdffs(*again, "--prefer", "dir", environment=watch.environment).returncode == 7
    assert b"value: 8  # mine\n" in file.read_bytes()
    assert [b"value: 9\n" in text for text in kept(file)] == [True]


def test_the_file_is_removed(file: Path) -> None:
    with watched(file, code=8) as watch:
        file.unlink()
        watch.process.wait(LIMIT)
    assert "the file was removed; 'asdffs implode' makes another of what is in the directory" in watch.said
    again = command("implode", watch.tree, file, environment=environment_in(file.parent))
    assert again.code == 0
    check_saved(file, 1)


def test_a_thousand_saves_in_a_minute(file: Path) -> None:
    """The last one is in the file, and each that is there is whole."""
    with watched(file) as watch:
        text = watch.tree.read_bytes()
        seen = 1

        def later() -> bool:
            nonlocal seen
            before = seen
            with asdf.open(file, lazy_load=True, ignore_unrecognized_tag=True) as found:
                seen = found["value"]
            return seen > before

        for number in range(1000, 2000):
            new = watch.point / "new"
            new.write_bytes(text.replace(OLD, b"value: %d\n" % number))
            new.rename(watch.tree)
            if number % 100 == 0:
                watch.until(later)
        watch.until(has(file, b"value: 1999\n"))
    check_saved(file, 1999)
    assert kept(file) == []


def test_saves_of_tree_and_blocks_at_once_are_not_mixed(file: Path) -> None:
    """Many writers: each block is all of one writer's, and the tree is a whole one."""
    with watched(file) as watch:
        text = watch.tree.read_bytes()
        for number in range(60):
            fill = bytes([number + 1])
            for block, size in ((0, 100), (1, 40)):
                content = odd_file(tree=None, comments="", blocks=[block_bytes(fill * size)], index="absent")
                new = watch.point / f"new{block}"
                new.write_bytes(content)
                new.rename(watch.block(block))
            new = watch.point / "new"
            new.write_bytes(text.replace(OLD, b"value: %d\n" % (100 + number)))
            new.rename(watch.tree)
        watch.until(has(file, b"value: 159\n"))
        watch.until(has(file, fill * 100))
    with opened(file) as found:
        assert found["data"][:].tobytes() == fill * 100
        assert found["mask"][:].tobytes() == fill * 40
        assert found["value"] == 159


def test_killed_and_started_again(file: Path) -> None:
    """What was saved while nobody watched is carried; so is what another program did to the file."""
    with watched(file, code=-9, end=signal.SIGKILL) as watch:
        save(watch, b"value: 2\n")
        watch.until(has(file, b"value: 2\n"))
    save(watch, b"value: 3\n", b"value: 2\n")
    with watched(file) as watch:
        watch.until(has(file, b"value: 3\n"))
    assert kept(file) == []
    with asdf.open(file, mode="rw", ignore_unrecognized_tag=True) as found:
        found["value"] = 4
        found.update()
    with watched(file) as watch:
        assert b"value: 4\n" in watch.tree.read_bytes()
    assert kept(file) == []


def test_both_changed_while_nobody_watched(file: Path, call: Call) -> None:
    with watched(file) as watch:
        pass
    save(watch, b"value: 2  # dir\n")
    file.write_bytes(odd_file().replace(OLD, b"value: 3  # file\n"))
    done = call("watch", watch.point, file)
    assert done.code == 2
    assert "differs from" in done.sentence
    assert "--prefer dir or --prefer file" in done.sentence
    shutil.copytree(watch.point, file.parent / "copy")
    shutil.copy(file, file.parent / "copy.asdf")
    done = asdffs("watch", "--once", "--prefer", "dir", watch.point, file, environment=watch.environment)
    assert done.returncode == 7, done.stderr
    assert b"value: 2  # dir\n" in file.read_bytes()
    assert [b"value: 3  # file\n" in text for text in kept(file)] == [True]
    for path in file.parent.glob("*.conflict-*"):
        path.unlink()
    shutil.rmtree(watch.point)
    shutil.copytree(file.parent / "copy", watch.point)
    os.utime(watch.tree)  # a copy with the times and, by chance, the inode of before is no change
    shutil.copy(file.parent / "copy.asdf", file)
    done = asdffs("watch", "--once", "--prefer", "file", watch.point, file, environment=watch.environment)
    assert done.returncode == 7, done.stderr
    assert b"value: 3  # file\n" in watch.tree.read_bytes()
    assert [b"value: 2  # dir\n" in text for text in kept(file)] == [True]


def test_a_block_of_the_file_that_loses_is_kept(file: Path) -> None:
    with watched(file) as watch:
        pass
    save(watch, b"value: 2  # dir\n")
    other = file.parent / "other.bin"
    other.write_bytes(MASK[::-1])
    assert asdffs("block", file, 1, "--replace", other, environment=watch.environment).returncode == 0
    done = asdffs("watch", "--once", "--prefer", "dir", watch.point, file, environment=watch.environment)
    assert done.returncode == 7, done.stderr
    names = sorted(path.name for path in file.parent.glob("*.conflict-*"))
    assert names == ["data.asdf.conflict-1.data.asdf", "data.asdf.conflict-1.data0001.asdf"]
    assert (file.parent / names[1]).read_bytes().endswith(MASK[::-1])


def test_regression_explode_of_a_file_with_the_name_of_another_was_forgotten(file: Path) -> None:
    """A pipeline wrote the file anew; ``explode`` of the new one is known to the next watch, which keeps nothing."""
    with watched(file) as watch:
        save(watch, b"value: 2  # dir\n")
    new = file.with_suffix(".new")
    new.write_bytes(odd_file().replace(OLD, b"value: 3  # file\n"))
    new.replace(file)
    folder = file.parent / "again"
    assert asdffs("explode", file, folder, environment=watch.environment).returncode == 0
    tree = folder / "data.asdf"
    tree.write_bytes(tree.read_bytes().replace(b"value: 3  # file\n", b"value: 4\n"))
    done = asdffs("watch", "--once", folder, file, environment=watch.environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert b"value: 4\n" in file.read_bytes()
    assert kept(file) == []


def test_a_directory_that_asdftool_exploded(file: Path) -> None:
    """Nothing is known of it, and it is the same: it is watched."""
    environment = environment_in(file.parent)
    folder = file.parent / "w-data.asdf"
    assert asdffs("explode", file, folder, environment=environment).returncode == 0
    with watched(file) as watch:
        save(watch, b"value: 2\n")
        watch.until(has(file, b"value: 2\n"))
    check_saved(file, 2)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("data0000.asdf", b"no asdf", "data0000.asdf: offset 0: not an ASDF file"),
        ("data0000.asdf", b"#ASDF 1.0.0\n", "data0000.asdf: has no block"),
        ("data0005.asdf", odd_file(tree=None), "the next block is number 2; give the file that number"),
        ("data.asdf", odd_file(), "has blocks of its own"),
        (
            "data.asdf",
            odd_file(blocks=[]).replace(b"source: 1", b"source: data0002.asdf"),
            "line 10: mask: there is no data0002.asdf yet",
        ),
    ],
)
def test_refusals(file: Path, name: str, content: bytes, sentence: str) -> None:
    before = file.read_bytes()
    with watched(file, code=None) as watch:
        (watch.point / name).write_bytes(content)
        watch.until(lambda: sentence in watch.error)
        assert file.read_bytes() == before
    assert watch.code in (7, 8)
    assert sentence in watch.said


def test_refusals_at_the_start(file: Path, call: Call) -> None:
    done = call("watch", file.parent, file)
    assert (done.code, "the file itself lies in it" in done.sentence) == (2, True)
    assert call("watch", file.parent / "w", file.parent / "missing").code == 3
    with watched(file) as watch:
        done = call("watch", file.parent / "other", file)
        assert (done.code, "'asdffs watch' (process" in done.sentence) == (5, True)
        done = call("edit", file)
        assert done.code == 5
        assert watch.process.poll() is None


def test_no_watch_and_no_signal_are_needed(file: Path) -> None:
    """Where nothing tells of a close, a file is carried when it has been the same for a second."""
    code = (
        "import sys; from asdffs.storage import watch; watch.DirectoryWatch.start = lambda self: None; "
        "from asdffs.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    folder = file.parent / "w"
    environment = environment_in(file.parent)
    command = [sys.executable, "-c", code, "watch", str(folder), str(file)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("watching ")
        tree = folder / "data.asdf"
        tree.write_bytes(tree.read_bytes().replace(OLD, b"value: 2\n"))
        watch = Watched(file, folder, environment, process=process)
        watch.until(has(file, b"value: 2\n"))
    finally:
        process.terminate()
        process.communicate(timeout=LIMIT)
    assert process.returncode == 0
    check_saved(file, 2)


def test_kill_asks_twice(file: Path) -> None:
    """Ctrl-C ends it as SIGTERM does, and the last save is in the file."""
    with watched(file, end=signal.SIGINT) as watch:
        save(watch, b"value: 2\n")
    check_saved(file, 2)
    assert run("pgrep", "-f", str(watch.point)).returncode == 1


# -- faults that were found ----------------------------------------------------


def foreign(file: Path, content: bytes) -> None:
    """Another program replaces the file."""
    other = file.parent / "other"
    other.write_bytes(content)
    os.replace(other, file)


def test_regression_a_change_that_could_not_be_carried_into_the_directory_was_forgotten(file: Path) -> None:
    """Nothing is carried back before it is there."""
    with watched(file) as watch:
        with open(watch.tree, "rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            foreign(file, odd_file().replace(OLD, b"value: 9\n"))
            watch.until(lambda: "is not in the directory yet" in watch.error)
        watch.until(lambda: b"value: 9\n" in watch.tree.read_bytes())
        save(watch, b"value: 10\n", b"value: 9\n")
        watch.until(has(file, b"value: 10\n"))
    assert kept(file) == []


def test_regression_refused_files_were_overwritten(file: Path) -> None:
    """Refused files and a change by another program: all stay, until it is said which wins."""
    precious = odd_file(tree=None, comments="", blocks=[block_bytes(b"precious")], index="absent")
    mine = odd_file().replace(OLD, b"value: 1  # mine\n")
    with watched(file, code=7) as watch:
        watch.block(5).write_bytes(precious)
        watch.block(0).write_bytes(b"garbage")
        watch.tree.write_bytes(mine)
        watch.until(lambda: watch.error.count("\n") == 3)
        foreign(file, odd_file().replace(OLD, b"value: 9\n"))
        assert watch.process is not None
        watch.process.wait(LIMIT)
    files = (watch.block(5), watch.block(0), watch.tree)
    assert [path.read_bytes() for path in files] == [precious, b"garbage", mine]
    assert has(file, b"value: 9\n")()
    done = asdffs("watch", "--once", "--prefer", "file", watch.point, file, environment=watch.environment)
    assert done.returncode == 7, done.stderr
    assert b"value: 9\n" in watch.tree.read_bytes()
    assert sorted(kept(file)) == sorted([precious, b"garbage", mine])
    assert not watch.block(5).exists()


def test_regression_a_second_store_into_a_map_was_not_carried(file: Path) -> None:
    with watched(file) as watch:
        array = np.memmap(watch.block(0), "u1", "r+", offset=watch.block(0).stat().st_size - 100, shape=(100,))
        array[:5] = 77
        array.flush()
        watch.until(has(file, b"M" * 5 + DATA[5:]))
        array[50:55] = 78
        del array
        watch.until(has(file, b"M" * 5 + DATA[5:50] + b"N" * 5))
    assert kept(file) == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", [0, 2])
def test_regression_half_a_file_was_carried(file: Path, number: int) -> None:
    """Cut off, or damaged when it is decoded: the block is what it was, and no new one is there."""
    before = file.read_bytes()
    cut = odd_file(tree=None, comments="", blocks=[block_bytes(b"B" * 5_000_000)], index="absent")[:2_000_000]
    damaged = bytearray(odd_file(tree=None, comments="", blocks=[zlib_block(os.urandom(3_000_000))], index="absent"))
    damaged[2_000_000:2_000_100] = bytes(100)
    with watched(file, code=8) as watch:
        for content, words in ((cut, "ends inside this block"), (bytes(damaged), "damaged")):
            watch.block(number).write_bytes(content)
            watch.until(lambda words=words: words in watch.error)
            assert file.read_bytes() == before
        if number:
            watch.block(number).unlink()
            watch.until(lambda: watch.error == "")
            shutil.copy(watch.block(1), watch.block(2))
            watch.until(lambda: file.read_bytes().count(MASK) == 2)
        watch.block(number).write_bytes(b"garbage")
        watch.until(lambda: "not an ASDF file" in watch.error)
    assert "not an ASDF file" in watch.said


def test_regression_files_that_are_missing_are_written_by_the_next_watch(file: Path) -> None:
    with watched(file) as watch:
        pass
    for path in (watch.tree, watch.block(1)):
        path.unlink()
    done = asdffs("watch", "--once", watch.point, file, environment=watch.environment)
    assert (done.returncode, done.stderr) == (0, "")
    again = command("implode", watch.tree, file.parent / "o.asdf", environment=watch.environment)
    assert again.code == 0
    check_saved(file.parent / "o.asdf", 1)


def test_regression_another_programs_recompression_was_undone(file: Path) -> None:
    environment = environment_in(file.parent)
    with watched(file) as watch:
        shutil.copy(file, file.parent / "packed")
        assert command("repack", "--compression", "zlib", file.parent / "packed", environment=environment).code == 0
        foreign(file, (file.parent / "packed").read_bytes())
        watch.until_said("the directory has it")  # a save before that is kept beside the file
        assert b"zlib" in watch.block(0).read_bytes()
        os.utime(watch.block(0))
        save(watch, b"value: 3\n")
        watch.until(has(file, b"value: 3\n"))
    blocks = command("info", "--json", file, environment=environment).json["blocks"]
    assert {block["compression"] for block in blocks} == {"zlib"}


@pytest.mark.long
@pytest.mark.parametrize("source", ["-2", "0x0", "&s 0"])
def test_regression_sources_written_otherwise_were_a_difference(file: Path, source: str) -> None:
    file.write_bytes(odd_file().replace(b"{source: 0", b"{source: " + source.encode()))
    before = file.read_bytes()
    with watched(file) as watch:
        pass
    assert file.read_bytes() == before
    with watched(file) as watch:
        save(watch, b"value: 2\n")
        watch.until(has(file, b"value: 2\n"))
    after, wanted = file.read_bytes(), before.replace(OLD, b"value: 2\n")
    end = wanted.index(b"#ASDF BLOCK INDEX")  # which was wrong since the source was changed, and is right now
    assert after[:end] == wanted[:end]
    assert command("check", file, environment=environment_in(file.parent)).out == f"{file}: nothing wrong\n"


def test_regression_what_is_no_file_hung_the_watch(file: Path) -> None:
    with watched(file, code=8) as watch:
        os.mkfifo(watch.block(2))
        watch.until(lambda: "is not a regular file; put the file itself there" in watch.error)
        foreign(file, odd_file().replace(OLD, b"value: 9\n"))
        watch.until(lambda: b"value: 9\n" in watch.tree.read_bytes())


def test_regression_the_directory_is_renamed(file: Path) -> None:
    with watched(file, code=3) as watch:
        watch.point.rename(file.parent / "elsewhere")
        file.touch()
        watch.process.wait(LIMIT)
    assert "was removed or renamed while it was watched; what was carried before is in the file" in watch.said
    check_saved(file, 1)


def test_regression_an_error_that_could_not_be_written_ended_the_watch(file: Path) -> None:
    with watched(file, code=7) as watch:
        (watch.point / ".asdffs").write_text("a file")
        save(watch, b"value: [\n")
        watch.block(0).write_bytes(watch.block(0).read_bytes().replace(DATA, DATA[::-1]))
        watch.until(has(file, DATA[::-1]))
    assert b"value: [\n" in kept(file)[0]


def test_regression_a_pause_in_a_save_left_a_rejected_text(file: Path) -> None:
    with watched(file) as watch:
        text = watch.tree.read_bytes().replace(OLD, b"value: 2\n")
        with open(watch.tree, "wb", buffering=0) as tree:
            tree.write(text[:300])
            watch.until(lambda: "end marker missing" in watch.error)
            tree.write(text[300:])
        watch.until(has(file, b"value: 2\n"))
        watch.until(lambda: watch.error == "")
    assert kept(file) == []


def test_regression_a_directory_of_another_file_is_not_taken(file: Path, call: Call) -> None:
    with watched(file) as watch:
        pass
    other = file.with_name("renamed.asdf")
    file.rename(other)
    done = call("watch", "--once", watch.point, other)
    assert (done.code, "holds other ASDF files (data" in done.sentence) == (2, True)


def test_regression_a_signal_that_came_while_news_were_taken_hung_the_watch(tmp_path: Path) -> None:
    """Its handler waited for a lock that the interrupted thread had: here it comes at every line of ``take``."""
    code = (
        "import signal, sys\nfrom asdffs.features.watch.commands.watch import _News\nnews = _News()\n"
        "signal.signal(signal.SIGTERM, news.end)\n"
        "def trace(frame, event, argument):\n"
        "    signal.raise_signal(signal.SIGTERM)\n    return trace\n"
        "sys.settrace(trace)\nnews.take()\nnews.note('x')\nsys.settrace(None)\n"
        "assert news.ending and 'x' in news.take()[0]\n"
    )
    done = run(sys.executable, "-c", code, env=environment_in(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")


def test_regression_a_save_between_look_and_copy_stays(file: Path, tmp_path: Path) -> None:
    """Another program replaces the file after watch looked: no text is copied or kept beside the file."""
    directory, rejected = tmp_path / "parts", tmp_path / "rejected"
    directory.mkdir()
    rejected.mkdir()
    with closing(open_document(str(file), writable=True)) as document:
        drafts = Drafts(document, str(rejected), History("", []))
        mirror = Mirror(str(directory), "data", document, drafts, lambda name, text: None)
        mirror.complete()
        tree = directory / mirror.main
        tree.write_bytes(tree.read_bytes().replace(OLD, b"value: 8\n"))
        other = tmp_path / "other"
        other.write_bytes(odd_file().replace(OLD, b"value: 9\n"))
        os.replace(other, file)
        assert mirror.carry([mirror.main]) == []
        assert "changed" in mirror.trouble[mirror.main]
        assert not mirror.look()
        assert mirror.conflict == [mirror.main]
        assert b"value: 8\n" in tree.read_bytes()
    assert has(file, b"value: 9\n")()
    assert kept(file) == []
    assert list(rejected.iterdir()) == []
