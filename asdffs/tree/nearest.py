"""Finds what a user probably meant by a path that is not in the tree."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Final

from asdffs.tree.paths import Path
from asdffs.tree.tape import MAPPINGS, SCALAR, SEQUENCES, Tape
from asdffs.tree.values import column_names

#: Values of a tree that are looked at.
_MOST: Final = 20_000
#: How much of a name must be the same (``difflib``).
_ALIKE: Final = 0.75


def nearest(tape: Tape, path: Path) -> Path | None:
    """Return the path in the tree that is most like ``path``; None if none is.

    First one that ends with ``path``; then one that has its steps in this order, the last one last; then one whose
    last step is spelled alike, in the same mapping.  Of several the shortest.
    """
    found: list[tuple[int, int, Path]] = []
    if path:
        for other in _paths(tape):
            rank = _rank(path, other)
            if rank is not None:
                found.append((rank, len(other), other))
    return min(found, key=lambda one: one[:2])[2] if found else None


def _rank(path: Path, other: Path) -> int | None:
    if other[-1] == path[-1]:
        if other[-len(path) :] == path:
            return 0
        steps = iter(other)
        return 1 if all(step in steps for step in path) else None
    if other[:-1] != path[:-1] or not isinstance(path[-1], str) or not isinstance(other[-1], str):
        return None
    alike = difflib.SequenceMatcher(None, path[-1].lower(), other[-1].lower()).ratio()
    return 2 if alike >= _ALIKE else None


def _paths(tape: Tape) -> Iterator[Path]:
    """Yield the paths of the first values of the tree, those of fewer steps first."""
    rest: list[tuple[Path, int, int]] = [((), 0, 0)] if len(tape.kind) else []
    count = 0
    while rest:
        following: list[tuple[Path, int, int]] = []
        for path, row, above in rest:
            for step, child in _children(tape, row, path, above):
                count += 1
                if count > _MOST:
                    return
                yield (*path, step)
                following.append(((*path, step), child, row))
        rest = following


def _children(tape: Tape, row: int, path: Path, above: int) -> Iterator[tuple[str | int, int]]:
    """Yield the steps to the values in a row, and their rows; ``above``: the row in which it is."""
    if tape.kind[row] in SEQUENCES:
        columns = path[-1:] == ("columns",) and tape.kind[above] in MAPPINGS
        names = dict(enumerate(column_names(tape, above))) if columns else {}
        for number, item in enumerate(tape.items(row)):
            yield names.get(number) or number, item
    elif tape.kind[row] in MAPPINGS:
        for key, value in tape.pairs(row):
            if tape.kind[key] == SCALAR:
                yield tape.scalar(key), value
