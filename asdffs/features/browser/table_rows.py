"""The rows of a table as the page shows them: sorted by a column, chosen by a condition, a part at a time.

A condition is written as for ``asdffs find``, with the names of columns.  To sort or choose, the columns that it
names are read whole, up to ``LARGEST`` bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from asdffs.document.arrays.tables import Column, Rows, Table, table_at
from asdffs.document.document import Document
from asdffs.errors import MissingValueError, UsageError
from asdffs.features.browser.cells import for_people
from asdffs.features.browser.naming import find_array, find_table
from asdffs.features.browser.session import Session
from asdffs.tree.comparing import MISSING
from asdffs.tree.conditions import parse_condition
from asdffs.tree.paths import Path, format_path

#: The largest column that is read whole, in bytes.
LARGEST: Final = 256 << 20
#: The most rows in one answer, and their bytes; large rows are fewer.
MOST: Final = 200
_AT_ONCE: Final = 16 << 20
#: The most rows from which a condition chooses: each cell becomes a Python object.
_CHOSEN: Final = 4_000_000
#: How many orders of rows are kept.
_KEPT: Final = 8


class TableRows:
    """The tables of ``session``, by their paths in the tree."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._order = functools.lru_cache(_KEPT)(self._ordered)

    def page(self, path: str, first: int, sort: str, where: str, *, descending: bool) -> dict[str, Any]:
        """Return at most ``MOST`` rows from number ``first`` on, as texts, and facts about the columns.

        ``sort`` is a column, or empty for the order of the file; ``where`` is a condition, or empty.  ``total``
        counts all rows, ``count`` those that meet the condition, and ``numbers`` are the row numbers of this answer.
        Raises ``UsageError``, ``MissingValueError``.
        """
        version = self._session.version()
        with self._session.entered() as document:
            table, total = self._table(document, path)
            order = self._order(path, sort, where, version, descending=descending) if sort or where else range(total)
            size = max(1, sum(rows.row_size for rows in table.sources))
            most = max(1, min(MOST, _AT_ONCE // size))
            numbers = [int(number) for number in order[max(0, first) : max(0, first) + most]]
            cells = [self._cells(table, column, numbers) for column in table.columns]
        columns = [_facts(column) for column in table.columns]
        rows = [list(row) for row in zip(*cells, strict=True)] if cells else []
        found = {"total": total, "count": len(order), "first": first, "numbers": numbers}
        return found | {"columns": columns, "rows": rows, "left": table.left}

    def units(self, path: str) -> dict[str, str]:
        """Return the unit of each column by its name.  Raises as ``page``."""
        with self._session.entered() as document:
            return {column.name: column.unit for column in self._table(document, path)[0].columns}

    def numbers(self, path: str, columns: Sequence[str], most: int, where: str = "") -> np.ndarray[Any, Any]:
        """Return float64 of the shape (1 + columns, rows): the numbers of the rows, and columns; NaN where masked.

        The rows are those that meet ``where``; of more than ``most``, every so-many-th.  Raises as ``page``, and for
        a column without numbers.
        """
        version = self._session.version()
        with self._session.entered() as document:
            table, total = self._table(document, path)
            chosen = self._order(path, "", where, version, descending=False)
            chosen = chosen[:: max(1, -(-len(chosen) // most))]
            found = [chosen.astype("f8")]
            for name in columns:
                column = _column(table, name)
                if column.dtype.kind not in "biuf" or column.shape:
                    raise UsageError(f"{name}: this column has no numbers to draw")
                values, mask = _whole(table, column, total)
                values = values.astype("f8")
                if mask is not None:
                    values[mask] = np.nan
                found.append(values[chosen])
        return np.stack(found)

    def _table(self, document: Document, path: str) -> tuple[Table, int]:
        """Return a table and its number of rows.  Raises ``MissingValueError`` if it is none."""
        place = find_table(document, path, find_array(document, path))
        if place is None:
            raise MissingValueError(f"{path}: there is no such table")
        table = table_at(*place)
        return table, min((rows.count for rows in table.sources), default=0)

    @staticmethod
    def _all(total: int) -> np.ndarray[Any, Any]:
        """Return the numbers of all rows.  Raises ``UsageError`` if they are too many."""
        if total > LARGEST // 8:
            raise UsageError(f"the table has {total:,} rows, too many to sort, choose or draw")
        return np.arange(total, dtype="u4")

    @staticmethod
    def _cells(table: Table, column: Column, numbers: Sequence[int]) -> list[str]:
        """Return the texts of some rows of a column."""
        rows, texts = table.sources[column.source], []
        start = 0
        while start < len(numbers):  # rows that follow each other are read at once
            end = start + 1
            while end < len(numbers) and numbers[end] == numbers[end - 1] + 1:
                end += 1
            values, mask = _read(rows, column, numbers[start], end - start)
            texts += [for_people(value, None if mask is None else mask[row]) for row, value in enumerate(values)]
            start = end
        return texts

    def _ordered(self, path: str, sort: str, where: str, version: str, *, descending: bool) -> Any:
        """Return the numbers of the rows that meet ``where``, in the order of ``sort``; the document is entered."""
        table, total = self._table(self._session.document, path)
        chosen = self._all(total)
        if where.strip():
            if total > _CHOSEN:
                raise UsageError(f"the table has {total:,} rows; a condition chooses from at most {_CHOSEN:,}")
            held = parse_condition(where).holds_each(_ColumnValues(table, total))
            chosen = chosen[np.array([one is True for one in held], bool)]
        if sort:
            column = _column(table, sort)
            if column.shape or column.dtype.kind not in "biufSU":
                raise UsageError(f"{sort}: this column cannot be sorted")
            values, mask = _whole(table, column, total)
            last = np.zeros(total, bool) if mask is None else mask
            last = last | (np.isnan(values) if values.dtype.kind == "f" else False)
            chosen = chosen[_sorted(values[chosen], last[chosen], descending=descending)]
        return chosen


class _ColumnValues:
    """The columns of a table as a condition reads them: each row is what a tree is for ``asdffs find``."""

    def __init__(self, table: Table, total: int) -> None:
        self._table = table
        self._total = total

    def __call__(self, path: Path) -> Sequence[Any]:
        column = _column(self._table, ".".join(map(str, path)) or format_path(path))
        values, mask = _whole(self._table, column, self._total)
        found = [one.decode("latin-1") if isinstance(one, bytes) else one for one in values.tolist()]
        return found if mask is None else [MISSING if one else value for value, one in zip(found, mask, strict=True)]

    def footprints(self) -> Sequence[str]:
        return [""] * self._total


def _sorted(values: np.ndarray[Any, Any], last: np.ndarray[Any, Any], *, descending: bool) -> np.ndarray[Any, Any]:
    """Return the order of ``values``; those of ``last`` come at the end either way."""
    order = np.argsort(values, kind="stable")
    order = order[::-1] if descending else order
    return np.concatenate([order[~last[order]], order[last[order]]])


def _column(table: Table, name: str) -> Column:
    for column in table.columns:
        if column.name == name:
            return column
    names = ", ".join(column.name for column in table.columns[:20])
    raise UsageError(f"{name}: the table has no such column; it has {names}")


def _whole(table: Table, column: Column, total: int) -> tuple[np.ndarray[Any, Any], Any]:
    rows = table.sources[column.source]
    if rows.row_size * total > LARGEST:
        raise UsageError(f"{column.name}: the table is too large to sort, choose or draw ({LARGEST >> 20} MiB)")
    return _read(rows, column, 0, total)


def _read(rows: Rows, column: Column, first: int, count: int) -> tuple[np.ndarray[Any, Any], Any]:
    return column.of(rows.read(first, count)), rows.masked(first, count)


def _facts(column: Column) -> dict[str, Any]:
    plain = column.dtype.kind in "biuf" and not column.shape
    found = {"name": column.name, "unit": column.unit, "description": column.description}
    return found | {"dtype": str(column.dtype.newbyteorder("=")), "shape": list(column.shape), "numeric": plain}
