"""What the pages about the design say is so."""

from __future__ import annotations

import ast
import importlib
import re
import threading
import tomllib
from pathlib import Path

import pytest

import asdffs
from asdffs import scheduling
from asdffs.cli.results import WORDS, sentence_of
from asdffs.document.blocks import transaction
from asdffs.errors import NotPermittedError, Remedy
from asdffs.scheduling import Rank, RankedLock, SingleThread

DESIGN = Path(__file__).parents[2] / "docs/design"


def test_the_table_of_locks_has_the_ranks_in_their_order() -> None:
    rows = re.findall(r"^\| ([A-Z_]+) \| ", (DESIGN / "concurrency.md").read_text(), re.MULTILINE)
    assert rows == [rank.name for rank in Rank]


def test_another_order_of_locks_is_an_error() -> None:
    upper, lower, again = (
        RankedLock(SingleThread(), Rank.BLOCK),
        RankedLock(SingleThread(), Rank.FILE),
        RankedLock(SingleThread(), Rank.FILE),
    )
    with upper.entered(), lower.entered():
        pass
    for other in (upper, again):
        with lower.entered(), pytest.raises(RuntimeError, match="is taken while FILE is held"), other.entered():
            pass
    entered: list[bool] = []

    def enter() -> None:
        with upper.entered():
            entered.append(upper.taken)

    with lower.entered():
        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
    assert entered == [True], "another thread has an order of its own"


def test_tests_check_the_order() -> None:
    assert scheduling._checked


#: Where every change of a file is made durable.
DURABLE = [
    *("document/blocks/transaction", "document/blocks/steps", "storage/growth"),
    *("storage/sidecars", "storage/recovery", "storage/unfinished", "storage/journal", "storage/open_file"),
]


@pytest.mark.parametrize("module", DURABLE)
def test_each_sync_and_each_record_names_its_invariants(module: str) -> None:
    """That each is needed is shown by ``crash/test_mutations``, which leaves them out one by one."""
    stated = set(re.findall(r"^ ?(\d+)\. ", transaction.__doc__ or "", re.MULTILINE))
    assert len(stated) == 11
    text = (Path(transaction.__file__).parents[2] / f"{module}.py").read_text()
    for line in re.findall(r"^ +\S*\.(?:sync\(\)|write_record\(record\)).*$", text, re.MULTILINE):
        named = re.search(r"# invariants? ([\d, and]+)", line)
        assert named, f"{module}: {line.strip()}"
        assert set(re.findall(r"\d+", named[1])) <= stated, line


@pytest.mark.parametrize(("page", "count"), [("design/overview.md", 20), ("contributing.md", 5)])
def test_each_name_in_a_module_is_there(page: str, count: int) -> None:
    steps = re.findall(r"`([a-z_/]+):([A-Za-z_.]+)`", (DESIGN.parent / page).read_text())
    assert len(steps) > count
    for module, name in steps:
        found: object = importlib.import_module(f"asdffs.{module.replace('/', '.')}")
        for part in name.split("."):
            assert hasattr(found, part), f"{module}:{name}"
            found = getattr(found, part)


def test_each_module_that_the_overview_names_is_there() -> None:
    table = (DESIGN / "overview.md").read_text().partition("## Where do I change")[2]
    package = Path(asdffs.__file__).parent
    for module in re.findall(r"`([a-z_]+(?:/[a-z_]+)*)`", table):
        assert (package / module).is_dir() or (package / f"{module}.py").exists() or module == "watch", module


def test_the_picture_has_the_floors_of_the_contract() -> None:
    text = (DESIGN / "overview.md").read_text()
    config = tomllib.loads((DESIGN.parents[1] / "pyproject.toml").read_text())
    layers = config["tool"]["importlinter"]["contracts"][0]["layers"]
    picture = "\n" + text.partition("```\n")[2].partition("```")[0]
    places = [picture.index(f"\n   {layer.split()[0]}") for layer in layers[1:-3]]
    assert places == sorted(places)


def test_only_cli_names_commands_and_options() -> None:
    """In strings that users read; docstrings may say what something is for."""
    package = Path(asdffs.__file__).parent
    for path in sorted(package.rglob("*.py")):
        if path.is_relative_to(package / "cli") or path.parent.name == "commands":
            continue
        tree = ast.parse(path.read_text())
        documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
                assert not re.search(r"'asdffs [a-z]|(?:^|\s)-o [a-z]|--force", node.value), f"{path}: {node.value}"


def test_each_remedy_has_words() -> None:
    assert set(WORDS) == set(Remedy)
    error = NotPermittedError("it is so", path="/x", block=3, remedy=Remedy.RECOMPRESS)
    assert sentence_of(error) == "/x: block 3: it is so; 'asdffs block /x 3 --compression zlib' stores them otherwise"
