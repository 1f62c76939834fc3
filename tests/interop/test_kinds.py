"""Small files of every kind: each view has what the library of the file reads, or a reason is known.

``scripts/interop --kinds`` does the same with all libraries; here are those that are installed.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from support.kinds import LIBRARIES, Make
from support.kinds_compare import EQUAL, NOTHING, compare

pytestmark = pytest.mark.mount

INSTALLED = {name: kinds() for name, kinds in LIBRARIES.items() if importlib.util.find_spec(name) is not None}
CASES = [pytest.param(make, library, id=name) for library, kinds in INSTALLED.items() for name, make in kinds.items()]
#: Why a view has not what the library reads.
REASONS = (
    "FITS has no such image",
    "letters that take more bytes than the column has characters are ?",
    "a FITS WCS would be wrong by",
)


@pytest.mark.feature("fits")
@pytest.mark.feature("browser")
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("make", "library"), CASES)
def test_each_view_has_what_the_library_reads(make: Make, library: str, tmp_path: Path) -> None:
    path = tmp_path / ("a.fits" if library == "stdatamodels" else "a.asdf")
    make(path)
    cells = compare(path, tmp_path)
    wrong = {view: cell for view, cell in cells.items() if not cell.startswith((EQUAL, NOTHING, *REASONS))}
    assert not wrong


def test_libraries_that_are_not_installed_are_named() -> None:
    """So that nobody takes a short run for a whole one."""
    missing = sorted(LIBRARIES.keys() - INSTALLED.keys())
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}; scripts/interop --kinds has them all")
