"""Reads the tables of a tree for FITS: records, and columns of ``core/table`` and of astropy's ``table``.

| a column is                     | in the FITS table                                                                |
|---------------------------------|----------------------------------------------------------------------------------|
| an array, a quantity, a Time    | a column; a Time as the texts or numbers that the tree has                       |
| a SkyCoord                      | a column for each of its angles: ``NAME.ra``, ``NAME.dec``                       |
| anything else                   | left out; a comment in the header says so                                        |

A column has the name, unit and description that the tree states.  Its mask becomes NaN, TNULL, an empty text, or an
undefined logical value (FITS 4.0, section 7.3.3).  Masked integers of 8 bits, and unsigned ones, get a wider type.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from asdffs.arrays.branch import Branch
from asdffs.arrays.inline import read_values
from asdffs.document.arrays.elements import Elements
from asdffs.document.arrays.finding import elements_of
from asdffs.document.arrays.masks import stated_mask
from asdffs.document.arrays.units import units_of
from asdffs.document.state import FileState
from asdffs.features.fits.binary_table import Column, Rows, Table, columns_of, wider

#: Where a column has its array: it is the column, or in ``core/column``, or in a quantity or Time.
_DATA = ("data", "value")


def mask_of(file: FileState, branch: Branch, elements: Elements) -> Elements | None:
    """Return the mask of the array at ``branch``, which has these ``elements``; None if it has none.

    Raises ``AsdffsError``, ``OSError``.
    """
    if branch.masked:
        return stated_mask(file, branch, elements)
    mask = branch.children.get("mask")
    return None if mask is None or mask.array is None else elements_of(file, mask, rows_first=True)


class Tables:
    """Makes FITS tables of branches of ``file``.  All methods raise ``AsdffsError``, ``OSError``."""

    def __init__(self, file: FileState) -> None:
        self._file = file

    def of_records(self, branch: Branch) -> Table:
        """Return the table of an array of records."""
        elements = elements_of(self._file, branch, rows_first=True)
        rows = Rows.of(elements, records=True)
        masked = branch.masked or "mask" in branch.children
        left = ["the mask of these records is not in this file"] if masked else []
        units = units_of(self._file, branch)
        columns = [
            dataclasses.replace(column, unit=units.get(column.path[0], "")) for column in columns_of(rows.dtype)
        ]
        return Table([rows], columns, self._file.scheduler, left)

    def of_columns(self, branch: Branch, *, masks: bool = True) -> Table:
        """Return the table at ``branch``.  Without ``masks`` its elements are as they are stored."""
        sources: list[Rows] = []
        columns: list[Column] = []
        left: list[str] = []
        holder, names = branch.children.get("columns"), self._names(branch)
        for number, column in holder.children.items() if holder is not None else ():
            stated, place = column.scalars.get("name"), number if isinstance(number, int) else len(sources)
            name = stated.text if stated is not None else names.pop(place, f"col{place + 1}")
            names.pop(place, None)
            found = dict(_arrays(column, name))
            if not found:
                left.append(f"the column {name} is not in this file")
            for title, data in found.items():
                rows = self._rows(data, masks=masks)
                unit = units_of(self._file, data).get("", "")
                columns += _columns(title, rows, unit, column, len(sources))
                sources.append(rows)
        left += [f"the column {name} is not in this file" for name in names.values()]
        return Table(sources, columns, self._file.scheduler, left)

    def _rows(self, data: Branch, *, masks: bool) -> Rows:
        elements = elements_of(self._file, data, rows_first=True)
        rows = Rows.of(elements, records=False)
        mask = mask_of(self._file, data, elements) if masks else None
        return rows if mask is None else dataclasses.replace(rows, mask=mask)

    def _names(self, table: Branch) -> dict[int, str]:
        """Return the ``colnames`` of a table, which has those of columns without a name of their own."""
        stated = table.children.get("colnames")
        if stated is None or stated.mapping:
            return {}
        listed = read_values(self._file.outlines.outline(), stated.span, stated.line)
        return {number: name for number, name in enumerate(listed) if isinstance(name, str)}


def _columns(name: str, rows: Rows, unit: str, column: Branch, source: int) -> list[Column]:
    if rows.dtype.names:
        return columns_of(rows.dtype, source, shape=rows.shape)
    stated = column.scalars.get("description")
    dtype = rows.dtype if rows.mask is None else wider(rows.dtype)
    return [Column(name, source, (), dtype, rows.shape, unit, stated.text if stated else "")]


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
