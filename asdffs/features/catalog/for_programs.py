"""The catalogue for Python programs: ``asdffs.find``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from asdffs.document.scanning import naming
from asdffs.features.catalog.indexing import Way, update
from asdffs.features.catalog.places import catalog_of, roots_of
from asdffs.features.catalog.query import Match, find
from asdffs.features.catalog.store import open_catalog
from asdffs.tree.conditions import MISSING, parse_condition
from asdffs.tree.paths import parse_path


def find_files(
    condition: str | None, places: Sequence[str], columns: Sequence[str], catalog: str | None, *, fresh: bool
) -> tuple[list[str], dict[str, list[Any]]]:
    """Return the files for which ``condition`` holds, sorted, and the values of each column; see ``asdffs.find``.

    A file that has no such value has None.  Raises what kept a file from being read whose values are not known.
    """
    path, roots = catalog_of(catalog), roots_of(places)
    wanted = [parse_path(column) for column in columns]
    if fresh:
        with open_catalog(path, writable=True) as opened:
            update(opened, roots, Way(1), lambda done, total: None)
    with open_catalog(path, writable=False) as opened:
        found = find(opened, None if condition is None else parse_condition(condition), roots, wanted)
    for name, err in found.failures:
        with naming(name):
            raise err
    values = _transposed(found.matches, len(columns))
    return [os.fsdecode(match.path) for match in found.matches], dict(zip(columns, values, strict=True))


def _transposed(found: Sequence[Match], count: int) -> list[list[Any]]:
    rows = ([None if value is MISSING else value for value in match.values] for match in found)
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(count)]
