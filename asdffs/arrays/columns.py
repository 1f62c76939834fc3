"""Names the columns of tables, so that paths of arrays have ``flux`` where the tree has item 3 of a list.

| the table                                   | names of the items of ``columns``     |
|---------------------------------------------|---------------------------------------|
| astropy's ``table``, also those of DKIST    | its list ``colnames``                 |
| ``core/table``                              | the ``name`` of each column           |

Names that are not one for each column, and each different, are not used.  Pure functions.
"""

from __future__ import annotations

from typing import Any, Final

from asdffs.arrays.branch import Branch

COLUMNS: Final = "columns"
COLNAMES: Final = "colnames"
_NAME: Final = "name"


def name_columns(table: Branch, stated: list[Any]) -> None:
    """Set the labels of the columns of ``table``, if it has a list of columns.

    ``stated``: the items of its list ``colnames``, empty without one.
    """
    columns = table.children.get(COLUMNS)
    if columns is None or columns.mapping or columns.array is not None:
        return
    names: dict[str | int, Any] = dict(enumerate(stated)) if COLNAMES in table.children else _own(columns)
    if not all(isinstance(name, str) for name in names.values()) or len(set(names.values())) < len(names):
        return
    if columns.children.keys() <= names.keys():
        for key, column in columns.children.items():
            column.label = names[key]


def _own(columns: Branch) -> dict[str | int, Any]:
    return {key: column.scalars[_NAME].text for key, column in columns.children.items() if _NAME in column.scalars}
