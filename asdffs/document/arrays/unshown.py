"""Finds the objects of a tree that have the elements of an array, but that ``arrays/`` cannot show.

| object                                        | reason                                                       |
|-----------------------------------------------|--------------------------------------------------------------|
| file references (DKIST), ``core/externalarray`` | the elements are in other files, which are not ASDF files    |
| arrays of asdf-zarr                           | the chunks are elsewhere, or a library is missing            |
| other objects whose tag says that they are arrays | the tag is not known                                     |

The caller holds the main lock; other requests are served while the tree is read.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from asdffs.arrays.chunked import METADATA, is_chunked, parse_chunked
from asdffs.document.state import FileState
from asdffs.errors import InvalidArrayError, InvalidTreeError
from asdffs.tree.paths import Path
from asdffs.tree.tagged import Found, find_tagged
from asdffs.tree.tape import Tape

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
    from asdffs.document.arrays.chunk_codecs import check_libraries  # few trees have such arrays

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
