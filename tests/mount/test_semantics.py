"""Run every example of docs/guide.md and docs/semantics.md, each on a fresh mount, as the page prints it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.mounts import asdffs
from support.pages import Runner, Step, blocks
from support.samples import odd_file, put

pytestmark = pytest.mark.mount

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = [
    pytest.param(steps, id=f"{page}-{number}")
    for page in ("guide", "semantics")
    for number, steps in enumerate(blocks((DOCS / f"{page}.md").read_text()))
]


def test_the_pages_have_examples() -> None:
    assert len(EXAMPLES) >= 11


@pytest.mark.parametrize("steps", EXAMPLES)
def test_example(tmp_path: Path, steps: list[Step]) -> None:
    runner = Runner(tmp_path)
    put(runner.work, odd_file(padding=b" " * 500))
    (runner.work / "mnt").mkdir()
    where = {"environment": runner.environment | {"LC_ALL": "C"}, "cwd": runner.work}
    runner.environment["LC_ALL"] = "C"
    assert asdffs("mount", "data.asdf", "mnt", **where).returncode == 0
    try:
        for step in steps:
            printed = re.sub(r"mnt/sed\w{6}", "mnt/sedXXXXXX", runner.print(step))
            assert printed == step.output, step.command
    finally:
        runner.end()
