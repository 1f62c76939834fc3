"""What the pages about the design say is so."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from asdffs import relief
from asdffs.document.blocks import transaction
from asdffs.relief import Alone, Exclusive, Rank

DESIGN = Path(__file__).parents[2] / "docs/design"


def test_the_table_of_locks_has_the_ranks_in_their_order() -> None:
    rows = re.findall(r"^\| ([A-Z]+) \| ", (DESIGN / "concurrency.md").read_text(), re.MULTILINE)
    assert rows == [rank.name for rank in Rank]


def test_another_order_of_locks_is_an_error() -> None:
    upper, lower, again = Exclusive(Alone(), Rank.BLOCK), Exclusive(Alone(), Rank.FILE), Exclusive(Alone(), Rank.FILE)
    with upper.entered(), lower.entered():
        pass
    for other in (upper, again):
        with lower.entered(), pytest.raises(RuntimeError, match="is entered under FILE"), other.entered():
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
    assert relief._checked


#: Where every change of a file is made durable.
DURABLE = [
    *("document/blocks/transaction", "document/blocks/steps", "storage/insert", "storage/shift", "storage/replace"),
    *("storage/payload", "storage/recovery", "storage/unfinished", "storage/journal", "storage/open_file"),
]


@pytest.mark.parametrize("module", DURABLE)
def test_each_sync_and_each_record_names_its_invariants(module: str) -> None:
    """That each is needed is shown by ``crash/test_mutations``, which leaves them out one by one."""
    stated = set(re.findall(r"^ ?(\d+)\. ", transaction.__doc__ or "", re.MULTILINE))
    assert len(stated) == 12
    text = (Path(transaction.__file__).parents[2] / f"{module}.py").read_text()
    for line in re.findall(r"^ +\S*\.(?:sync\(\)|write_record\(record\)).*$", text, re.MULTILINE):
        named = re.search(r"# invariants? ([\d, and]+)", line)
        assert named, f"{module}: {line.strip()}"
        assert set(re.findall(r"\d+", named[1])) <= stated, line
