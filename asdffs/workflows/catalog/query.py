"""Finds files by a condition on their values: in a catalogue, and in the files of which it does not know enough.

A catalogue has most scalars of each file.  ``_Columns`` says of each value what it is, that it is missing, or that
the catalogue does not know it (``Mark``).  A file is read only if the answer depends on a value of the last kind.
"""

from __future__ import annotations

import itertools
import operator
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from asdffs.errors import AsdffsError
from asdffs.storage.remote.options import RemoteOptions
from asdffs.tree.conditions import MISSING, Condition, Mark
from asdffs.tree.lookups import Values, plain
from asdffs.tree.paths import Path, format_path, item_number
from asdffs.workflows.ahead import texts
from asdffs.workflows.catalog.store import Catalog

#: The most steps of a path that may be a key or a number of an item; each of them doubles the names to look up.
_MOST_NUMBERS: Final = 6
#: The values at a path: chunk -> one for each place.
_Column = dict[int, list[Any]]


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
    for done, (name, read) in enumerate(texts(unsure, remote or RemoteOptions())):
        note(done, len(unsure))
        try:
            values = Values(read())
            if condition is None or values.hold(condition):
                matches.append(Match(os.fsencode(name), [_value(values, path) for path in wanted]))
        except (AsdffsError, OSError) as err:
            failures.append((name, err))
    return Found(sorted(matches, key=_path) if unsure else matches, failures)


def candidates(
    catalog: Catalog, condition: Condition | None, roots: Sequence[bytes], wanted: Sequence[Path] = ()
) -> Iterator[Match]:
    """Yield the files below ``roots`` for which ``condition`` holds, or may hold; see ``find``."""
    columns = _Columns(catalog)
    for chunk, count in catalog.chunks():
        here = columns.of_chunk(chunk, count)
        held = condition.holds_each(here) if condition is not None else [True] * count
        places = [place for place in range(count) if held[place] is not False]
        values = [here(path) for path in wanted] if places else []
        for path, place in catalog.files_at(chunk, places, roots) if places else ():
            row = [column[place] for column in values]
            certain = held[place] is True and (not row or not any(isinstance(value, Mark) for value in row))
            yield Match(path, row, certain)


_path: Final = operator.attrgetter("path")


def _value(values: Values, path: Path) -> Any:
    found = values.find(path)
    return MISSING if found is None else plain(found)


class _Columns:
    """The values of all files at each path, and what the catalogue does not know of them."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._read: dict[str, _Column] = {}
        self._known: dict[Path, _Column] = {}

    def of_chunk(self, chunk: int, count: int) -> Callable[[Path], Sequence[Any]]:
        """Return the lookup of a condition for the ``count`` files of a chunk."""
        nothing = [MISSING] * count
        return lambda path: self._at(path).get(chunk, nothing)

    def _at(self, path: Path) -> _Column:
        found = self._known.get(path)
        if found is None:
            found = self._known[path] = self._stored(path)
            self._doubt(path, found)
        return found

    def _stored(self, path: Path) -> _Column:
        """Return the values at a path; a mapping or list whose content is in other columns is ``FULL``."""
        found: _Column = {}
        for name in _names(path):
            for chunk, values in self._column(name).items():
                _fill(found.setdefault(chunk, list(values)), values)
        below = [one for name in _names(path) for one in self._catalog.names_below(name)]
        left = {chunk: found.get(chunk, [MISSING] * count).count(MISSING) for chunk, count in self._chunks(below)}
        for one in below:
            if not any(left.values()):  # every file has something there: to read the other columns takes long
                break
            for chunk, values in self._catalog.columns(one).items():
                here = found.setdefault(chunk, [MISSING] * len(values))
                left[chunk] -= _fill(here, [MISSING if value is MISSING else Mark.FULL for value in values])
        return found

    def _chunks(self, wanted: object) -> list[tuple[int, int]]:
        return self._catalog.chunks() if wanted else []

    def _doubt(self, path: Path, here: _Column) -> None:
        """Mark as unknown what is missing at ``path`` and may be there all the same."""
        for length, step in enumerate(path):
            for name in _names(path[:length]):
                _mark(here, self._column(name), Mark.LEFT_OUT)
            if (item_number(step) or 0) < 0:  # only the file knows how long the list is
                _mark(here, self._at(path[:length]), Mark.FULL)
        if not path or not _names(path):
            _mark(here, {chunk: [MISSING] * count for chunk, count in self._catalog.chunks()}, MISSING)

    def _column(self, name: str) -> _Column:
        if name not in self._read:
            self._read[name] = self._catalog.columns(name)
        return self._read[name]


def _names(path: Path) -> list[str]:
    """Return how the catalogue may call ``path``, whose numbers are items or keys; none if these are too many."""
    numbers = list(map(item_number, path))
    ways = [(step,) if number is None else (number, str(step)) for step, number in zip(path, numbers, strict=True)]
    if sum(number is not None for number in numbers) > _MOST_NUMBERS:
        return []
    return [format_path(steps) for steps in itertools.product(*ways)]


def _fill(here: list[Any], values: Sequence[Any]) -> int:
    """Add ``values`` to ``here`` where nothing is, and return how many these are."""
    if MISSING not in here:
        return 0
    new = [n for n, value in enumerate(values) if value is not MISSING and here[n] is MISSING]
    for number in new:
        here[number] = values[number]
    return len(new)


def _mark(here: _Column, others: _Column, sign: object) -> None:
    """Mark as unknown what is missing in ``here`` where ``others`` have ``sign``."""
    for chunk, values in others.items():
        if sign in values:
            known = here.get(chunk, [MISSING] * len(values))
            pairs = zip(known, values, strict=True)
            here[chunk] = [Mark.UNKNOWN if one is MISSING and other is sign else one for one, other in pairs]
