"""Man pages and completions: complete, and array_errors by the programs that read them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.mounts import run

from asdffs.cli.arguments import command_names, make_parsers

pytest.importorskip("shtab")
pytest.importorskip("argparse_manpage")

from shell_files import completions, pages

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
    _, commands = make_parsers(command_names(), None)
    for name, command in commands.items():
        epilog = command.epilog or ""
        assert "example:\n  asdffs " in epilog or "EDITOR=nano asdffs" in epilog, name
        assert f"asdffs {name}" in epilog, name
        for action in command._actions:
            assert action.help or action.dest == "action", (name, action)
            assert len(action.help or "") < 90


def bash(words: str, folder: Path = ROOT) -> set[str]:
    """What the completion of bash offers for a command line, in ``folder``."""
    line = f"asdffs {words}".split(" ")
    script = completions()["bash-completion/completions/asdffs"] + (
        f"\nCOMP_WORDS=({' '.join(repr(word) for word in line)}); COMP_CWORD={len(line) - 1}; _shtab_asdffs asdffs; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    here = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(folder), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=folder, env=here, check=True)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash() -> None:
    assert bash("") >= set(command_names())
    assert bash("re") == {"recover", "refs", "rename", "repack"}
    assert bash("repack --dr") == {"--drop-unreferenced"}
    assert bash("mount --libfuse ") == {"auto", "3", "2"}
    assert bash("watch --prefer f") == {"file"}
    assert bash("info READ") == {"README.md"}
    assert bash("info scr") == {"scripts"}
    assert bash("repack --compression l") == {"lz4", "lz4f"}
    assert bash("mount -o ro,spo") == {"ro,spool=", "ro,spool_max="}


HOSTILE = "$(touch${IFS}gone)"


@pytest.fixture
def tree_file(tmp_path: Path) -> Path:
    """A file whose keys a shell must not run."""
    path = tmp_path / "x.asdf"
    path.write_text(f"#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n--- {{meta: {{title: a, time: 1}}, '{HOSTILE}': 2}}\n...\n")
    return path


def test_bash_completes_paths_of_the_tree_and_runs_none_of_them(tree_file: Path) -> None:
    assert bash("tree x.asdf meta.t", tree_file.parent) == {"meta.time", "meta.title"}
    assert any("touch" in word for word in bash("tree x.asdf ", tree_file.parent))
    assert not (tree_file.parent / "gone").exists()


@pytest.mark.long
def test_zsh(tmp_path: Path, tree_file: Path) -> None:
    """Its own completion system, in a pseudo-terminal: what TAB writes behind the words."""
    needs("zsh")
    (tmp_path / "_asdffs").write_text(completions()["zsh/site-functions/_asdffs"])
    done = run("zsh", "-n", tmp_path / "_asdffs")
    assert (done.returncode, done.stderr) == (0, "")

    def zsh(words: str) -> str:
        script = (
            f"zmodload zsh/zpty; zpty z zsh -f; zpty -w z 'PS1=; cd {tmp_path}; fpath=({tmp_path} $fpath)'; "
            f"zpty -w z 'autoload -Uz compinit; compinit -u -d {tmp_path}/dump; print READY'; "
            "while zpty -r z line; do [[ $line == READY* ]] && break; done; "
            f"zpty -n -w z $'{words}\\t'; sleep 3; zpty -n -w z $'X\\n'; "
            "while zpty -r z line; do print -r -- $line; [[ $line == *X* ]] && break; done"
        )
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        here = {"HOME": str(tmp_path), "PATH": path, "TERM": "dumb", "PYTHONPATH": str(ROOT)}
        return run("zsh", "-fc", script, env=here).stdout

    assert "repack --drop-unreferenced" in zsh("asdffs repack --dr")
    assert "--libfuse auto" in zsh("asdffs mount --libfuse a")
    assert "ro,umask=" in zsh("asdffs mount -o ro,uma")
    assert "x.asdf meta.title" in zsh("asdffs tree x.asdf meta.tit")
    zsh("asdffs tree x.asdf ")
    assert not (tmp_path / "gone").exists()


def fish(words: str, folder: Path) -> set[str]:
    path = folder / "asdffs.fish"
    path.write_text(completions()["fish/vendor_completions.d/asdffs.fish"])
    here = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    environment = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "PATH": here, "PYTHONPATH": str(ROOT)}
    done = run("fish", "-c", f"cd {folder}; source {path}; complete -C 'asdffs {words}'", env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return {line.split("\t")[0] for line in done.stdout.splitlines()}


@pytest.mark.long
def test_fish(tmp_path: Path, tree_file: Path) -> None:
    needs("fish")
    assert fish("re", tmp_path) == {"recover", "refs", "rename", "repack"}
    assert fish("repack --dr", tmp_path) == {"--drop-unreferenced"}
    assert fish("watch --prefer ", tmp_path) == {"dir", "file"}
    assert "ro,umask=" in fish("mount -o ro,uma", tmp_path)
    assert fish("tree x.asdf meta.", tmp_path) >= {"meta.title", "meta.time"}
    assert not (tmp_path / "gone").exists()
