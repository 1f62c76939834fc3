"""All scalars of a tree by their paths, and its arrays: what a catalogue of many files keeps of each.

What is kept is limited, whatever the text says: an alias may make a small text very large.  Pure.
"""

from __future__ import annotations

import functools
from typing import Any, Final, NamedTuple

from asdffs.arrays.ndarrays import Ndarray, ndarray_of
from asdffs.dialects.base import Dialect
from asdffs.limits import DEPTH, INDEXED
from asdffs.tree.paths import Path, format_path
from asdffs.tree.syntax import nested_too_deep
from asdffs.tree.tagged import Facts, Found
from asdffs.tree.tape import MAPPINGS, SCALAR, Tape
from asdffs.tree.values import MERGE, OMAP, UNTOLD, Merges, entry_rows, keyed, scalar_value, written_value

#: A list with more items is data, not metadata.
LONGEST_LIST: Final = 100
#: Characters of the longest text.
LONGEST_TEXT: Final = 1 << 16


class Scalars(NamedTuple):
    """``values``: dotted path -> value, as ``format_path`` writes paths.  ``arrays``: the ndarrays.

    ``empty``, ``full``: dotted paths of lists and mappings, without and with content.  ``left_out``: of lists and
    texts that are too long; ``.`` if there are too many scalars.
    """

    values: dict[str, Any]
    arrays: list[Ndarray]
    empty: list[str]
    full: list[str]
    left_out: list[str]


def read_scalars(text: bytes, dialect: Dialect) -> Scalars:
    """Return the scalars and arrays of a text of header, comments and tree.  Raises ``InvalidTreeError``."""
    return scalars_of(Tape(text), dialect)


def scalars_of(tape: Tape, dialect: Dialect) -> Scalars:
    """Return the scalars and arrays of the tree on ``tape``.  Raises ``InvalidTreeError``."""
    found = Scalars({}, [], [], [], [])
    if tape.kind:
        _Walk(tape, dialect, found).visit(0, "", ())
    return found


class _Walk:
    """One walk over the rows of a tree."""

    def __init__(self, tape: Tape, dialect: Dialect, found: Scalars) -> None:
        self._tape = tape
        self._dialect = dialect
        self._found = found
        self._facts = Facts(tape, frozenset({"data"}))
        self._merges = Merges()
        self._left = INDEXED

    def visit(self, row: int, name: str, path: Path) -> None:
        """Add the scalars and arrays of a row.  ``path``: its place; ``name``: the same in writing."""
        tape, found = self._tape, self._found
        self._left -= 1
        if self._left <= 0:
            if not self._left:
                found.left_out.append(".")
            return
        row = tape.target(row)
        kind = tape.kind[row]
        if kind == SCALAR:
            value = scalar_value(tape, row)
            if type(value) is str and len(value) > LONGEST_TEXT:
                found.left_out.append(name)
            elif name:
                found.values[name] = value
        elif tape.next[row] == row + 1:
            found.empty.extend([name] if name else [])
        elif tape.tags.get(row) == OMAP:
            found.left_out.append(name)  # its values are found by keys and by numbers, which only the file tells
        elif len(path) > DEPTH:
            raise nested_too_deep(tape.line(row))
        elif kind in MAPPINGS:
            self._visit_mapping(row, name, path)
        else:
            self._visit_list(row, name, path)

    def _visit_mapping(self, row: int, name: str, path: Path) -> None:
        tape, tag = self._tape, self._tape.tags.get(row)
        if tag and self._dialect.is_ndarray(tag):
            facts = Found(path, tag, self._facts.mapping(row), tape.line(row))
            self._found.arrays.append(ndarray_of(facts, self._dialect))
            return
        entries = {key: value for key, _, value in keyed(tape, row)}
        if MERGE in entries:  # or a quoted '<<', for which this is right as well
            entries = entry_rows(tape, row, self._merges)
        text, start, end, kinds, values = tape.text, tape.start, tape.end, tape.kind, self._found.values
        lead = f"{name}." if name else ""
        for key, below in entries.items():
            value = UNTOLD
            if kinds[below] == SCALAR and self._left > 1:  # as in ``visit``, without the call: most values are such
                word = text[start[below] : end[below]]
                value = _known(word) if len(word) < _SHORT else UNTOLD
            if value is UNTOLD:
                self.visit(below, lead + step_of(key), (*path, key))
            else:
                self._left -= 1
                values[lead + step_of(key)] = value
        self._found.full.extend([name] if name else [])

    def _visit_list(self, row: int, name: str, path: Path) -> None:
        items = list(self._tape.items(row))
        if len(items) > LONGEST_LIST:
            self._found.left_out.append(name)
            return
        for number, item in enumerate(items):
            self.visit(item, f"{name}[{number}]", (*path, number))
        self._found.full.extend([name] if name else [])


#: Scalars of fewer characters are remembered: few different ones come again and again.
_SHORT: Final = 64
_known = functools.lru_cache(maxsize=1 << 14)(written_value)


@functools.lru_cache(maxsize=1 << 12)
def step_of(key: str) -> str:
    """Return a key as a step of a dotted path."""
    return format_path((key,))
