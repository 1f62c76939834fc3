"""Finds files in a catalogue by a condition on their values, without opening them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from asdffs.errors import UsageError
from asdffs.tree.conditions import MISSING, Condition
from asdffs.tree.paths import Path, format_path
from asdffs.workflows.catalog.chunks import Collection
from asdffs.workflows.catalog.store import Catalog


class Match(NamedTuple):
    """A file for which the condition holds, and its values at the paths that were asked for."""

    path: bytes
    values: list[Any]


def find(
    catalog: Catalog, condition: Condition | None, roots: Sequence[bytes], wanted: Sequence[Path]
) -> list[Match]:
    """Return the files below ``roots`` for which ``condition`` holds, sorted by path.

    ``wanted``: the values to return, ``MISSING`` where a file has none.  Without roots, all files of the catalogue.
    Raises ``UsageError`` for a path that a catalogue does not have, ``StorageError``.
    """
    asked = {*wanted, *(condition.paths() if condition is not None else ())}
    columns = {path: _column(catalog, path) for path in asked}
    found: list[Match] = []
    for chunk, count in catalog.chunks():
        here = {path: values[chunk] for path, values in columns.items() if chunk in values}
        held = condition.holds_each(here, count) if condition is not None else [True] * count
        places = [place for place in range(count) if held[place]]
        for path, place in catalog.files_at(chunk, places, roots) if places else ():
            found.append(Match(path, [here[one][place] if one in here else MISSING for one in wanted]))
    found.sort(key=lambda match: match.path)
    return found


def candidates(catalog: Catalog, condition: Condition, roots: Sequence[bytes]) -> list[bytes]:
    """Return the files below ``roots`` for which ``condition`` holds, or may hold: sorted paths.

    It may hold where the catalogue left out what the condition asks for.  Raises as ``find``.
    """
    found = {match.path for match in find(catalog, condition, roots, [])}
    asked = [format_path(path) for path in condition.paths()]
    for path, names in catalog.left_out(roots):
        if any(_is_below(one, name) for one in asked for name in names):
            found.add(path)
    return sorted(found)


def _is_below(path: str, name: str) -> bool:
    """Return whether ``path`` is ``name`` or below it; everything is below the root, ``.``."""
    return name in (".", path) or path.startswith((f"{name}.", f"{name}["))


def _column(catalog: Catalog, path: Path) -> dict[int, list[Any]]:
    """Return the values at ``path``: chunk -> values.  A mapping or a list counts as a value that is not empty."""
    if any(isinstance(step, int) and step < 0 for step in path):
        raise UsageError(f"{format_path(path)}: a catalogue has no numbers from the end of a list")
    name = format_path(path)
    found = catalog.columns(name)
    below = catalog.names_below(name)
    left = {chunk: found.get(chunk, [MISSING] * count).count(MISSING) for chunk, count in catalog.chunks() if below}
    for one in below:
        if not any(left.values()):  # every file has something there: to read the other columns takes long
            break
        for chunk, values in catalog.columns(one).items():
            left[chunk] -= _fill(found.setdefault(chunk, [MISSING] * len(values)), values)
    return found


def _fill(here: list[Any], values: Sequence[Any]) -> int:
    """Note in ``here`` the files that have one of ``values``, and return how many were not noted before."""
    new = [n for n, value in enumerate(values) if value is not MISSING and here[n] is MISSING]
    for number in new:
        here[number] = Collection.MORE
    return len(new)
