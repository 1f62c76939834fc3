"""Names the columns of tables, so that paths of arrays have ``flux`` where the tree has item 3 of a list.

| the table                                   | names of the items of ``columns``     |
|---------------------------------------------|---------------------------------------|
| astropy's ``table``, also those of DKIST    | its list ``colnames``                 |
| ``core/table``                              | the ``name`` of each column           |

Names that are not one for each column, and each different, are not used.  Pure functions.
"""

from __future__ import annotations

from typing import Any, Final

import yaml

from asdffs.tree.branch import Branch

COLUMNS: Final = "columns"
COLNAMES: Final = "colnames"
_NAME: Final = "name"
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def name_columns(table: Branch, text: str) -> None:
    """Set the labels of the columns of ``table``, a branch of the tree in ``text``, if it has a list of columns."""
    columns = table.children.get(COLUMNS)
    if columns is None or columns.mapping or columns.array is not None:
        return
    names = _stated(table, text) if COLNAMES in table.children else _own(columns)
    if len(set(names.values())) < len(names) or not columns.children.keys() <= names.keys():
        return
    for key, column in columns.children.items():
        column.label = names[key]


def _stated(table: Branch, text: str) -> dict[str | int, str]:
    """Return the names in ``colnames`` by the numbers of the columns; none if it is not a list of texts."""
    stated = table.children[COLNAMES]
    if stated.mapping:
        return {}
    try:
        names = yaml.load(text[slice(*stated.span)], Loader=_Loader)
    except yaml.YAMLError:  # an alias to a text elsewhere
        return {}
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return {}
    return dict(enumerate(names))


def _own(columns: Branch) -> dict[str | int, str]:
    return {key: column.scalars[_NAME].text for key, column in columns.children.items() if _NAME in column.scalars}
