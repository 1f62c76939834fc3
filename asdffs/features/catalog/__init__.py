"""The catalogue of many files: ``asdffs index`` fills it, ``asdffs find`` and ``asdffs.find`` search it.

``walking`` finds files, ``reading`` reads them in worker processes, ``indexing`` brings a catalogue up to date;
``store`` is its tables, which ``catalog`` asks, in a file of ``sqlite``, with ``chunks`` of values and ``cells`` of
the sky; ``query`` answers conditions; ``parquet`` writes datasets.  Here are the functions for programs
(``asdffs.find``) and for other commands (``set --where``).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from asdffs.errors import AsdffsError, NotSupportedError, reason_of

logger = logging.getLogger(__name__)


def find_files(
    condition: str | None, places: Sequence[str], columns: Sequence[str], catalog: str | None, *, fresh: bool
) -> tuple[list[str], dict[str, list[Any]]]:
    """Return the files for which ``condition`` holds, sorted, and the values of each column; see ``asdffs.find``.

    A file that has no such value has None.  Raises what kept a file from being read whose values are not known.
    """
    from asdffs.document.scanning import naming
    from asdffs.features.catalog.commands.index import bring_up
    from asdffs.features.catalog.indexing import Way, update
    from asdffs.features.catalog.query import find
    from asdffs.features.catalog.store import catalog_of, open_catalog
    from asdffs.features.catalog.walking import roots_of
    from asdffs.tree.comparing import MISSING
    from asdffs.tree.conditions import parse_condition
    from asdffs.tree.paths import parse_path

    path, roots = catalog_of(catalog), roots_of(places, gone=not fresh)
    wanted = [parse_path(column) for column in columns]
    if fresh:
        with open_catalog(path, writable=True) as opened:
            update(opened, roots, Way(1), lambda done, total: None)
    else:
        bring_up(path, roots, Way(1))
    with open_catalog(path, writable=False) as opened:
        found = find(opened, None if condition is None else parse_condition(condition), roots, wanted)
    for name, err in found.failures:
        with naming(name):
            raise err
    rows = [[None if value is MISSING else value for value in match.values] for match in found.matches]
    values = {column: [row[number] for row in rows] for number, column in enumerate(columns)}
    return [os.fsdecode(match.path) for match in found.matches], values


def __getattr__(name: str) -> Any:
    if name != "scan":
        raise AttributeError(f"module 'asdffs.features.catalog' has no attribute {name!r}")
    try:
        from asdffs.features.catalog.scanning import scan
    except ModuleNotFoundError as err:
        sentence = f"asdffs.scan needs {err.name}, which is not installed: pip install 'asdffs[parquet]'"
        raise NotSupportedError(sentence) from err
    return scan


class Listing(NamedTuple):
    """The files for which a condition holds, by path.

    ``values`` has a row for each file, with None where it lacks a column.  ``footprints`` maps a file to its region
    of the sky, if it is known (``arrays/footprints``).  ``failures`` are files that could not be read, and why.
    """

    files: list[str]
    values: list[list[Any]]
    footprints: dict[str, str]
    failures: list[tuple[str, str]]


def list_files(condition: str | None, places: Sequence[str], columns: Sequence[str], catalog: str | None) -> Listing:
    """Return what the catalogue has of the files below ``places``.  Raises ``UsageError``, ``StorageError``."""
    from asdffs.features.catalog.query import find
    from asdffs.features.catalog.store import catalog_of, open_catalog
    from asdffs.features.catalog.walking import roots_of
    from asdffs.tree.comparing import MISSING
    from asdffs.tree.conditions import parse_condition
    from asdffs.tree.paths import parse_path

    path, roots = catalog_of(catalog), roots_of(places, gone=True)
    parsed = None if condition is None else parse_condition(condition)
    with open_catalog(path, writable=False) as opened:
        found = find(opened, parsed, roots, [parse_path(column) for column in columns])
        rows = [row for chunk, _ in opened.chunks() for row in opened.rows_of("files", chunk, roots)]
    footprints = {os.fsdecode(row[0]): row[-1] for row in rows if row[-1] and not row[-1].startswith("?")}
    values = [[None if value is MISSING else value for value in match.values] for match in found.matches]
    failures = [(name, reason_of(err)) for name, err in found.failures]
    return Listing([os.fsdecode(match.path) for match in found.matches], values, footprints, failures)


def bring_up_to_date(catalog: str | None, places: Sequence[str]) -> None:
    """Index what changed below ``places``, with a progress bar.  Raises as ``indexed``."""
    from asdffs.features.catalog.commands.index import indexed
    from asdffs.features.catalog.store import catalog_of
    from asdffs.features.catalog.walking import roots_of

    indexed(catalog_of(catalog), roots_of(places))


def selected_files(catalog: str | None, directories: Sequence[str], where: str) -> list[str]:
    """Return the files below ``directories`` for which ``where`` may hold, sorted, after indexing what changed.

    ``catalog``: its file, or None for the usual one.  Raises ``UsageError``, and as ``indexed``.
    """
    from asdffs.features.catalog.commands.index import indexed, tell_unread
    from asdffs.features.catalog.query import candidates
    from asdffs.features.catalog.store import catalog_of, open_catalog
    from asdffs.features.catalog.walking import Walk, roots_of
    from asdffs.tree.conditions import parse_condition

    path, roots = catalog_of(catalog), roots_of(directories)
    condition = parse_condition(where)
    indexed(path, roots)
    there = {file for file, _ in Walk(roots).files()}  # whatever paths the catalogue, which others may write, has now
    with open_catalog(path, writable=False) as opened:
        tell_unread(opened, roots)
        found = [match.path for match in candidates(opened, condition, roots)]
        return sorted(os.fsdecode(file) for file in found if file in there)


def index_again(catalog: str | None, directories: Sequence[str], files: Sequence[str]) -> None:
    """Bring the catalogue up to date with those of ``files`` that are below ``directories``.

    If that is not possible, it is told; the next index does it.
    """
    from asdffs.features.catalog.commands.index import indexed
    from asdffs.features.catalog.store import catalog_of

    inside = [file for file in files if file.startswith(tuple(os.path.join(one, "") for one in directories))]
    path = catalog_of(catalog)
    try:
        indexed(path, [os.fsencode(file) for file in inside])
    except (AsdffsError, OSError) as err:
        logger.warning("%s: has old values of the files that were changed, until the next index: %s", path, err)
