r"""The rows of a table as text: the first and last ones in columns for people, all of them for CSV.

| a cell is             | for people                       | in CSV                                |
|-----------------------|----------------------------------|---------------------------------------|
| masked                | ``--``                           | empty                                 |
| a number, a bool      | as numpy prints it               | the same; ``true`` and ``false``      |
| an array              | its first elements, on one line  | a JSON list                           |
| bytes                 | as ASCII; others as ``\xff``      | the same                              |
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from asdffs.cli.printing import aligned
from asdffs.document.arrays.tables import Column, Table

#: Rows of CSV that are read at once, in bytes.
_AT_ONCE: Final = 1 << 20
#: Characters of a cell for people, and elements of an array in one.
_LONGEST: Final = 40
_MOST: Final = 6


class Cells:
    """The cells of some ``columns`` of a ``table``."""

    def __init__(self, table: Table, columns: Sequence[Column]) -> None:
        self.columns = columns
        self._sources = {column.source: table.sources[column.source] for column in columns}
        counts = [rows.count for rows in table.sources]
        self.count = min(counts, default=0)  # a file may have columns of different lengths

    def lines(self, most: int, width: int) -> Iterator[str]:
        """Yield the names, the units, and at most ``most`` rows: the first and the last ones.

        Columns that do not fit ``width`` characters are left out, and named at the end.  Raises ``AsdffsError``,
        ``OSError``.
        """
        first = self.count if self.count <= most else -(-most // 2)
        rows = [*self._rows(0, first, for_people)]
        if first < self.count:
            rows += [["..."] * len(self.columns), *self._rows(self.count - (most - first), most - first, for_people)]
        head = [[column.name for column in self.columns]]
        if any(column.unit for column in self.columns):
            head.append([column.unit for column in self.columns])
        widths = [max(map(len, column)) for column in zip(*head, *rows, strict=True)]
        ends = itertools.accumulate(one + 1 for one in widths)
        fitting = max(1, sum(end <= width + 1 for end in ends))
        right = [n for n, one in enumerate(self.columns) if one.dtype.kind in "iufc" and not one.shape]
        whole = (*head, ["-" * one for one in widths], *rows)
        yield from aligned([row[:fitting] for row in whole], right)
        if rest := [column.name for column in self.columns[fitting:]]:
            yield f"not shown: {', '.join(rest)}; --columns chooses"

    def csv(self) -> Iterator[list[str]]:
        """Yield all rows.  Raises ``AsdffsError``, ``OSError``."""
        step = max(1, _AT_ONCE // max(1, sum(rows.row_size for rows in self._sources.values())))
        for first in range(0, self.count, step):
            yield from self._rows(first, min(step, self.count - first), _for_csv)

    def _rows(self, first: int, count: int, text: Any) -> Iterator[list[str]]:
        read = {
            number: (rows.read(first, count), rows.masked(first, count)) for number, rows in self._sources.items()
        }
        columns = [(column.of(read[column.source][0]), read[column.source][1]) for column in self.columns]
        for row in range(count):
            yield [text(values[row], None if mask is None else mask[row]) for values, mask in columns]


def for_people(cell: Any, mask: Any) -> str:
    """Return a cell as people read it, by the table above.  ``mask``: true where masked; None without a mask."""
    if mask is not None and np.all(mask) and np.size(mask):
        return "--"
    if np.ndim(cell):
        shown = cell if mask is None else np.ma.masked_array(cell, mask)
        text = " ".join(np.array2string(shown, threshold=_MOST, edgeitems=_MOST // 2).split())
    else:
        text = _word(cell)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _for_csv(cell: Any, mask: Any) -> str:
    if np.ndim(cell):
        listed = _listed(cell, np.broadcast_to(False if mask is None else mask, np.shape(cell)))
        return json.dumps(listed, ensure_ascii=False)
    if mask is not None and mask:
        return ""
    return _word(cell).lower() if isinstance(cell, np.bool_) else _word(cell)


def _listed(cell: Any, mask: Any) -> Any:
    """Return an array as JSON has it: masked elements are null, numbers that are not finite or complex are texts."""
    if np.ndim(cell):
        return [_listed(*pair) for pair in zip(cell, mask, strict=True)]
    if mask:
        return None
    plain = isinstance(cell, (np.integer, np.bool_)) or (isinstance(cell, np.floating) and np.isfinite(cell))
    return cell.item() if plain else _word(cell)


def _word(cell: Any) -> str:
    return cell.decode("ascii", "backslashreplace") if isinstance(cell, bytes) else str(cell)
