"""Finds the arrays whose bytes lie in another file, and checks that file (section Exploded form).

A source that is a URI means the first block of the file it leads to, relative to the file it is in.
Reads other files, changes none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from asdffs.document.document import Document
from asdffs.document.opening import open_document
from asdffs.errors import AsdffsError, reason_of
from asdffs.tree.ndarrays import Ndarray
from asdffs.tree.placement import fault_in_block
from asdffs.tree.uris import resolve


@dataclass(frozen=True, slots=True)
class External:
    """An array of ``source``.  ``path``: the file it leads to, None where that is no file on this machine.

    ``data_size``: of its first block in bytes, None with ``trouble``, a sentence that says why.
    """

    array: Ndarray
    source: str
    path: str | None
    data_size: int | None
    trouble: str = ""


def find_externals(document: Document, arrays: Iterable[Ndarray]) -> list[External]:
    """Those of the tree's arrays whose source is a URI.  Each file is opened once."""
    seen: dict[str, int | str] = {}
    return [_look(document, array, array.source, seen) for array in arrays if isinstance(array.source, str)]


def _look(document: Document, array: Ndarray, source: str, seen: dict[str, int | str]) -> External:
    path = resolve(source, document.path)
    if path is None:
        return External(array, source, None, None, "its source is no file on this machine and is not followed")
    if path not in seen:
        seen[path] = _first_block_size(path)
    found = seen[path]
    if isinstance(found, str):
        return External(array, source, path, None, found)
    fault = fault_in_block(array._replace(source=0), 1, lambda number: found)
    return External(array, source, path, found, f"{fault} (block 0 of {path})" if fault else "")


def _first_block_size(path: str) -> int | str:
    """In bytes, or why there is none."""
    try:
        other = open_document(path, writable=False)
    except (AsdffsError, OSError) as err:
        return f"its source cannot be read: {reason_of(err)}"
    try:
        return other.blocks[0].size
    except (AsdffsError, OSError) as err:
        return f"its source {path} cannot be read: {reason_of(err)}"
    finally:
        other.close()
