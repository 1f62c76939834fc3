"""Finds files by a condition on their values: in a catalogue, and in the files of which it does not know enough.

A catalogue has most scalars of each file.  ``_Columns`` says of each value what it is, that it is missing, or that
the catalogue does not know it (``Mark``).  A file is read only if the answer depends on a value of the last kind.
"""

from __future__ import annotations

import functools
import itertools
import logging
import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from asdffs.document.scanning import footprint_in
from asdffs.errors import AsdffsError
from asdffs.failures import Failure, attempt
from asdffs.features.catalog.catalog import Catalog
from asdffs.features.catalog.cells import ranges_meeting
from asdffs.storage.urls import RemoteOptions
from asdffs.tree.comparing import MISSING, Mark
from asdffs.tree.conditions import Condition
from asdffs.tree.lookups import Values, plain
from asdffs.tree.paths import Path, format_path, item_number
from asdffs.workflows.ahead import looks_at_texts

logger = logging.getLogger(__name__)

#: The most steps of a path that may be a key or a number of an item; each of them doubles the names to look up.
_MOST_NUMBERS: Final = 6


class Match(NamedTuple):
    """A file for which the condition holds, or may hold, and its values at the paths that were asked for.

    ``certain``: whether it holds, and all values are known.
    """

    path: bytes
    values: list[Any]
    certain: bool = True


class Found(NamedTuple):
    """The files for which a condition holds, and those that had to be read and could not, with the reason."""

    matches: list[Match]
    failures: list[tuple[str, AsdffsError | OSError]]


def find(
    catalog: Catalog,
    condition: Condition | None,
    roots: Sequence[bytes],
    wanted: Sequence[Path],
    remote: RemoteOptions | None = None,
    note: Callable[[int, int], None] = lambda done, total: None,
) -> Found:
    """Return the files below ``roots`` for which ``condition`` holds, sorted by path.

    ``wanted``: the values to return, as Python values, ``MISSING`` where a file has none.  Without roots, all files
    of the catalogue.  ``remote``: settings for remote files.  ``note(done, total)`` is called with numbers of files
    that are read.  Raises ``StorageError``.
    """
    known = sorted(candidates(catalog, condition, roots, wanted), key=_path)
    unsure = [os.fsdecode(match.path) for match in known if not match.certain]
    matches = [match for match in known if match.certain]
    failures: list[tuple[str, AsdffsError | OSError]] = []

    def look(text: bytes) -> list[Any] | None:
        values = Values(text)
        holds = condition is None or values.hold(condition, functools.partial(footprint_in, text))
        return [_value(values, path) for path in wanted] if holds else None

    logger.info("%s: %d files are read, of which it does not know enough", catalog.path, len(unsure))
    for done, (name, work) in enumerate(looks_at_texts(unsure, remote or RemoteOptions(), look)):
        note(done, len(unsure))
        found = attempt(work)
        if isinstance(found, Failure):
            failures.append((name, found.error))
        elif found is not None:
            matches.append(Match(os.fsencode(name), found))
    return Found(sorted(matches, key=_path) if unsure else matches, failures)


def candidates(
    catalog: Catalog, condition: Condition | None, roots: Sequence[bytes], wanted: Sequence[Path] = ()
) -> Iterator[Match]:
    """Yield the files below ``roots`` for which ``condition`` holds, or may hold; see ``find``.

    What was looked at for this is logged.
    """
    chunks = columns = 0
    chunks_with = functools.cache(catalog.chunks_with)
    circles = condition.circles if condition is not None else ()
    footprints = catalog.footprints(ranges_meeting(circles)) if circles else {}
    for chunk, count in catalog.chunks():
        here = _Columns(catalog, chunk, count, chunks_with, footprints.get(chunk, {}))
        held = condition.holds_each(here) if condition is not None else [True] * count
        places = [place for place in range(count) if held[place] is not False]
        values = [here(path) for path in wanted] if places else []
        for path, place in catalog.files_at(chunk, places, roots) if places else ():
            row = [column[place] for column in values]
            certain = held[place] is True and (not row or not any(isinstance(value, Mark) for value in row))
            yield Match(path, row, certain)
        chunks, columns = chunks + 1, columns + here.read
    near = f", {sum(map(len, footprints.values()))} footprints nearby" if circles else ""
    logger.info("%s: %d columns were read of %d pieces%s", catalog.path, columns, chunks, near)


_path: Final = operator.attrgetter("path")


def _value(values: Values, path: Path) -> Any:
    found = values.find(path)
    return MISSING if found is None else plain(found)


class _Columns:
    """The values of the ``count`` files of a chunk at each path, and what the catalogue does not know of them.

    ``chunks_with``: as of ``Catalog``.  ``placed``: the footprints, by the place of their file, that may be on the
    part of the sky in question.  ``read``: how many columns were read.  See ``conditions.Columns``.
    """

    def __init__(
        self,
        catalog: Catalog,
        chunk: int,
        count: int,
        chunks_with: Callable[[str], dict[int, bool]],
        placed: Mapping[int, str],
    ) -> None:
        self._catalog = catalog
        self._chunk = chunk
        self._count = count
        self._chunks_with = chunks_with
        self._placed = placed
        self._known: dict[Path, list[Any]] = {}
        self.read = 0

    def __call__(self, path: Path) -> list[Any]:
        found = self._known.get(path)
        if found is None:
            found = self._known[path] = self.at(path)
        return found

    def footprints(self) -> list[str]:
        return [self._placed.get(place, "") for place in range(self._count)]

    def at(self, path: Path) -> list[Any]:
        """Return the values at ``path``, and ``UNKNOWN`` where there may be one all the same."""
        there = [name for name in names_of(path) if self._chunk in self._chunks_with(name)]
        columns = [self._catalog.column(name, self._chunk, self._count) for name in there]
        self.read += len(columns)
        found = columns[0] if columns else [MISSING] * self._count
        for more in columns[1:]:
            _fill(found, more)
        for length, step in enumerate(path):
            for name in names_of(path[:length]):
                if self._chunks_with(name).get(self._chunk):
                    _mark(found, self._catalog.column(name, self._chunk, self._count), Mark.LEFT_OUT)
            if (item_number(step) or 0) < 0:  # only the file knows how long the list is
                _mark(found, self.at(path[:length]), Mark.FULL)
        if not path or not names_of(path):
            _mark(found, [MISSING] * self._count, MISSING)
        return found


@functools.lru_cache(maxsize=1 << 8)
def names_of(path: Path) -> list[str]:
    """Return how the catalogue may call ``path``, whose numbers are items or keys; none if these are too many."""
    numbers = list(map(item_number, path))
    ways = [(step,) if number is None else (number, str(step)) for step, number in zip(path, numbers, strict=True)]
    if sum(number is not None for number in numbers) > _MOST_NUMBERS:
        return []
    return [format_path(steps) for steps in itertools.product(*ways)]


def _fill(here: list[Any], values: Sequence[Any]) -> None:
    """Add ``values`` to ``here`` where nothing is."""
    here[:] = [other if one is MISSING else one for one, other in zip(here, values, strict=True)]


def _mark(here: list[Any], others: Sequence[Any], sign: object) -> None:
    """Mark as unknown what is missing in ``here`` where ``others`` have ``sign``."""
    here[:] = [
        Mark.UNKNOWN if one is MISSING and other is sign else one for one, other in zip(here, others, strict=True)
    ]
