"""Every program that saves ``tree.yaml``: valid, invalid, and killed in the middle.

Valid: the file has the new tree, and nothing else changed.  Invalid: not a byte of the file
changed, the program says so (or is listed as silent), the text is kept.  Killed: the tree is the
old or the whole new one, and what was written is kept.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest
from support.editors import PROGRAMS, SILENT_PROGRAMS, TERMINAL_PROGRAMS, follow
from support.mounts import Mounted, mounted, run
from support.samples import check_saved

pytestmark = [pytest.mark.long, pytest.mark.mount]

OLD, NEW, BAD = b"value: 1\n", b"value: 12\n", b"value: 1: 2\n"
ALL = PROGRAMS | SILENT_PROGRAMS


def new_text(mount: Mounted, line: bytes) -> Path:
    path = mount.file.parent / "new.yaml"
    path.write_bytes(mount.tree.read_bytes().replace(OLD, line))
    return path


def nothing_left(path: Path) -> None:
    assert sorted(p.name for p in path.parent.glob("data.asdf*")) == ["data.asdf"]


@pytest.mark.parametrize("program", ALL)
def test_valid(file: Path, program: str) -> None:
    with mounted(file) as mount:
        text = new_text(mount, NEW)
        assert ALL[program](mount, text) == 0, mount.error
        assert mount.error == ""
        assert mount.status["draft"] == "clean"
        check_saved(file, 12)
        assert mount.tree.read_bytes() == text.read_bytes()
        assert (mount.point / ".asdffs/committed.yaml").read_bytes() == text.read_bytes()
        assert mount.tree.stat().st_size == len(text.read_bytes())
    check_saved(file, 12)
    nothing_left(file)


@pytest.mark.parametrize("program", ALL)
def test_invalid(file: Path, program: str) -> None:
    before = file.read_bytes()
    with mounted(file, code=7) as mount:
        text = new_text(mount, BAD)
        assert (ALL[program](mount, text) != 0) == (program in PROGRAMS)
        assert "line 8, column 9" in mount.error or program == "JetBrains"  # it puts the old tree back, a valid save
        assert file.read_bytes() == before
        kept = list((mount.point / ".asdffs/rejected").iterdir())
        assert [path.read_bytes() for path in kept] == [text.read_bytes()]
    assert file.read_bytes() == before
    assert file.with_name("data.asdf.rejected-1.yaml").read_bytes() == text.read_bytes()
    assert "rejected-1.yaml" in mount.umount.stderr


#: System calls at which a program is killed: on the tree, or, where it makes a new file, the rename.
CALLS = "write,pwrite64,copy_file_range,ftruncate,msync,fsync,fdatasync"
RENAMES = "rename,renameat,renameat2"
RENAMING = {"rsync", "rsync -a", "sed -i", "perl -i", "patch", "mv within", "gio save", "gio save -b", "git style"}
RENAMING |= {"JetBrains", "emacs precious"}
IN_PLACE = ["cp", "tee", "dd", "python w", "VS Code", "ed"]
KILLED = [*((program, "KILL") for program in ALL), *((program, "TERM") for program in IN_PLACE)]


@pytest.mark.strace
@pytest.mark.parametrize(("program", "name"), KILLED)
def test_killed(file: Path, program: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = file.read_bytes()
    tracer = tmp_path / "trace"
    with mounted_whatever(file) as mount:
        text = new_text(mount, NEW)
        tracer.write_text(
            f'#!/bin/sh\nexec strace -f -qq -o {tmp_path}/calls {strace_options(mount, program, name)} "$@"\n'
        )
        tracer.chmod(tracer.stat().st_mode | 0o100)
        monkeypatch.setattr("support.editors.run", lambda *words, **named: run(tracer, *words, **named))
        ALL[program](mount, text)
        draft = mount.tree.read_bytes() if mount.tree.exists() else b""
        assert "killed by SIG" + name in (tmp_path / "calls").read_text(), "it was killed"
        committed = (mount.point / ".asdffs/committed.yaml").read_bytes()
    assert file.read_bytes() == before or committed == text.read_bytes()
    assert file.read_bytes().startswith(committed)
    if draft not in (b"", committed):
        assert mount.umount.returncode == 7
        assert draft in [path.read_bytes() for path in tmp_path.glob("data.asdf.rejected-*")]


def strace_options(mount: Mounted, program: str, name: str) -> str:
    if program in RENAMING:
        return f"-e inject={RENAMES}:signal={name}:when=1"
    return f"-P {mount.tree} -e inject={CALLS}:signal={name}:when={3 if program == 'dd' else 1}"


@contextlib.contextmanager
def mounted_whatever(file: Path):
    """As ``mounted``, when the exit code depends on what a killed program left."""
    with contextlib.ExitStack() as stack:
        mount = stack.enter_context(mounted(file, code=None))
        yield mount
    assert mount.umount.returncode in (0, 7), mount.umount.stderr


def value_line(mount: Mounted) -> int:
    return mount.tree.read_bytes().split(b"\n").index(OLD.strip()) + 1


@pytest.mark.parametrize("program", TERMINAL_PROGRAMS)
def test_valid_in_a_terminal(file: Path, program: str) -> None:
    keys = TERMINAL_PROGRAMS[program]
    with mounted(file) as mount, keys.open(mount, value_line(mount)) as terminal:
        terminal.write("2")
        follow(terminal, keys.save)
        terminal.see(keys.saved)
        follow(terminal, keys.leave)
        assert terminal.end() == 0
        assert mount.error == ""
        check_saved(file, 12)
    check_saved(file, 12)
    nothing_left(file)


@pytest.mark.parametrize("program", TERMINAL_PROGRAMS)
def test_invalid_in_a_terminal(file: Path, program: str) -> None:
    before = file.read_bytes()
    keys = TERMINAL_PROGRAMS[program]
    with mounted(file, code=7) as mount, keys.open(mount, value_line(mount)) as terminal:
        text = new_text(mount, BAD).read_bytes()
        terminal.write(": 2")
        follow(terminal, keys.save)
        if keys.refused:
            terminal.see(keys.refused)
        else:
            terminal.until(lambda: "line 8, column 9" in mount.error)
        follow(terminal, keys.drop)
        terminal.end()
        assert "line 8, column 9" in mount.error or program == "jed"  # it puts the old tree back, a valid save
        assert file.read_bytes() == before
        kept = [path.read_bytes() for path in (mount.point / ".asdffs/rejected").iterdir()]
        assert text in kept
    assert file.read_bytes() == before
    assert text in [path.read_bytes() for path in file.parent.glob("data.asdf.rejected-*")]


#: Those that end at SIGTERM, some after writing what was typed to a file of its own.
TERMINATED = {"nano -B", "vim", "emacs -nw", "joe"}


@pytest.mark.parametrize("program", TERMINAL_PROGRAMS)
def test_killed_in_a_terminal(file: Path, program: str) -> None:
    """With text that was typed and not saved: nobody's swap file becomes the tree."""
    before = file.read_bytes()
    keys = TERMINAL_PROGRAMS[program]
    number = signal.SIGTERM if program in TERMINATED else signal.SIGKILL
    with mounted_whatever(file) as mount, keys.open(mount, value_line(mount)) as terminal:
        terminal.write("2")
        terminal.see("value: 12")
        pid = int(run("pgrep", "-P", terminal.pid, program.split(" ")[0]).stdout)
        os.kill(pid, number)
        terminal.end()
        assert mount.tree.read_bytes() in before
    assert file.read_bytes() == before
