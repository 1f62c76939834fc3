"""``asdffs edit``: with programs as editors, and with a person at the terminal."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.mounts import asdffs, environment_in, mounted, run
from support.samples import check_saved, odd_file, put
from support.terminal import Terminal

FIX = "sed -i 's/^value: 1$/value: 12/'"
BREAK = "sed -i 's/^value: 1$/value: 1: 2/'"


def edit(file: Path, editor: str, *options: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**environment_in(file.parent), "EDITOR": editor, **more}
    environment.pop("VISUAL", None) if "VISUAL" not in more else None
    return asdffs("edit", *options, file, environment=environment)


def beside(file: Path) -> list[str]:
    return sorted(path.name for path in file.parent.iterdir() if path.name.startswith(("data.asdf.", ".")))


def test_a_valid_edit_writes_what_differs(file: Path) -> None:
    before = file.read_bytes()
    done = edit(file, FIX)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{file}: the tree is saved\n", "")
    check_saved(file, 12)
    after = file.read_bytes()
    assert len(after) == len(before)
    assert sum(a != b for a, b in zip(before, after, strict=True)) < 700, "the text behind it, and no block"
    assert after[after.index(b"\xd3BLK") :] == before[before.index(b"\xd3BLK") :]
    assert beside(file) == []
    assert not list((file.parent / "state/asdffs").rglob("editing"))
    history = list((file.parent / "state/asdffs").glob("closed/*/*/history/*.yaml"))
    assert [path.read_bytes() for path in history] == [before[: len(history[0].read_bytes())]]


def test_nothing_changed(file: Path) -> None:
    before, times = file.read_bytes(), file.stat().st_mtime_ns
    done = edit(file, "true")
    assert (done.returncode, done.stdout) == (0, f"{file}: nothing was changed\n")
    assert (file.read_bytes(), file.stat().st_mtime_ns) == (before, times)


def test_an_invalid_tree_is_kept(file: Path) -> None:
    before = file.read_bytes()
    done = edit(file, BREAK)
    assert done.returncode == 7
    assert "line 8, column 9" in done.stderr
    assert "Traceback" not in done.stderr
    assert file.read_bytes() == before
    assert beside(file) == ["data.asdf.rejected-1.yaml"]
    assert b"value: 1: 2\n" in file.with_name("data.asdf.rejected-1.yaml").read_bytes()
    assert edit(file, BREAK).returncode == 7
    assert beside(file) == ["data.asdf.rejected-1.yaml", "data.asdf.rejected-2.yaml"]


def script(file: Path, text: str) -> str:
    """An editor that is a shell script; ``$1`` is the text."""
    path = file.parent / "editor"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return str(path)


@pytest.mark.parametrize(
    ("text", "code", "sentence", "kept"),
    [
        ("exit 1", 8, "the editor ended with exit code 1, so nothing was committed", []),
        ("echo more >> $1; exit 3", 7, "exit code 3", ["data.asdf.rejected-1.yaml"]),
        ("rm $1", 8, "the editor left no text, so nothing was committed", []),
        (": > $1", 8, "the editor left no text, so nothing was committed", []),
    ],
)
def test_editors_that_fail(file: Path, text: str, code: int, sentence: str, kept: list[str]) -> None:
    before = file.read_bytes()
    done = edit(file, script(file, text))
    assert (done.returncode, sentence in done.stderr) == (code, True), done.stderr
    assert file.read_bytes() == before
    assert beside(file) == kept


@pytest.mark.parametrize(
    ("editor", "sentence"),
    [
        ("no-such-editor -x", "the editor 'no-such-editor' is not there; set $EDITOR, for example EDITOR=nano"),
        ("vi '", '$VISUAL or $EDITOR is "vi \'", which is no command: No closing quotation'),
    ],
)
def test_editors_that_are_none(file: Path, editor: str, sentence: str) -> None:
    done = edit(file, editor)
    assert (done.returncode, done.stderr) == (2, f"asdffs: {sentence}\n")


def test_visual_comes_first_and_words_are_split(file: Path) -> None:
    assert edit(file, "false", VISUAL=FIX).returncode == 0
    check_saved(file, 12)


def test_strict(file: Path) -> None:
    script = "sed -i 's/shape: .25./shape: [2500]/'"
    assert edit(file, script, "--strict").returncode == 7
    done = edit(file, script)
    assert done.returncode == 0
    assert "data: it needs bytes 0 to 10000 of block 0, which has 100" in done.stderr


def test_another_program_changes_the_file_meanwhile(file: Path, tmp_path: Path) -> None:
    other = put(tmp_path, odd_file().replace(b"value: 1\n", b"value: 7\n"), "other")
    done = edit(file, script(file, f"cp {other} {file}; {FIX} $1"))
    assert done.returncode == 7
    assert "another program changed the file" in done.stderr
    assert file.read_bytes() == other.read_bytes()
    assert beside(file) == ["data.asdf.conflict-1.yaml"]
    assert b"value: 12\n" in file.with_name("data.asdf.conflict-1.yaml").read_bytes()


@pytest.mark.mount
def test_two_at_once(file: Path) -> None:
    nested = shlex.join([sys.executable, "-m", "asdffs", "edit", str(file)])
    done = edit(file, script(file, f"{nested} > {file.parent}/out 2>&1; echo $? >> {file.parent}/out"))
    assert done.returncode == 0, done.stderr
    said = (file.parent / "out").read_text()
    assert "'asdffs edit' (process " in said
    assert said.endswith("is changing this file; wait until it ends, or end it\n5\n")
    with mounted(file):
        assert edit(file, FIX).returncode == 5


def test_killed_while_editing_the_text_is_kept_by_the_next_command(file: Path) -> None:
    environment = {**environment_in(file.parent), "EDITOR": script(file, f"{FIX} $1; kill -9 $PPID")}
    before = file.read_bytes()
    done = asdffs("edit", file, environment=environment, stdin=subprocess.DEVNULL)
    assert done.returncode == -signal.SIGKILL
    assert file.read_bytes() == before
    done = edit(file, "true")
    assert done.returncode == 0
    assert f"kept from the last mount: {file}.rejected-1.yaml" in done.stderr
    assert b"value: 12\n" in file.with_name("data.asdf.rejected-1.yaml").read_bytes()


@pytest.mark.long
def test_a_person_goes_on_after_a_refusal(file: Path, tmp_path: Path) -> None:
    """nano opens at the line that is wrong, and what was typed is still there."""
    environment = {**environment_in(tmp_path), "EDITOR": "nano -I"}
    with Terminal(f"{sys.executable} -m asdffs edit {file}", tmp_path, environment) as terminal:
        terminal.see("GNU nano")
        for key in ("Down",) * 7:
            terminal.type(key)
        terminal.type("End")
        terminal.write(": 2")
        terminal.type("C-o")
        terminal.see("File Name to Write")
        terminal.type("Enter")
        terminal.see("Wrote")
        terminal.type("C-x")
        terminal.see("edit again (Return), or keep the text")
        assert "line 8, column 9" in terminal.screen
        terminal.type("Enter")
        terminal.see("GNU nano")
        terminal.type("End", "BSpace", "BSpace", "BSpace")
        terminal.write("2")
        terminal.type("C-o")
        terminal.see("File Name to Write")
        terminal.type("Enter")
        terminal.see("Wrote")
        terminal.type("C-x")
        assert terminal.end() == 0
    check_saved(file, 12)
    assert beside(file) == []


def test_a_person_gives_up(file: Path, tmp_path: Path) -> None:
    environment = {**environment_in(tmp_path), "EDITOR": BREAK}
    with Terminal(f"{sys.executable} -m asdffs edit {file}", tmp_path, environment) as terminal:
        terminal.see("edit again (Return), or keep the text")
        terminal.type("k", "Enter")
        assert terminal.end() == 7
    assert beside(file) == ["data.asdf.rejected-1.yaml"]


def test_it_needs_no_fuse(file: Path) -> None:
    """Nothing of the mount is imported."""
    code = (
        "import sys; from asdffs.cli.main import main; main(sys.argv[1:]); "
        "sys.exit(any(name.startswith('asdffs.mount') for name in sys.modules))"
    )
    environment = {**environment_in(file.parent), "EDITOR": FIX}
    done = run(sys.executable, "-c", code, "edit", file, env=environment)
    assert done.returncode == 0, done.stderr
    check_saved(file, 12)


def test_an_interrupt_is_the_editors(file: Path) -> None:
    """Ctrl-C reaches both; what was saved is committed all the same."""
    assert edit(file, script(file, f"{FIX} $1; kill -INT $PPID")).returncode == 0
    check_saved(file, 12)
