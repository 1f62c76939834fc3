"""Describes the arrays of a file, or of one group of it, as variables of a dataset.

| the array is                                | its variable                                                  |
|---------------------------------------------|---------------------------------------------------------------|
| at ``roman/meta/x``, and the group is roman | ``meta.x``                                                    |
| the value of a quantity                     | has the name of the quantity, and its unit as ``units``       |
| a column of a table                         | has the name of the column: ``table.flux``                    |
| an array of records                         | one variable for each field: ``events.energy``                |
| the mask of another one                     | ``data.mask``; true where the element of ``data`` is missing  |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from asdffs.document.arrays.array import Array
from asdffs.document.document import Document
from asdffs.errors import AsdffsError, UsageError
from asdffs.tree.branch import Branch, Outline
from asdffs.tree.columns import COLUMNS
from asdffs.tree.key_names import name_of
from asdffs.tree.paths import Path, format_path
from asdffs.tree.quantities import home_of, quantity_of
from asdffs.tree.scalars import read_scalars
from asdffs.workflows.datasets.attributes import attributes_in
from asdffs.workflows.datasets.axes import name_axes
from asdffs.workflows.datasets.models import known_axes

if TYPE_CHECKING:
    import numpy as np

#: Name of the variable if the whole tree is one array.
_ROOT: Final = "data"
_MASK: Final = "mask"


@dataclass(slots=True)
class Variable:
    """An array, or a field of an array of records.

    ``array``: it; ``path``: its path in ``document.arrays``.  ``fields``: the names that lead to the field.
    ``axes``: the names of the axes.  ``mask``: the name of the variable with its mask; empty without one.
    """

    name: str
    array: Array
    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fields: tuple[str, ...] = ()
    mask: str = ""
    axes: tuple[str, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Dataset:
    """The variables of a group by their names, and its attributes.

    ``group``: its path in ``document.arrays``; empty for the root.  ``left_out``: path of an array -> why it cannot
    be shown.
    """

    group: str
    variables: dict[str, Variable]
    attributes: dict[str, Any]
    left_out: dict[str, str]


def describe(
    document: Document, group: str | None = None, axes: Mapping[str, Sequence[str]] | None = None
) -> Dataset:
    """Describe the arrays of ``document`` below ``group``.

    ``group``: a path with ``/``, as in ``document.arrays``; empty or ``/`` for the root.  None: if all arrays are
    below one key of the root, that is the group; otherwise the root.  ``axes``: name of a variable -> names of its
    axes.  Raises ``UsageError`` for a group or names that do not fit, ``InvalidTreeError``, ``OSError``.
    """
    with document.scheduler.entered():
        outline = document.arrays.outline()
        keys = _group_keys(outline, group, document.path)
        attributes = attributes_in(
            read_scalars(document.tree.text(), document.dialect).values, format_path(keys) if keys else ""
        )
        found = _Reader(document, outline, keys).read()
    shapes = {name: one.shape for name, one in found.variables.items()}
    named = name_axes(shapes, axes or {}, lambda name, ndim: known_axes(attributes, name, ndim))
    for name, one in found.variables.items():
        one.axes = named[name]
        for stated in ("unit", "datatype"):  # they are attributes of the variable, or its dtype
            attributes.pop(f"{name}.{stated}", None)
    found.attributes = attributes
    return found


def _group_keys(outline: Outline, group: str | None, path: str) -> Path:
    """Return the keys that lead to the group.  Raises ``UsageError`` if it has no arrays."""
    if outline.root is None or (group is not None and not group.strip("/")):
        return ()
    if group is None:
        holding = [key for key, child in outline.root.children.items() if child.holds]
        one = outline.root.children[holding[0]] if len(holding) == 1 else None
        return (holding[0],) if one is not None and one.array is None and one.mapping else ()
    branch, keys = outline.root, list[str | int]()
    for name in group.strip("/").split("/"):
        found = next((key for key, child in branch.children.items() if name_of(key) == name and child.holds), None)
        if found is None or branch.children[found].array is not None:
            raise UsageError(f"there is no group {group!r} with arrays", path=path)
        branch = branch.children[found]
        keys.append(found)
    return tuple(keys)


class _Reader:
    """Reads the variables of one group, with the keys ``keys``."""

    def __init__(self, document: Document, outline: Outline, keys: Path) -> None:
        self._document = document
        self._outline = outline
        self._keys = keys
        self._found = Dataset("/".join(map(name_of, keys)), {}, {}, {})

    def read(self) -> Dataset:
        """Return the variables; those that cannot be shown are left out."""
        for branch in self._outline.arrays:
            if branch.path[: len(self._keys)] == self._keys:
                path = "/".join(map(name_of, self._outline.shown_path(branch.path)))
                try:
                    self._add(branch, path)
                except AsdffsError as err:
                    self._found.left_out[path] = err.sentence
        for name, one in self._found.variables.items():
            mask = self._found.variables.get(f"{name}.{_MASK}")
            if mask is not None and mask.shape == one.shape and mask.dtype.kind in "biu" and not one.fields:
                one.mask = mask.name
        return self._found

    def _add(self, branch: Branch, path: str) -> None:
        array = self._document.arrays[path]
        name = self._name(branch)
        name = name if name not in self._found.variables else format_path(branch.path[len(self._keys) :])
        attributes = dict(_attributes_of(branch))
        for fields, dtype, shape in _fields_of(array.dtype):
            one = Variable(
                ".".join((name, *fields)), array, path, (*array.shape, *shape), dtype, fields, attributes=attributes
            )
            self._found.variables[one.name] = one
        if branch.masked:
            mask = self._document.arrays[f"{path}/{_MASK}" if path else _MASK]
            self._found.variables[f"{name}.{_MASK}"] = Variable(
                f"{name}.{_MASK}", mask, f"{path}/{_MASK}", mask.shape, mask.dtype
            )

    def _name(self, branch: Branch) -> str:
        """Return the name of the variable: the path, without what only describes quantities and columns."""
        above, steps = self._outline.root, list[str | int]()
        for number, key in enumerate(branch.path):
            if above is None:
                break
            child = above.children[key]
            columns = key == COLUMNS and any(column.label is not None for column in child.children.values())
            inner = (key == "value" and quantity_of(child) is above) or (key == "data" and above.label is not None)
            if number >= len(self._keys) and not columns and not (inner and steps):
                steps.append(key if child.label is None else child.label)
            above = child
        return format_path(tuple(steps)) if steps else _ROOT


def _attributes_of(branch: Branch) -> Iterator[tuple[str, str]]:
    """Yield the attributes of an array: the unit of its quantity, or what its column says about it."""
    _, unit = home_of(branch)
    above = branch.above[0] if branch.above else None
    if not unit and above is not None and above.label is not None and "unit" in above.scalars:
        unit = above.scalars["unit"].text
    if unit:
        yield "units", unit
    if above is not None and above.label is not None and "description" in above.scalars:
        yield "description", above.scalars["description"].text


def _fields_of(dtype: np.dtype[Any]) -> Iterator[tuple[tuple[str, ...], np.dtype[Any], tuple[int, ...]]]:
    """Yield the fields of a dtype: the names that lead to each, its dtype, and its own axes.

    A dtype without fields is one field without a name.
    """
    if dtype.subdtype is not None:
        for names, inner, more in _fields_of(dtype.subdtype[0]):
            yield names, inner, (*dtype.subdtype[1], *more)
    elif dtype.fields is not None:
        for name, (of_field, *_) in dtype.fields.items():
            for names, inner, shape in _fields_of(of_field):
                yield (name, *names), inner, shape
    else:
        yield (), dtype, ()
