"""Which array, and which elements of it, a text such as ``roman.data[0, 10:20]`` means.

The array is named as for ``asdffs get`` or as in ``arrays/`` of a mount; the index behind it is that of numpy.
"""

from __future__ import annotations

import re
from typing import Any, Final

from asdffs.arrays.branch import Branch, is_table
from asdffs.arrays.outline import COLUMNS
from asdffs.document.arrays.array import Array
from asdffs.document.document import Document
from asdffs.document.state import FileState
from asdffs.errors import UsageError
from asdffs.tree.paths import Path, name_of, parse_path

_INDEX: Final = re.compile(r"(.*)\[([^\[\]]*)\]", re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?\d{1,18}")
#: What a quantity calls its array.
VALUE: Final = "value"


def find_array(document: Document, text: str) -> tuple[Array, str, tuple[Any, ...]] | None:
    """Return the array that ``text`` means, its path, and the index behind it; None if it means no array.

    ``text``: a path as in ``document.arrays`` or as for ``asdffs get``, and perhaps an index as in numpy.  The number
    of an item of a list comes first: of ``a[0]``, the array in the list, if there is one.  Raises ``UsageError``.
    """
    found = _named(document, text)
    if found is not None:
        return *found, ()
    parts = _INDEX.fullmatch(text)
    if parts is None:
        return None
    found = _named(document, parts[1])
    return None if found is None else (*found, _parse_index(parts[2]))


def find_table(
    document: Document, text: str, found: tuple[Array, str, tuple[Any, ...]] | None
) -> tuple[FileState, Branch] | None:
    """Return the table, or the array of records, that ``text`` means as a whole, and its file; None without one.

    ``found``: what ``find_array`` returned for ``text``.
    """
    if found is not None:
        array, _, index = found
        branch = array.branch
        records = branch.array is not None and branch.array.has_records and not index
        return (array.file, branch) if records else None
    try:
        branch = document.outlines.branch(parse_path(text))
    except (KeyError, UsageError):
        return None
    return (document, branch) if is_table(branch.tag) else None


def _named(document: Document, text: str) -> tuple[Array, str] | None:
    """Return the array at a path, or that of the quantity or the column there."""
    try:
        dotted: Path | None = parse_path(text)
    except UsageError:
        dotted = None
    names = [text.strip("/"), *(["/".join(map(name_of, dotted))] if dotted is not None else [])]
    for name in names:
        column = name.rpartition("/")[0].rpartition("/")[2] == COLUMNS
        for whole in (name, *(f"{name}/{inner}".lstrip("/") for inner in (VALUE, *(["data"] if column else [])))):
            try:
                return document.arrays[whole], whole
            except KeyError:
                continue
    return None


def _parse_index(text: str) -> tuple[Any, ...]:
    """Return an index of integers, slices and ``...``, as numpy writes it.  Raises ``UsageError``."""
    return tuple(_key(part.strip(), text) for part in text.split(",")) if text.strip() else ()


def _key(part: str, text: str) -> Any:
    if part == "...":
        return Ellipsis
    ends = part.split(":")
    if len(ends) > 3 or not all(not end.strip() or _NUMBER.fullmatch(end.strip()) for end in ends):
        raise UsageError(f"[{text}]: give integers, slices such as 10:20 or ::2, and ..., with commas between them")
    numbers = [int(end) if end.strip() else None for end in ends]
    if len(ends) == 1:
        if numbers[0] is None:
            raise UsageError(f"[{text}]: there is nothing between two commas")
        return numbers[0]
    if len(ends) == 3 and numbers[2] == 0:
        raise UsageError(f"[{text}]: a step cannot be 0")
    return slice(*numbers)


def format_index(index: tuple[Any, ...]) -> str:
    """Return an index as it is typed, ``[0, 10:20]``; empty for an empty one."""
    return f"[{', '.join(map(_typed, index))}]" if index else ""


def _typed(key: Any) -> str:
    if not isinstance(key, slice):
        return "..." if key is Ellipsis else str(key)
    ends = ["" if end is None else str(end) for end in (key.start, key.stop)]
    return ":".join(ends) if key.step in (None, 1) else ":".join((*ends, str(key.step)))
