"""Finds the collections of a tree that have certain tags, and reads them as dicts, lists, texts and integers.

Aliases and merge keys in them are resolved.  Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from asdffs.errors import InvalidTreeError
from asdffs.limits import DEPTH, REPLAYED
from asdffs.tree.paths import Path
from asdffs.tree.syntax import nested_too_deep
from asdffs.tree.tape import ALIAS, MAPPINGS, SCALAR, Tape
from asdffs.tree.values import MERGE, keyed, merged_rows, scalar_value


class Found(NamedTuple):
    """A collection with a wanted tag.

    ``path``: keys and numbers from the root.  ``value``: the content of a mapping as dict, list, str and int, with
    None for the value of a key in ``skip``; None for a sequence.  ``line``: from 1, in the text.
    """

    path: Path
    tag: str
    value: Any
    line: int


def find_tagged(tape: Tape, wanted: Callable[[str], bool], skip: frozenset[str] = frozenset()) -> Iterator[Found]:
    """Yield the collections whose tag is ``wanted``, in the order of the text.  Raises ``InvalidTreeError``."""
    rows = [row for row, tag in tape.tags.items() if tape.kind[row] != SCALAR and wanted(tag)]
    facts = Facts(tape, skip)
    for row, path in paths_to(tape, rows):
        value = facts.mapping(row) if tape.kind[row] in MAPPINGS else None
        yield Found(path, tape.tags[row], value, tape.line(row))


def paths_to(tape: Tape, rows: list[int]) -> Iterator[tuple[int, Path]]:
    """Yield the rows of collections, in ascending order, with their paths; keys are their text."""
    rest = iter(rows)
    wanted = next(rest, -1)
    open_: list[tuple[int, Path, Iterator[tuple[str | int, int]]]] = []
    if wanted == 0:
        yield 0, ()
        wanted = next(rest, -1)
    if wanted > 0:
        open_.append((0, (), _children(tape, 0)))
    while open_ and wanted >= 0:
        _, path, children = open_[-1]
        for key, child in children:
            if wanted < tape.next[child]:
                below = (*path, key)
                if wanted == child:
                    yield child, below
                    wanted = next(rest, -1)
                if child < wanted < tape.next[child]:
                    open_.append((child, below, _children(tape, child)))
                    break
        else:
            open_.pop()


def _children(tape: Tape, row: int) -> Iterator[tuple[str | int, int]]:
    if tape.kind[row] not in MAPPINGS:
        return iter(enumerate(tape.items(row)))
    return ((name, value) for name, _, value in keyed(tape, row))


class Facts:
    """Reads collections of one tape as dicts, lists, texts and integers.  ``skip``: keys whose value is not read."""

    def __init__(self, tape: Tape, skip: frozenset[str] = frozenset()) -> None:
        self._tape = tape
        self._skip = skip
        self._aliased = 0

    def at(self, row: int, depth: int = 0) -> Any:
        """Return what a row says.  Raises ``InvalidTreeError`` if aliases make too much of it."""
        tape = self._tape
        if tape.kind[row] == ALIAS:
            row = tape.target(row)
            self.count(row)
        if tape.kind[row] == SCALAR:
            value = scalar_value(tape, row)
            return value if type(value) is int else tape.scalar(row)
        if depth > DEPTH:
            raise nested_too_deep(tape.line(row))
        if tape.kind[row] in MAPPINGS:
            return self.mapping(row, depth)
        return [self.at(item, depth + 1) for item in tape.items(row)]

    def mapping(self, row: int, depth: int = 0) -> dict[str, Any]:
        """Return what a mapping says, with what its merge keys add."""
        tape, found, merged = self._tape, dict[str, Any](), list[int]()
        for name, _, value in keyed(tape, row):
            if name is MERGE:
                merged += merged_rows(tape, value)
                continue
            found[name] = None if name in self._skip else self.at(value, depth + 1)
        for source in merged:
            self.count(source)
            entries = self.mapping(source, depth + 1)
            found |= {name: value for name, value in entries.items() if name not in found}
        return found

    def count(self, row: int) -> None:
        """Count a row that is read again, with all in it.  Raises ``InvalidTreeError`` if there are too many."""
        self._aliased += self._tape.next[row] - row
        if self._aliased > REPLAYED:
            raise InvalidTreeError(
                f"aliases lead to aliases without end: at most {REPLAYED:,} values are read again",
                line=self._tape.line(row),
            )
