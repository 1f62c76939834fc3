"""Describes the arrays of a file, or of one group of it, as variables of a dataset.

| the array is                                | its variable                                                  |
|---------------------------------------------|---------------------------------------------------------------|
| at ``roman/meta/x``, and the group is roman | ``meta.x``                                                    |
| the value of a quantity                     | has the name of the quantity, and its unit as ``units``       |
| a column of a table                         | has the name of the column: ``table.flux``                    |
| an array of records                         | one variable for each field: ``events.energy``                |
| the mask of another one                     | ``data.mask``; true where the element of ``data`` is missing  |
| reached by an alias or a ``$ref``           | as if it were there: an array may have several names          |

Names that would be equal are told apart: by their whole path, or by a number.  An array that is reached in two ways
has two places.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from asdffs.arrays.branch import Branch, branch_of_mask, is_quantity, shown_key
from asdffs.arrays.outline import COLUMNS
from asdffs.arrays.placement import check_mask_shape
from asdffs.arrays.scalars import scalars_of
from asdffs.document.arrays.array import Array
from asdffs.document.arrays.index import key_named
from asdffs.document.document import Document
from asdffs.document.state import FileState
from asdffs.errors import AsdffsError, InvalidArrayError, NotSupportedError, UsageError
from asdffs.features.datasets.metadata import attributes_in, is_all_in, known_axes, name_axes
from asdffs.limits import PLACES
from asdffs.tree.paths import Path, format_path, name_of
from asdffs.tree.syntax import decoded
from asdffs.tree.tape import Tape

if TYPE_CHECKING:
    import numpy as np

    from asdffs.features.datasets.conversion import Conversion

#: Name of the variable if the whole tree is one array.
_ROOT: Final = "data"
_MASK: Final = "mask"


@dataclass(slots=True)
class Variable:
    """An array, or a field of an array of records.

    ``array``: it; ``path``: its path in ``document.arrays``.  ``fields``: the names that lead to the field.
    ``axes``: the names of the axes.  ``mask``: the name of the variable with its mask; empty without one.
    ``conversion``: of its values into another unit.
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
    conversion: Conversion | None = None


@dataclass(slots=True)
class Dataset:
    """The variables of a group by their names, and its attributes.

    ``left_out``: path of an array, or of a mask, in ``document.arrays`` -> why it cannot be shown or applied.
    """

    variables: dict[str, Variable]
    attributes: dict[str, Any]
    left_out: dict[str, str]


def describe(
    document: Document, group: str | None = None, axes: Mapping[str, Sequence[str]] | None = None
) -> Dataset:
    """Describe the arrays of ``document`` below ``group``.

    ``group``: a path with ``/``, as in ``document.arrays``; empty or ``/`` for the root.  None: the root, or the one
    key of the root below which everything is, besides ``asdf_library`` and ``history``.  ``axes``: name of a variable
    -> names of its axes.  Raises ``UsageError`` for a group or names that do not fit, ``InvalidTreeError``,
    ``InvalidArrayError`` for a group in another file, ``NotSupportedError`` for aliases without end, ``OSError``.
    """
    with document.scheduler.entered():
        tape = _tape_of(document)  # the outline is made from it as well
        root = document.outlines.outline().root
        if root is None:
            return Dataset({}, {}, {})
        values = scalars_of(tape, document.dialect).values
        del tape
        place = find_group(document, root, _default_group(root, values) if group is None else group)
        if place.file is not document:
            values = scalars_of(_tape_of(place.file), place.file.dialect).values
        path = place.branch.path
        attributes = attributes_in(values, format_path(path) if path else "")
        found = _Reader(document, place).read()
    shapes = {name: one.shape for name, one in found.variables.items()}
    named = name_axes(shapes, axes or {}, lambda name, ndim: known_axes(attributes, name, ndim))
    for name, one in found.variables.items():
        one.axes = named[name]
        for stated in ("unit", "datatype"):  # they are attributes of the variable, or its dtype
            attributes.pop(f"{name}.{stated}", None)
        if one.array.chunks is not None:  # there may be thousands of names of files
            for known in [known for known in attributes if known.startswith(f"{name}.")]:
                del attributes[known]
    found.attributes = attributes
    return found


