"""Finds arrays that cannot be shown, with the sentences with which views and the Python API refuse them.

``find_faults`` is for ``check``.  Besides the place of elements in their block (``arrays/placement``), it checks
values in the tree and masks.  ``find_unshown`` finds the objects that have the elements of an array, but that
``arrays/`` does not show:

| object                                          | reason                                                       |
|-------------------------------------------------|--------------------------------------------------------------|
| file references (DKIST), ``core/externalarray`` | the elements are in other files, which are not ASDF files    |
| arrays of asdf-zarr                             | the chunks are elsewhere, or a library is missing            |
| other objects whose tag says that they are arrays | the tag is not known                                       |

The caller holds the main lock; other requests are served while the tree is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from asdffs.arrays.branch import Branch
from asdffs.arrays.chunked import METADATA, is_chunked, parse_chunked
from asdffs.arrays.ndarrays import Ndarray
from asdffs.arrays.placement import ArrayFault, array_errors, block_of, fault_in_block
from asdffs.document.arrays.chunks import missing_library
from asdffs.document.arrays.elements import Elements
from asdffs.document.arrays.finding import elements_of
from asdffs.document.arrays.masks import ValueMask, check_mask_shape
from asdffs.document.state import FileState
from asdffs.errors import DamagedBlockError, InvalidArrayError, InvalidTreeError
from asdffs.tree.paths import Path
from asdffs.tree.tagged import Found, find_tagged
from asdffs.tree.tape import Tape

_MASK = "mask"


def find_faults(file: FileState) -> Iterator[ArrayFault]:
    """Yield the faults of all arrays in the committed tree, except for those with elements in other ASDF files.

    A damaged block is not a fault of its array.  Raises ``OSError``.
    """
    for branch in file.outlines.outline().arrays:
        array = branch.array
        if array is None:
            continue
        sentence = (
            _fault_in_container(file, branch) if isinstance(array.source, str) else _fault_of(file, branch, array)
        )
        if sentence:
            yield ArrayFault(array, sentence)


def _fault_in_container(file: FileState, branch: Branch) -> str:
    """Return what is wrong with an array whose elements are in the file around the ASDF file; empty for others."""
    try:
        with array_errors(branch.line):
            if branch.array is not None and file.region(branch.array.source) is not None:
                elements_of(file, branch)
    except InvalidArrayError as err:
        return err.sentence
    except OSError:
        return ""
    return ""


def _fault_of(file: FileState, branch: Branch, array: Ndarray) -> str:
    contents = file.contents
    if branch.inline is None and array.chunked is None:
        sentence = fault_in_block(array, contents.count, contents.stated_size)
        if sentence:
            return sentence
    try:
        with array_errors(branch.line):
            if _has_no_codec(file, branch, array):
                return ""
            _check_mask(file, branch, elements_of(file, branch))
    except InvalidArrayError as err:
        return err.sentence
    except (DamagedBlockError, OSError):
        return ""
    return ""


def _has_no_codec(file: FileState, branch: Branch, array: Ndarray) -> bool:
    """Return whether the elements cannot be decoded here, which is not a fault of the array."""
    if array.chunked is not None:
        return bool(missing_library(array.chunked))
    return branch.inline is None and bool(file.contents.obstacle(block_of(file.contents.count, array)))


def _check_mask(file: FileState, branch: Branch, elements: Elements) -> None:
    """Raise ``InvalidArrayError`` if the mask does not fit (schema core/ndarray: it must be broadcastable)."""
    if _MASK in branch.scalars:
        ValueMask(elements, branch.scalars[_MASK], file.scheduler)
    mask = branch.children.get(_MASK)
    if mask is None or mask.array is None or isinstance(mask.array.source, str):
        return
    check_mask_shape(elements_of(file, mask).shape, elements.shape)


#: The last part of the tag of an object that has an array, without its version.
_ARRAYS: Final = re.compile(r"(array|zarr|file_manager|file_references?)[a-z_]*-?[0-9.]*$")
#: Names of files, of which only the number matters.
_FILES: Final = ("fileuris", "fileuri")


class Unshown(NamedTuple):
    """An object with an array that is not shown.

    ``path``: from the root; ``line``: from 1; ``shape``: lengths of the axes, None if it is not known; ``reason``: a
    sentence.
    """

    path: Path
    tag: str
    line: int
    shape: tuple[int, ...] | None
    reason: str


def find_unshown(file: FileState) -> list[Unshown]:
    """Return the objects of the committed tree by the table above, in its order; none if it is not valid YAML.

    Raises ``OSError``.
    """
    dialect, text = file.dialect, file.tree.text()
    with file.scheduler.waiting():
        try:
            found = [*find_tagged(Tape(text), lambda tag: bool(_ARRAYS.search(tag)) and not dialect.is_ndarray(tag))]
        except InvalidTreeError:
            return []
        objects = [_unshown(one, reason) for one in found if isinstance(one.value, dict) and (reason := _reason(one))]
    return sorted(objects, key=lambda one: one.line)


def facts_of(unshown: Unshown) -> dict[str, Any]:
    """Return the facts as JSON has them."""
    facts = unshown._asdict()
    return {**facts, "path": "/".join(map(str, unshown.path))}


def _unshown(found: Found, reason: str) -> Unshown:
    value = found.value
    zarr = value.get(METADATA)
    shape = _shape(zarr.get("shape") if isinstance(zarr, dict) else value.get("shape"))
    return Unshown(found.path, found.tag, found.line, shape, reason)


def _reason(found: Found) -> str:
    """Return why the object is not shown; empty if it is."""
    if is_chunked(found.tag):
        return _reason_of_chunks(found.value)
    value, tag = found.value, found.tag
    files = next((value[name] for name in _FILES if name in value), None)
    if files is None:
        return f"asdffs does not know objects with the tag {tag}"
    count = _count(files)
    return f"its elements are in {count} other {'file' if count == 1 else 'files'}, which asdffs does not read"


def _reason_of_chunks(value: dict[str, Any]) -> str:
    from asdffs.document.arrays.chunks import check_libraries  # few trees have such arrays

    try:
        check_libraries(parse_chunked(value))
    except InvalidArrayError as err:
        return err.sentence
    return ""


def _count(files: Any) -> int:
    """Return the number of names in a list, or in lists of lists."""
    return sum(map(_count, files)) if isinstance(files, list) else 1


def _shape(stated: Any) -> tuple[int, ...] | None:
    if isinstance(stated, list) and all(isinstance(length, int) and length >= 0 for length in stated):
        return tuple(stated)
    return None
