"""Compares small files of every kind with their own libraries, and writes the table of docs/conformance.md.

A row for each kind, a column for each view (``tests/support/kinds_compare``).  Exits with 1 if anything differs.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.kinds import LIBRARIES
from support.kinds_compare import EQUAL, NOTHING, VIEWS, compare, rows_of

PAGE = Path(__file__).parents[1] / "docs/conformance.md"
MARKS = ("<!-- kinds: begin -->", "<!-- kinds: end -->")


def main(folder: str) -> int:
    """Compare all kinds of the installed libraries; return the exit code."""
    warnings.simplefilter("ignore")
    reasons: dict[str, int] = {}
    lines = ["| kind | " + " | ".join(VIEWS) + " |", "|---" * (len(VIEWS) + 1) + "|"]
    wrong = 0
    for library, kinds in LIBRARIES.items():
        if importlib.util.find_spec(library) is None:
            print(f"{library} is not installed")
            continue
        for name, make in kinds().items():
            place = Path(folder) / name.replace(" ", "_")
            place.mkdir(parents=True)
            path = place / ("a.fits" if library == "stdatamodels" else "a.asdf")
            make(path)
            cells = [*rows_of(compare(path, place))]
            wrong += sum(cell.startswith("DIFFERENT") for cell in cells)
            noted = [cell if cell in (EQUAL, NOTHING) else f"[{_number(cell, reasons)}]" for cell in cells]
            lines.append(f"| {name} | " + " | ".join(noted) + " |")
            print(name, *(cell for cell in cells if cell.startswith("DIFFERENT")), sep="\n    ")
    lines += ["", *(f"[{number}] {reason}" for reason, number in reasons.items())]
    before, _, rest = PAGE.read_text().partition(MARKS[0])
    PAGE.write_text(before + "\n".join([MARKS[0], *lines, MARKS[1]]) + rest.partition(MARKS[1])[2])
    return 1 if wrong else 0


def _number(reason: str, reasons: dict[str, int]) -> int:
    return reasons.setdefault(reason, len(reasons) + 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
