"""Finds the properties in the files of a store: version, scalars, axes, vectors, matrices, and unknown files.

A property is *whole* if all of its files exist and their sizes fit each other and the axes.  Only whole properties
become nodes of a tree.  The files of the others, and files that FilesDaf does not know, are kept as files.

``check_store`` checks what sizes do not show (sections 5, 6, 8, 9): entries of an axis are unique and not empty,
lines are UTF-8, indices lie within their axis and increase strictly, column pointers begin at 1, never decrease, and
end one after the last value, a Bool is 0 or 1, a stored text is not empty.  For one thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from asdffs.errors import AsdffsError, InvalidStoreError
from asdffs.features.daf.files import Files, count_lines, elements, has_returns, parse_lines, sorted_paths
from asdffs.features.daf.format import (
    BOOL,
    JSON,
    LARGEST,
    SECTIONS,
    SENTINEL,
    STRING,
    DafScalar,
    Descriptor,
    Eltype,
    Key,
    Version,
    is_axis_directory,
    parse_descriptor,
    parse_scalar,
    parse_version,
    place_of,
)

if TYPE_CHECKING:
    import numpy as np

_INDICES: Final = ("nzind", "colptr", "rowval")
_ORDER: Final = ("scalar", "axis", "vector", "matrix")


class Fault(NamedTuple):
    """A fault of the file ``path``.  ``kept``: only a note, for example on a packed file that is kept unread."""

    path: str
    sentence: str
    kept: bool = False


class ArrayProperty(NamedTuple):
    """A vector or matrix.  ``shape``: lengths of its axes; ``parts``: its files except the JSON, in order.

    ``nonzero``: number of stored elements if it is sparse.
    """

    key: Key
    descriptor: Descriptor
    shape: tuple[int, ...]
    parts: tuple[str, ...]
    nonzero: int = 0

    @property
    def eltype(self) -> Eltype:
        """Type of its elements."""
        return self.descriptor.eltype

    @property
    def counts(self) -> dict[str, int]:
        """Number of elements of each part if it is sparse, by the names that a descriptor uses."""
        names = {"nztxt": "nzval"}
        return {
            names.get(part, part): self.shape[-1] + 1 if part == "colptr" else self.nonzero for part in self.parts
        }


class Properties:
    """The properties of a store.  ``axes``: their lengths; ``unknown``: paths of files that belong to no property."""

    def __init__(self) -> None:
        self.version: Version | None = None
        self.scalars: dict[Key, DafScalar] = {}
        self.axes: dict[str, int] = {}
        self.arrays: dict[Key, ArrayProperty] = {}
        self.unknown: list[str] = []
        self.faults: list[Fault] = []


def find_properties(files: Files) -> Properties:
    """Find the properties in all files; only descriptors and lines are read.  Raises ``OSError``."""
    found = Properties()
    groups: dict[Key, list[str]] = {}
    for path in sorted_paths(files.contents):
        place = place_of(path)
        if place is not None:
            groups.setdefault(place[0], []).append(place[1])
        elif path == SENTINEL:
            _take_version(found, files)
        else:
            found.unknown.append(path)
    for key in sorted(groups, key=lambda key: (_ORDER.index(key.kind), key)):
        take_property(found, files, key, groups[key])
    return found


def _take_version(found: Properties, files: Files) -> None:
    try:
        found.version = parse_version(files.short(SENTINEL, LARGEST))
    except InvalidStoreError as err:
        found.faults.append(Fault(SENTINEL, err.sentence))
        found.unknown.append(SENTINEL)


def take_property(found: Properties, files: Files, key: Key, parts: list[str]) -> None:
    """Add one property, found by its files ``parts``, to ``found``; its axes must be there already.

    The files of a property that is not whole become unknown, with a fault.
    """
    used: tuple[str, ...] = ()
    try:
        used = _judge(found, files, key, parts)
    except InvalidStoreError as err:
        found.faults.append(Fault(err.path or key.path(parts[0]), err.sentence, kept=err.packed))
    extra = [key.path(part) for part in parts if part not in used]
    found.unknown += extra
    if used:
        found.faults += [Fault(path, "belongs to no property: the descriptor names no such file") for path in extra]


def _judge(found: Properties, files: Files, key: Key, parts: list[str]) -> tuple[str, ...]:
    """Add the property to ``found`` and return its parts.

    Raises ``InvalidStoreError`` with ``path`` if the property is not valid.
    """
    if key.kind == "axis":
        with _at(key.path("txt")):
            found.axes[key.name] = count_lines(files.contents[key.path("txt")])
            if has_returns(files.contents[key.path("txt")]):
                sentence = "its lines end in CR LF, and the CR is a part of each entry; sed -i 's/\\r$//' removes it"
                found.faults.append(Fault(key.path("txt"), sentence, kept=True))
        return ("txt",)
    if key.kind == "scalar":
        with _at(key.path(JSON)):
            found.scalars[key] = parse_scalar(files.short(key.path(JSON), LARGEST))
        return (JSON,)
    array = judge_array(files, key, parts, found.axes)
    found.arrays[key] = array
    return (JSON, *array.parts)


@contextlib.contextmanager
def _at(path: str) -> Iterator[None]:
    """Attribute faults raised inside the block to the file ``path``."""
    try:
        yield
    except InvalidStoreError as err:
        err.path = err.path or path
        raise


def judge_array(files: Files, key: Key, parts: list[str], axes: Mapping[str, int]) -> ArrayProperty:
    """Return the vector or matrix of these files.  Raises ``InvalidStoreError`` with ``path`` if it is not whole."""
    if JSON not in parts:
        raise InvalidStoreError(f"has no descriptor {key.name}.{JSON} beside it", path=key.path(parts[0]))
    with _at(key.path(JSON)):
        descriptor = parse_descriptor(files.short(key.path(JSON), LARGEST), matrix=key.kind == "matrix")
        missing = next((axis for axis in key.axes if axis not in axes), None)
        if missing is not None:
            raise InvalidStoreError(f"belongs to the axis {missing!r}, which the store does not have")
        shape = tuple(axes[axis] for axis in key.axes)
        wanted = tuple(_needed_parts(descriptor, key, parts))
        for part in wanted:
            if part not in parts:
                raise InvalidStoreError(f"{key.name}.{part} is missing")
    nonzero = _nonzero(files, key, descriptor, wanted)
    array = ArrayProperty(key, descriptor, shape, wanted, nonzero)
    for part in wanted:
        with _at(key.path(part)):
            _check_size(files, array, part)
    return array


def _needed_parts(descriptor: Descriptor, key: Key, parts: list[str]) -> Iterator[str]:
    """Yield the parts that it must have beside its descriptor."""
    strings = descriptor.eltype.name == STRING
    if descriptor.format == "dense":
        yield "txt" if strings else "data"
        return
    yield from ("colptr", "rowval") if key.kind == "matrix" else ("nzind",)
    stated = "nzval" in parts if descriptor.valued is None else descriptor.valued
    implied = descriptor.eltype.name == BOOL and not stated
    if not implied:
        yield "nztxt" if strings else "nzval"


def _nonzero(files: Files, key: Key, descriptor: Descriptor, wanted: tuple[str, ...]) -> int:
    """Return the number of stored elements of a sparse array, from the size of its indices; 0 for a dense one."""
    if descriptor.indtype is None:
        return 0
    part = wanted[1] if wanted[0] == "colptr" else wanted[0]
    return files.contents[key.path(part)].size // descriptor.indtype.size


def _check_size(files: Files, array: ArrayProperty, part: str) -> None:
    content, length = files.contents[array.key.path(part)], expected_length(array, part)
    eltype = part_type(array, part)
    if eltype.name == STRING:
        count = count_lines(content)
        if count != length:
            raise InvalidStoreError(f"has {count} lines; {_of(array, part)} has {length}")
    elif content.size != length * eltype.size:
        sentence = f"has {content.size} bytes; {length} elements of {eltype.name} have {length * eltype.size}"
        raise InvalidStoreError(sentence)
    stated = array.descriptor.counts.get("nzval" if part == "nztxt" else part, length)
    if stated != length:
        raise InvalidStoreError(f"has {length} elements; its descriptor says {stated}")


def _of(array: ArrayProperty, part: str) -> str:
    return "its indices" if part == "nztxt" else " by ".join(f"the axis {axis!r}" for axis in array.key.axes)


def expected_length(array: ArrayProperty, part: str) -> int:
    """Return the number of elements or lines that a part must have."""
    if part == "colptr":
        return array.shape[-1] + 1
    if part in ("data", "txt"):
        return array.shape[0] * (array.shape[1] if len(array.shape) > 1 else 1)
    return array.nonzero


def part_type(array: ArrayProperty, part: str) -> Eltype:
    """Return the type of the elements of a part."""
    indtype = array.descriptor.indtype
    if indtype is not None and part in _INDICES:
        return indtype
    return array.eltype


# -- what sizes do not show --


def check_store(files: Files, step: Callable[[int], object] = lambda size: None) -> list[Fault]:
    """Return all faults, sorted by path.

    ``step`` is called with the size in bytes of each file that was checked.  Raises ``OSError``.
    """
    found = find_properties(files)
    faults = [*_missing(files, found), *found.faults]
    for name in found.axes:
        path = Key("axis", (), name).path("txt")
        try:
            faults += (Fault(path, sentence) for sentence in _check_axis(parse_lines(files.whole(path))))
        except AsdffsError as err:
            faults.append(Fault(path, err.sentence))
        step(files.contents[path].size)
    for array in found.arrays.values():
        faults += _check_array(files, array, step)
    return sorted(faults, key=lambda fault: fault.path)


def _missing(files: Files, found: Properties) -> Iterator[Fault]:
    """Yield faults for missing sections, a missing ``daf.json`` (section 2), and directories of unknown axes."""
    if SENTINEL not in files.contents:
        yield Fault(SENTINEL, "is missing")
    for section in SECTIONS:
        if section not in files.directories:
            yield Fault(section, "the directory is missing")
    for path in sorted(filter(is_axis_directory, files.directories)):
        for axis in set(path.split("/")[1:]) - set(found.axes):
            yield Fault(path, f"belongs to the axis {axis!r}, which the store does not have", kept=True)


def _check_axis(lines: list[str]) -> Iterator[str]:
    places: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line:
            yield f"line {number} is empty"
        elif places.setdefault(line, number) != number:
            yield f"line {number} is {line[:60]!r}, as is line {places[line]}"


def _check_array(files: Files, array: ArrayProperty, step: Callable[[int], object]) -> Iterator[Fault]:
    indices: dict[str, np.ndarray[Any, Any]] = {}
    for part in array.parts:
        path, eltype = array.key.path(part), part_type(array, part)
        try:
            if eltype.name == STRING:
                lines = parse_lines(files.whole(path))
                if part == "nztxt" and "" in lines:
                    yield Fault(path, f"line {lines.index('') + 1} is empty: values that are empty are left out")
            elif part in _INDICES:
                indices[part] = elements(files.contents[path], eltype)
            elif eltype.name == BOOL:
                elements(files.contents[path], eltype)
        except AsdffsError as err:
            yield Fault(path, err.sentence)
        step(files.contents[path].size)
    for part, sentence in check_indices(array, indices):
        yield Fault(array.key.path(part), sentence)


def check_indices(array: ArrayProperty, parts: Mapping[str, np.ndarray[Any, Any]]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the indices of a sparse array: the part, and a sentence.

    ``parts``: its arrays that could be read, by name.
    """
    if "nzind" in parts:
        yield from (("nzind", sentence) for sentence in _check_indices(parts["nzind"], array.shape[0]))
    if "colptr" in parts:
        found = list(_check_pointers(parts["colptr"], array.nonzero))
        yield from (("colptr", sentence) for sentence in found)
        if not found and "rowval" in parts:
            rows = _check_rows(parts["rowval"], parts["colptr"], array.shape[0])
            yield from (("rowval", sentence) for sentence in rows)


