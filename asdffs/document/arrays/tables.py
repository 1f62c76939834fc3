"""Tables: the columns of arrays of records, of ``core/table``, and of astropy's ``table``, some rows at a time.

| a column is                     | it has                                                                          |
|---------------------------------|---------------------------------------------------------------------------------|
| a field of records              | the name of the field; of records within records, names with dots              |
| an array, a quantity, a Time    | the name, unit and description that the tree states; a Time is as it is stored  |
| a SkyCoord                      | a column for each of its angles: ``NAME.ra``, ``NAME.dec``                      |
| anything else                   | no array: only its name is known                                                |

Imports numpy late.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from asdffs.arrays.branch import Branch
from asdffs.arrays.inline import read_values
from asdffs.arrays.outline import COLUMNS
from asdffs.document.arrays.elements import Elements
from asdffs.document.arrays.finding import elements_of
from asdffs.document.arrays.masks import mask_of
from asdffs.document.state import FileState
from asdffs.storage.backend import read_bytes

#: Where a column has its array: it is the column, or in ``core/column``, or in a quantity or Time.
_DATA: Final = ("data", "value")


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one array.  ``shape``: of the array without its rows.  ``mask``: its mask, None if it has none."""

    elements: Elements
    dtype: Any
    shape: tuple[int, ...]
    mask: Elements | None = None

    @property
    def count(self) -> int:
        """The number of rows."""
        each = math.prod(self.shape)
        return math.prod(self.elements.shape) // each if each else self.elements.shape[0]

    @property
    def row_size(self) -> int:
        """Bytes of a row."""
        return int(self.dtype.itemsize) * math.prod(self.shape)

    def read(self, first: int, count: int) -> Any:
        """Return an array of ``count`` rows from ``first``.  Raises ``AsdffsError``, ``OSError``."""
        import numpy as np

        each = self.row_size
        raw = read_bytes(self.elements.read(first * each, count * each))
        shape = (count, *self.shape)
        return np.frombuffer(raw, self.dtype).reshape(shape) if each else np.zeros(shape, self.dtype)

    def masked(self, first: int, count: int) -> Any:
        """Return the mask of the rows that ``read`` returns, true where masked; None without a mask."""
        import numpy as np

        mask = self.mask
        if mask is None:
            return None
        dtype, shape = np.dtype(mask.descr), self.elements.shape
        if mask.shape != shape:
            whole = np.frombuffer(read_bytes(mask.read(0, mask.size)), dtype).reshape(mask.shape) != 0
            return np.broadcast_to(whole, shape)[first : first + count]
        each = dtype.itemsize * math.prod(self.shape)
        raw = read_bytes(mask.read(first * each, count * each))
        return np.frombuffer(raw, dtype).reshape(count, *self.shape) != 0


@dataclass(frozen=True, slots=True)
class Column:
    """One column: ``path`` of fields in the rows of source number ``source``."""

    name: str
    source: int
    path: tuple[str, ...]
    dtype: Any
    shape: tuple[int, ...]
    unit: str = ""
    description: str = ""

    @property
    def size(self) -> int:
        """Bytes in a row of the array, 0 for empty texts and axes."""
        return int(self.dtype.itemsize) * math.prod(self.shape)

    def of(self, rows: Any) -> Any:
        """Return this column of ``rows`` of its source."""
        for name in self.path:
            rows = rows[name]
        return rows


@dataclass(frozen=True, slots=True)
class Table:
    """A table: the columns of the rows of ``sources``.  ``left``: what has no column, such as ``the mask of …``."""

    sources: list[Rows] = field(default_factory=list)
    columns: list[Column] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def table_at(file: FileState, branch: Branch, *, masks: bool = True) -> Table:
    """Return the table at ``branch`` of ``file``: an array of records, or a table of columns.

    Without ``masks``, the columns have none.  Raises ``AsdffsError``, ``OSError``.
    """
    return _of_records(file, branch) if branch.array is not None else _of_columns(file, branch, masks=masks)


def _of_records(file: FileState, branch: Branch) -> Table:
    import numpy as np

    elements = elements_of(file, branch, rows_first=True)
    rows = Rows(elements, np.dtype(elements.descr), ())
    masked = branch.masked or "mask" in branch.children
    columns = fields_of(rows.dtype, units=file.units(branch))
    return Table([rows], columns, ["the mask of these records"] if masked else [])


def _of_columns(file: FileState, branch: Branch, *, masks: bool) -> Table:
    table = Table()
    holder, names = branch.children.get(COLUMNS), _names(file, branch)
    for number, column in holder.children.items() if holder is not None else ():
        stated, place = column.scalars.get("name"), number if isinstance(number, int) else len(table.sources)
        name = stated.text if stated is not None else names.pop(place, f"col{place + 1}")
        names.pop(place, None)
        found = dict(_arrays(column, name))
        if not found:
            table.left.append(f"the column {name}")
        for title, data in found.items():
            rows = _rows(file, data, masks=masks)
            if rows.dtype.names and rows.mask is not None:
                rows = dataclasses.replace(rows, mask=None)
                table.left.append(f"the mask of the column {title}")
            table.columns.extend(_columns(title, rows, file.units(data), column, len(table.sources)))
            table.sources.append(rows)
    table.left.extend(f"the column {name}" for name in names.values())
    return table


def _rows(file: FileState, data: Branch, *, masks: bool) -> Rows:
    import numpy as np

    elements = elements_of(file, data, rows_first=True)
    return Rows(
        elements, np.dtype(elements.descr), elements.shape[1:], mask_of(file, data, elements) if masks else None
    )


def _names(file: FileState, table: Branch) -> dict[int, str]:
    """Return the ``colnames`` of a table, which has those of columns without a name of their own."""
    stated = table.children.get("colnames")
    if stated is None or stated.mapping:
        return {}
    listed = read_values(file.outlines.outline(), stated.span, stated.line)
    return {number: name for number, name in enumerate(listed) if isinstance(name, str)}


def _columns(name: str, rows: Rows, units: Mapping[str, str], column: Branch, source: int) -> list[Column]:
    if rows.dtype.names:
        return fields_of(rows.dtype, source, shape=rows.shape, units=units)
    stated = column.scalars.get("description")
    return [Column(name, source, (), rows.dtype, rows.shape, units.get("", ""), stated.text if stated else "")]


def _arrays(column: Branch, name: str) -> Iterator[tuple[str, Branch]]:
    """Yield the arrays of a column, and the name of each."""
    for branch in (column, *(column.children.get(key) for key in _DATA)):
        if branch is not None and branch.array is not None:
            yield name, branch
            return
    for key, child in column.children.items():
        angle = child.children.get("value")
        if angle is not None and angle.array is not None:
            yield f"{name}.{key}", angle


def fields_of(
    dtype: Any,
    source: int = 0,
    above: tuple[str, ...] = (),
    shape: tuple[int, ...] = (),
    units: Mapping[str, str] | None = None,
) -> list[Column]:
    """Return the columns of records of ``dtype``; fields of records within them get names with dots.

    ``units``: those of the fields by name.
    """
    found: list[Column] = []
    for name in dtype.names:
        base, sub = dtype[name].subdtype or (dtype[name], ())
        path, axes = (*above, name), shape + sub
        if base.names:
            found += fields_of(base, source, path, axes, units)
        else:
            found.append(Column(".".join(path), source, path, base, axes, (units or {}).get(path[0], "")))
    return found
