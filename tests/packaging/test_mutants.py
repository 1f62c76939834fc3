"""The table of ``scripts/mutants`` fits the code; the script itself runs the tests that it names."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutants import MUTANTS, ROOT, SHORT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name)
def test_the_text_of_each_mutant_is_there_once(mutant: Mutant) -> None:
    compile(mutant.text(ROOT), mutant.file, "exec")
    assert all((ROOT / test).is_file() for test in mutant.tests)


def test_names_are_different_and_the_selection_is_that_of_the_short_run() -> None:
    assert len({one.name for one in MUTANTS}) == len(MUTANTS)
    assert f'short="{SHORT}"' in (ROOT / "scripts/test").read_text()


def test_a_table_that_aged_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n")
    for old in ("x = 1", "x = 2"):
        with pytest.raises(ValueError, match=r"a.py has the text of name [02] times; mend scripts/mutants.py"):
            Mutant("name", "a.py", old, "", ()).text(tmp_path)
