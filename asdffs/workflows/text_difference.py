"""Makes a unified diff of two texts, as diff(1) -u prints it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from asdffs.printable import printable

if TYPE_CHECKING:
    from asdffs.document.document import Document


def lines_of(document: Document) -> list[str]:
    """Return the lines of the committed text."""
    return document.tree.text().decode("utf-8", "backslashreplace").removesuffix("\n").split("\n")


def unified(old: list[str], new: list[str], a: str, b: str) -> Iterator[str]:
    """Yield the lines of a unified diff that patch(1) can read.

    ``old``, ``new``: the lines; ``a``, ``b``: the names of the files, which the lines show printable.
    """
    if old == new:
        return
    yield f"--- {printable(a)}"
    yield f"+++ {printable(b)}"
    matcher: Any = difflib.SequenceMatcher(None, (), ())
    matcher.opcodes = _opcodes(old, new)
    for group in matcher.get_grouped_opcodes(3):
        (_, i, _, j, _), (_, _, i_stop, _, j_stop) = group[0], group[-1]
        yield f"@@ -{_range(i, i_stop)} +{_range(j, j_stop)} @@"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (f" {line}" for line in old[i1:i2])
                continue
            yield from (f"-{line}" for line in old[i1:i2])
            yield from (f"+{line}" for line in new[j1:j2])


def _opcodes(old: list[str], new: list[str]) -> list[Any]:
    """Return the opcodes of difflib.  Equal lines at both ends are skipped: difflib is slow for long texts."""
    least = min(len(old), len(new))
    start = next((n for n in range(least) if old[n] != new[n]), least)
    end = next((n for n in range(least - start) if old[-1 - n] != new[-1 - n]), least - start)
    i, j = len(old) - end, len(new) - end
    middle = difflib.SequenceMatcher(None, old[start:i], new[start:j]).get_opcodes()
    found = [(tag, i1 + start, i2 + start, j1 + start, j2 + start) for tag, i1, i2, j1, j2 in middle]
    return [("equal", 0, start, 0, start), *found, ("equal", i, len(old), j, len(new))]


def _range(start: int, stop: int) -> str:
    """Return the range as in a hunk header: lines count from 1; an empty range has the line before it."""
    return f"{start + 1 if stop > start else start},{stop - start}"
