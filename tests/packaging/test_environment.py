"""The environment: in the core only the command line reads it, and in each feature one module."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "asdffs"
#: Modules of the core beside ``cli`` that read the environment, and why it does not come from the command line.
EXCEPTIONS = {
    "storage/own_files": "programs that open files have no command line, and need the directory of the cache too",
}
#: Names by which the environment is read.
NAMES = {"environ", "environb", "getenv", "getenvb", "expanduser", "expandvars", "getproxies"}


def reads_environment(text: str) -> bool:
    nodes = list(ast.walk(ast.parse(text)))
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names |= {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    return bool(names & NAMES)


def readers(folder: Path) -> set[str]:
    found = {path for path in folder.rglob("*.py") if reads_environment(path.read_text())}
    return {str(path.relative_to(PACKAGE).with_suffix("")) for path in found}


def test_in_the_core_only_the_command_line_reads_it() -> None:
    core = {name for name in readers(PACKAGE) if not name.startswith(("cli/", "features/"))}
    assert core == set(EXCEPTIONS)


def test_in_each_feature_at_most_one_module_reads_it() -> None:
    for feature in (PACKAGE / "features").iterdir():
        found = readers(feature)
        assert len(found) <= 1, found


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("import os; os.environ['X']", True),
        ("from os import environ", True),
        ("from os import getenv as g; g('X')", True),
        ("import os; os.path.expanduser('~')", True),
        ("text = 'os.environ'", False),
    ],
)
def test_it_sees_a_reader(text: str, reads: bool) -> None:
    assert reads_environment(text) == reads
