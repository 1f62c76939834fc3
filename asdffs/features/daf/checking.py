"""Checks of a store's contents that file sizes cannot decide (specification, sections 5, 6, 8, 9).

Entries of an axis are unique and not empty.  Lines are UTF-8.  Indices lie within their axis and increase strictly.
Column pointers begin at 1, never decrease, and end one after the last value.  A Bool is 0 or 1.

For one thread.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from asdffs.errors import AsdffsError
from asdffs.features.daf.eltypes import STRING
from asdffs.features.daf.files import Files
from asdffs.features.daf.lines import parse_lines
from asdffs.features.daf.numbers import elements
from asdffs.features.daf.places import SECTIONS, SENTINEL, Key, is_axis_directory
from asdffs.features.daf.properties import ArrayProperty, Fault, Properties, find_properties, part_type

if TYPE_CHECKING:
    import numpy as np


def check_store(files: Files, step: Callable[[int], object] = lambda size: None) -> list[Fault]:
    """Return all faults, sorted by path.

    ``step`` is called with the size in bytes of each file that was checked.  Raises ``OSError``.
    """
    found = find_properties(files)
    faults = [*_missing(files, found), *found.faults]
    for name in found.axes:
        path = Key("axis", (), name).path("txt")
        faults += _judged(path, functools.partial(_check_axis, files, path))
        step(files.contents[path].size)
    for array in found.arrays.values():
        for part in array.parts:
            path = array.key.path(part)
            faults += _judged(path, functools.partial(_check_part, files, array, part))
            step(files.contents[path].size)
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


def _judged(path: str, check: Callable[[], Iterator[str]]) -> list[Fault]:
    try:
        return [Fault(path, sentence) for sentence in check()]
    except AsdffsError as err:
        return [Fault(path, err.sentence)]


def _check_axis(files: Files, path: str) -> Iterator[str]:
    lines = parse_lines(files.whole(path))
    places: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line:
            yield f"line {number} is empty"
        elif places.setdefault(line, number) != number:
            yield f"line {number} is {line[:60]!r}, as is line {places[line]}"


def _check_part(files: Files, array: ArrayProperty, part: str) -> Iterator[str]:
    content = files.contents[array.key.path(part)]
    eltype = part_type(array, part)
    if eltype.name == STRING:
        parse_lines(files.whole(array.key.path(part)))
        return
    if eltype.descr != "|b1" and part not in ("nzind", "colptr", "rowval"):
        return
    numbers = elements(content, eltype)
    if part == "nzind":
        yield from _check_indices(numbers, array.shape[0])
    elif part == "colptr":
        yield from _check_pointers(numbers, array.nonzero)
    elif part == "rowval":
        colptr = elements(files.contents[array.key.path("colptr")], eltype)
        if not list(_check_pointers(colptr, array.nonzero)):
            yield from _check_rows(numbers, colptr, array.shape[0])


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


def check_sparse(array: ArrayProperty, parts: Mapping[str, np.ndarray[Any, Any]]) -> Iterator[str]:
    """Yield what is wrong with the indices of a sparse array; ``parts``: its arrays, by name."""
    if "nzind" in parts:
        yield from _check_indices(parts["nzind"], array.shape[0])
    elif not (found := list(_check_pointers(parts["colptr"], array.nonzero))):
        yield from _check_rows(parts["rowval"], parts["colptr"], array.shape[0])
    else:
        yield from found


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