def _check_indices(numbers: np.ndarray[Any, Any], length: int) -> Iterator[str]:
    """Check that indices are 1-based, within the axis, and strictly increasing (section 8.2)."""
    yield from _check_range(numbers, length)
    at = _first(numbers[1:] <= numbers[:-1])
    if at is not None:
        yield f"element {at + 2} is {numbers[at + 1]} after {numbers[at]}: indices must strictly increase"


def _check_range(numbers: np.ndarray[Any, Any], length: int) -> Iterator[str]:
    at = _first((numbers < 1) | (numbers > length))
    if at is not None:
        yield f"element {at + 1} is {numbers[at]}; the axis has {length} entries"


def _check_pointers(numbers: np.ndarray[Any, Any], nonzero: int) -> Iterator[str]:
    """Check that pointers go from 1 to one after the last value and never decrease (section 9.2)."""
    if int(numbers[0]) != 1:
        yield f"element 1 is {numbers[0]} and should be 1"
    if int(numbers[-1]) != nonzero + 1:
        yield f"the last element is {numbers[-1]} and should be {nonzero + 1}: one after the last value"
    at = _first(numbers[1:] < numbers[:-1])
    if at is not None:
        yield f"element {at + 2} is {numbers[at + 1]} after {numbers[at]}: pointers must not decrease"


def _first(wrong: np.ndarray[Any, Any]) -> int | None:
    """Return the position of the first true element, None without one."""
    return int(wrong.argmax()) if wrong.any() else None


def _check_rows(numbers: np.ndarray[Any, Any], colptr: np.ndarray[Any, Any], length: int) -> Iterator[str]:
    """Check that row indices are within the axis and strictly increasing in each column."""
    import numpy as np

    yield from _check_range(numbers, length)
    later = numbers[1:] <= numbers[:-1]
    first = colptr[1:-1].astype(np.int64) - 1  # the first row of a column may be any
    first = first[(first > 0) & (first < len(numbers))]
    later[first - 1] = False
    at = _first(later)
    if at is not None:
        yield f"element {at + 2} is {numbers[at + 1]} after {numbers[at]} in one column: rows must strictly increase"
