"""Every example of docs/semantics.md, run as it is printed."""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path

import pytest
from support.mounts import asdffs, environment_in, run
from support.samples import odd_file

pytestmark = pytest.mark.mount

PAGE = Path(__file__).parents[2] / "docs" / "semantics.md"
EXAMPLES = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def steps(example: str) -> list[tuple[str, str]]:
    """Commands and what they print."""
    pieces = re.split(r"^\$ ", example, flags=re.MULTILINE)[1:]
    return [(command, output) for command, _, output in (piece.partition("\n") for piece in pieces)]


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 7
    assert all(steps(example) for example in EXAMPLES)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example(tmp_path: Path, number: int) -> None:
    (tmp_path / "data.asdf").write_bytes(odd_file(padding=b" " * 500))
    (tmp_path / "mnt").mkdir()
    shim = tmp_path / "bin" / "asdffs"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -m asdffs "$@"\n')
    shim.chmod(shim.stat().st_mode | stat.S_IXUSR)
    path = f"{shim.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"  # python3 is the one with numpy
    environment = environment_in(tmp_path) | {"LC_ALL": "C", "PATH": path}
    assert asdffs("mount", "data.asdf", "mnt", environment=environment, cwd=tmp_path).returncode == 0
    try:
        for command, output in steps(EXAMPLES[number]):
            done = run("bash", "-c", f"({command}) 2>&1", env=environment, cwd=tmp_path)
            printed = done.stdout.replace(f"{tmp_path}/", "")
            assert re.sub(r"mnt/sed\w{6}", "mnt/sedXXXXXX", printed) == output, command
    finally:
        run("umount", "-l", tmp_path / "mnt")
