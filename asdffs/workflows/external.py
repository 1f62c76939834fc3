"""Finds the arrays with their bytes in another file, and checks that file (section Exploded form).

A source that is a URI, relative to its own file, refers to the first block of another file.  This module reads other
files and changes none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from asdffs.arrays.ndarrays import Ndarray
from asdffs.arrays.placement import fault_in_block
from asdffs.arrays.sources import resolve
from asdffs.document.document import Document
from asdffs.document.opening import open_document
from asdffs.errors import AsdffsError, InvalidArrayError, reason_of


class External(NamedTuple):
    """An array with the URI ``source``.

    ``path``: the file that the URI leads to; None if it is not a file on this machine.  ``data_size``: the size of
    the first block of that file in bytes; None if it cannot be read.  ``trouble``: a sentence about a problem, or
    empty.
    """

    array: Ndarray
    source: str
    path: str | None
    data_size: int | None
    trouble: str = ""


def find_externals(document: Document, arrays: Iterable[Ndarray]) -> list[External]:
    """Return the arrays with a URI as source.  Each file is opened once."""
    seen: dict[str, int | str] = {}
    return [
        _look(document, array, array.source, seen)
        for array in arrays
        if isinstance(array.source, str) and not _is_inside(document, array.source)
    ]


def _is_inside(document: Document, source: str) -> bool:
    """Return whether a source refers to data of the file that the ASDF file is inside of, whether there or not."""
    try:
        return document.region(source) is not None
    except InvalidArrayError:
        return True


def _look(document: Document, array: Ndarray, source: str, seen: dict[str, int | str]) -> External:
    path = resolve(source, document.path)
    if path is None:
        return External(array, source, None, None, "its source is not a file on this machine and is not followed")
    if path not in seen:
        seen[path] = _first_block_size(path)
    found = seen[path]
    if isinstance(found, str):
        return External(array, source, path, None, found)
    fault = fault_in_block(array._replace(source=0), 1, lambda number: found)
    return External(array, source, path, found, f"{fault} (block 0 of {path})" if fault else "")


def _first_block_size(path: str) -> int | str:
    """Return the size of the first block in bytes, or a sentence that says why it cannot be read."""
    try:
        other = open_document(path, writable=False)
    except (AsdffsError, OSError) as err:
        return f"its source cannot be read: {reason_of(err)}"
    try:
        return other.blocks[0].size if other.blocks else f"its source {path} has no block that can be read"
    except (AsdffsError, OSError) as err:
        return f"its source {path} cannot be read: {reason_of(err)}"
    finally:
        other.close()
