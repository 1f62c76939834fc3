"""Man pages and completions: complete, and array_errors by the programs that read them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from support.mounts import run

from asdffs.cli.command_line import describe
from asdffs.cli.completions import completions
from asdffs.cli.manual import pages
from asdffs.cli.parser import command_names

ROOT = Path(__file__).parents[2]


def needs(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


@pytest.mark.long
def test_every_command_has_a_page_that_mandoc_understands(tmp_path: Path) -> None:
    needs("mandoc")
    found = pages()
    assert set(found) == {"asdffs.1", *(f"asdffs-{name}.1" for name in command_names())}
    for name, text in found.items():
        (tmp_path / name).write_text(text)
        done = run("mandoc", "-T", "lint", "-W", "warning", tmp_path / name)
        complaints = [line for line in done.stdout.splitlines() if "missing date" not in line]
        assert complaints == [], name
    shown = run("mandoc", "-T", "utf8", tmp_path / "asdffs-repack.1").stdout
    assert "asdffs repack --compression lz4 data.asdf small.asdf" in shown
    assert "20% of it" in shown


def test_every_option_has_a_text_and_every_command_an_example() -> None:
    top, commands = describe()
    for command in commands:
        assert "example:\n  asdffs " in command.epilog or "EDITOR=nano asdffs" in command.epilog, command.name
        assert f"asdffs {command.name}" in command.epilog, command.name
    for command in (top, *commands):
        for argument in command.arguments:
            assert argument.text, (command.name, argument)
            assert len(argument.text) < 90


def bash(words: str) -> set[str]:
    """What the completion of bash offers for a command line."""
    line = f"asdffs {words}".split(" ")
    script = completions()["bash-completion/completions/asdffs"] + (
        f"COMP_WORDS=({' '.join(repr(word) for word in line)}); COMP_CWORD={len(line) - 1}; _asdffs; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-uc", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash() -> None:
    assert bash("") >= set(command_names())
    assert bash("re") == {"recover", "refs", "rename", "repack"}
    assert bash("--v") == {"--version"}
    assert bash("repack --dr") == {"--drop-unreferenced"}
    assert bash("mount --binding ") == {"auto", "mfusepy", "fusepy"}
    assert bash("watch --prefer f") == {"file"}
    assert bash("info READ") == {"README.md"}
    assert bash("info scr") == {"scripts"}


@pytest.mark.long
def test_zsh_reads_its_file(tmp_path: Path) -> None:
    needs("zsh")
    (tmp_path / "_asdffs").write_text(completions()["zsh/site-functions/_asdffs"])
    done = run("zsh", "-n", tmp_path / "_asdffs")
    assert (done.returncode, done.stderr) == (0, "")
    script = (
        f"fpath=({tmp_path} $fpath); autoload -Uz compinit; compinit -u -d {tmp_path}/dump; "
        "print $_comps[asdffs]; functions[_describe]='print -l ${(P)2}'; compadd() { }; "
        "words=(asdffs ''); CURRENT=2; _asdffs"
    )
    done = run("zsh", "-fc", script, env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    lines = done.stdout.splitlines()
    assert lines[0] == "_asdffs"
    assert {line.partition(":")[0] for line in lines[1:]} >= set(command_names()), done.stderr


def fish(words: str, folder: Path) -> set[str]:
    path = folder / "asdffs.fish"
    path.write_text(completions()["fish/vendor_completions.d/asdffs.fish"])
    environment = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "PATH": "/usr/bin:/bin"}
    done = run("fish", "-c", f"source {path}; complete -C 'asdffs {words}'", env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return {line.split("\t")[0] for line in done.stdout.splitlines()}


@pytest.mark.long
def test_fish(tmp_path: Path) -> None:
    needs("fish")
    assert fish("re", tmp_path) == {"recover", "refs", "rename", "repack"}
    assert fish("repack --dr", tmp_path) == {"--drop-unreferenced"}
    assert fish("watch --prefer ", tmp_path) == {"dir", "file"}
