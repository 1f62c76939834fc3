"""Runs the examples of a page of documentation, in order, in a directory of its own.

| block            | becomes                                                                                    |
|------------------|--------------------------------------------------------------------------------------------|
| ``console``      | each ``$ command``, with what it prints (errors too) compared; ``...`` stands for anything |
| ``console PROG`` | the same, where the program PROG is installed                                              |
| ``LANG FILE``    | the file FILE                                                                              |
| ``pycon``        | doctests, one after the other in one namespace                                             |

Other blocks are for the eye.  ``scripts/pages`` writes what commands print now into the pages.
"""

from __future__ import annotations

import contextlib
import doctest
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.mounts import LIMIT, environment_in, shim

_BLOCK = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ANYTHING = "..."


@dataclass(frozen=True)
class Step:
    """A command, and what the page says it prints; ``start``, ``stop``: where that is in the page."""

    command: str
    output: str
    start: int
    stop: int
    program: str = ""


@dataclass(frozen=True)
class NewFile:
    """A file that the reader is told to write."""

    name: str
    content: str


@dataclass(frozen=True)
class Session:
    """What is typed into Python."""

    text: str


Part = Step | NewFile | Session


def blocks(page: str) -> Iterator[list[Step]]:
    """The steps of each console block."""
    for block in _BLOCK.finditer(page):
        if block[1].split() == ["console"]:
            yield list(_steps(block[2], block.start(2), ""))


def parts(page: str) -> Iterator[Part]:
    """What of the text ``page`` is run."""
    for block in _BLOCK.finditer(page):
        words, text = block[1].split(), block[2]
        if words[:1] == ["console"]:
            yield from _steps(text, block.start(2), words[1] if words[1:] else "")
        elif words == ["pycon"]:
            yield Session(text)
        elif len(words) == 2:
            yield NewFile(words[1], text)


def _steps(text: str, start: int, program: str) -> Iterator[Step]:
    for piece in re.finditer(r"^\$ ((?:[^\n]*\\\n)*[^\n]*)\n((?:(?!\$ )[^\n]*\n)*)", text, re.MULTILINE):
        yield Step(piece[1], piece[2], start + piece.start(2), start + piece.end(2), program)


class Runner:
    """Runs parts in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        programs, interpreter = shim(folder / "bin"), Path(sys.executable)
        shim(programs, "asdftool", f'exec {interpreter} -W ignore {interpreter.parent}/asdftool "$@"')
        shim(programs, "python", f'exec {interpreter} "$@"')
        path = f"{programs}:{interpreter.parent}:{os.environ['PATH']}"  # python3 is the one with numpy
        self.work = folder / "work"
        self.work.mkdir()
        self.environment = environment_in(folder) | {"LC_ALL": "C.UTF-8", "PATH": path, "COLUMNS": "100"}
        # "pip install ." of a page must not change the environment of the tests, and must work without a network
        site = folder / "site"
        self.environment["PYTHONPATH"] += f"{os.pathsep}{site}"
        self.environment |= {"PIP_TARGET": str(site), "PIP_UPGRADE": "1", "PIP_NO_DEPS": "1"}
        # on a busy machine, dask tells of a heartbeat that came after the end of its cluster
        self.environment["DASK_LOGGING__DISTRIBUTED"] = "critical"
        self.environment |= {"PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        self._names: dict[str, object] = {}

    def print(self, step: Step) -> str:
        """What the command prints now."""
        done = subprocess.run(
            ["bash", "-c", f"({step.command}\n) 2>&1"],
            env=self.environment,
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=LIMIT,
            check=False,
        )
        printed = done.stdout.decode("utf-8", "replace").replace(f"{self.work}/", "")
        return printed if not printed or printed.endswith("\n") else printed + "\n"

    def write(self, part: NewFile) -> None:
        """The file."""
        (self.work / part.name).write_text(part.content)

    def ask(self, part: Session) -> None:
        """Compare what Python says."""
        options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        test = doctest.DocTestParser().get_doctest(part.text, self._names, "page", "page", 0)
        runner = doctest.DocTestRunner(optionflags=options)
        said: list[str] = []
        with contextlib.chdir(self.work):
            runner.run(test, out=said.append, clear_globs=False)
        self._names = test.globs
        assert runner.failures == 0, "".join(said)

    def end(self) -> None:
        """Take away what a page that failed left mounted."""
        for point in _mounted_below(self.folder):
            subprocess.run(["umount", "-l", point], check=False)


def _mounted_below(folder: Path) -> list[str]:
    with open("/proc/self/mounts") as file:
        return [words[1] for line in file if (words := line.split())[1].startswith(f"{folder}/")]


def can_run(step: Step) -> bool:
    """Whether its program is there."""
    return not step.program or shutil.which(step.program) is not None


def matches(expected: str, printed: str) -> bool:
    """Whether ``printed`` is what the page says; a line ``...`` stands for any lines, ``...`` in one for a part."""
    pattern = "".join(
        r"(?:[^\n]*\n)*" if line == f"{ANYTHING}\n" else ".*".join(map(re.escape, line.split(ANYTHING)))
        for line in expected.splitlines(keepends=True)
    )
    return re.fullmatch(pattern, printed) is not None