def _tape_of(file: FileState) -> Tape:
    return file.tree.tape(decoded(file.tree.text()), file.tree.version)


def _default_group(root: Branch, values: Mapping[str, Any]) -> str:
    """Return the name of the key of ``root`` below which everything is; empty if there is none.

    ``values``: all scalars of the tree (``arrays/scalars``).
    """
    holding = [(key, child) for key, child in root.children.items() if child.holds]
    if len(holding) != 1:
        return ""
    key, child = holding[0]
    table = COLUMNS in child.children
    if child.array is not None or child.external_uri is not None or not child.mapping or table or is_quantity(child):
        return ""
    return name_of(key) if is_all_in(values, format_path((key,))) else ""


class _Reader:
    """Reads the variables below ``group``."""

    def __init__(self, document: Document, group: Place) -> None:
        self._document = document
        self._group = group
        self._found = Dataset({}, {}, {})

    def read(self) -> Dataset:
        """Return the variables; those that cannot be shown are left out."""
        for place in places_below(self._group, self._found.left_out):
            try:
                self._add(place)
            except AsdffsError as err:
                self._found.left_out[place.path] = err.sentence
        return self._found

    def _add(self, place: Place) -> None:
        array, units = self._document.arrays[place.path], place.file.units(place.branch)
        steps = tuple(_steps(place)) or (_ROOT,)
        added = []
        for fields, dtype, shape in _fields_of(array.dtype):
            one = Variable("", array, place.path, (*array.shape, *shape), dtype, fields)
            one.attributes = dict(_attributes_of(place, units.get(fields[0] if fields else "", "")))
            self._put(one, (*steps, *fields), (*place.keys, *fields))
            added.append(one)
        beside = _mask_beside(place) is not None
        if place.branch.masked or _MASK in place.branch.children or beside:
            names, own = (place.names[:-1], steps[:-1]) if beside else (place.names, steps)
            mask = self._mask("/".join((*names, _MASK)), array.shape, (*own, _MASK))
            for one in added:
                one.mask = mask

    def _mask(self, path: str, shape: tuple[int, ...], steps: Path) -> str:
        """Add the mask of an array of ``shape``.  Return its name; empty if it cannot be applied, which is told."""
        try:
            mask = self._document.arrays[path]
            one = Variable("", mask, path, mask.shape, mask.dtype)
            check_mask_shape(one.shape, shape)
            if one.dtype.kind not in "biu":
                raise InvalidArrayError(f"its elements are {one.dtype.name}, not bool8")
        except KeyError:
            self._found.left_out[path] = "it refers to something that is no array, so no element is masked"
            return ""
        except AsdffsError as err:
            self._found.left_out[path] = f"{err.sentence}, so no element is masked"
            return ""
        self._put(one, steps, steps)
        return one.name

    def _put(self, one: Variable, steps: Path, whole: Path) -> None:
        """Add a variable.  Its name comes from ``steps``, or from the ``whole`` path if another one has that name."""
        name = format_path(steps)
        names = itertools.chain((name, format_path(whole)), (f"{name}_{number}" for number in itertools.count(2)))
        one.name = next(free for free in names if free not in self._found.variables)
        self._found.variables[one.name] = one


def _steps(place: Place) -> Iterator[str | int]:
    """Yield the steps of the name: the keys, without what only describes quantities and columns."""
    some = False
    for key, above, child in zip(place.keys, place.branches, place.branches[1:], strict=False):
        columns = key == COLUMNS and any(column.label is not None for column in child.children.values())
        inner = (key == "value" and is_quantity(above)) or (key == "data" and above.label is not None)
        if not columns and not (inner and some):
            some = True
            yield key if child.label is None else child.label


def _attributes_of(place: Place, unit: str) -> Iterator[tuple[str, str]]:
    """Yield the attributes of an array or a field of it: its ``unit``, and what its column says about it."""
    above = place.branches[-2] if len(place.branches) > 1 else place.branch
    column = above.label is not None
    if unit:
        yield "units", unit
    if column and "description" in above.scalars:
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


