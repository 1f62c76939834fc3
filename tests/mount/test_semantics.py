"""Run every example of docs/guide.md and docs/semantics.md, each on a fresh mount, as the page prints it."""

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

DOCS = Path(__file__).parents[2] / "docs"
#: Page -> its console blocks.
EXAMPLES = {
    page: re.findall(r"^```console\n(.*?)^```$", (DOCS / f"{page}.md").read_text(), re.MULTILINE | re.DOTALL)
    for page in ("guide", "semantics")
}


def steps(example: str) -> list[tuple[str, str]]:
    """Commands and what they print."""
    pieces = re.split(r"^\$ ", example, flags=re.MULTILINE)[1:]
    return [(command, output) for command, _, output in (piece.partition("\n") for piece in pieces)]


def test_the_pages_have_examples() -> None:
    assert len(EXAMPLES["guide"]) >= 7
    assert len(EXAMPLES["semantics"]) >= 4
    assert all(steps(example) for examples in EXAMPLES.values() for example in examples)


@pytest.mark.parametrize(
    ("page", "number"), [(page, n) for page, found in EXAMPLES.items() for n in range(len(found))]
)
def test_example(tmp_path: Path, page: str, number: int) -> None:
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
        for command, output in steps(EXAMPLES[page][number]):
            done = run("bash", "-c", f"({command}) 2>&1", env=environment, cwd=tmp_path)
            printed = done.stdout.replace(f"{tmp_path}/", "")
            assert re.sub(r"mnt/sed\w{6}", "mnt/sedXXXXXX", printed) == output, command
    finally:
        run("umount", "-l", tmp_path / "mnt")
