"""What the pages about the design say is so."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from asdffs import relief
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