class Place(NamedTuple):
    """A place in the tree: of the group, or of something below it.

    ``file``: the file that has it; another one behind a ``$ref``.  ``names``: its path in ``document.arrays``.
    ``branches``: the group, the branches that lead from there to it, and it.  ``keys``: one for each branch after the
    first.  ``jumps``: the file and path to which each reference on the way leads, if it is to another file.
    """

    file: FileState
    names: tuple[str, ...]
    branches: tuple[Branch, ...]
    keys: Path = ()
    jumps: tuple[tuple[str, Path], ...] = ()

    @property
    def branch(self) -> Branch:
        """What is there."""
        return self.branches[-1]

    @property
    def path(self) -> str:
        """Its path in ``document.arrays``."""
        return "/".join(self.names)

    def below(self, key: str | int, child: Branch) -> Place | None:
        """Return the place of a child of this branch; None if it is a ``$ref`` to something without arrays.

        Raises ``InvalidArrayError`` if another file cannot be read.
        """
        place = self._replace(names=(*self.names, name_of(shown_key(key, child))), keys=(*self.keys, key))
        if child.external_uri is not None:
            found = self.file.linked_files.branch(child.external_uri, self.file)
            if found is None or not found[1].holds:
                return None
            file, child = found
            place = place._replace(file=file, jumps=(*self.jumps, (file.path, child.path)))
        return place._replace(branches=(*self.branches, child))


def find_group(document: Document, root: Branch, group: str) -> Place:
    """Return the place of the group with the path ``group`` in ``document.arrays``; empty for ``root``.

    Raises ``UsageError`` if no group with arrays is there, ``InvalidArrayError``.
    """
    place: Place | None = Place(document, (), (root,))
    for name in filter(None, group.strip("/").split("/")):
        key = key_named(place.branch, name) if place is not None else None
        place = place.below(key, place.branch.children[key]) if place is not None and key is not None else None
    if place is None or not place.branch.holds or place.branch.array is not None:
        raise UsageError(f"there is no group {group!r} with arrays", path=document.path)
    return place._replace(branches=(place.branch,), keys=())


def places_below(group: Place, left_out: dict[str, str]) -> Iterator[Place]:
    """Yield the place of each array below ``group``, in the order of the text.  Masks of arrays are not among them.

    Adds to ``left_out`` the path of a reference that cannot be followed, and why.  Raises ``NotSupportedError`` if
    aliases lead to too many places.
    """
    rest, indirect = [group], 0
    while rest:
        place = rest.pop()
        indirect += place.branch.path != group.branch.path + place.keys
        if indirect > PLACES:
            sentence = f"aliases and references lead to more than {PLACES:,} places with arrays"
            raise NotSupportedError(sentence, path=group.file.path)
        if place.branch.array is not None:
            if not _is_mask_beside(place):
                yield place
        else:
            rest += reversed([*_children(place, left_out)])


def _mask_beside(place: Place) -> Branch | None:
    """Return the mask beside an array, on the way on which it was reached; None without one."""
    mask = branch_of_mask(place.branch)
    above = place.branches[-2] if len(place.branches) > 1 else None
    return mask if above is not None and mask is not None and above.children.get(_MASK) is mask else None


def _is_mask_beside(place: Place) -> bool:
    """Return whether an array is the mask of the one beside it, with which it is shown."""
    data = place.branches[-2].children.get("data") if len(place.branches) > 1 else None
    return place.keys[-1:] == (_MASK,) and data is not None and branch_of_mask(data) is place.branch


def _children(place: Place, left_out: dict[str, str]) -> Iterator[Place]:
    """Yield the places of the children that hold arrays."""
    for key, child in place.branch.children.items():
        if not child.holds:
            continue
        try:
            below = place.below(key, child)
        except AsdffsError as err:
            left_out["/".join((*place.names, name_of(shown_key(key, child))))] = err.sentence
            continue
        if below is not None and below.jumps[-1:] and below.jumps[-1] in below.jumps[:-1]:
            left_out[below.path] = "the two files refer to each other"
        elif below is not None:
            yield below
