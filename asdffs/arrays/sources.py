"""Changes the sources of arrays in the text of a tree; the rest of the text stays as it is.

Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from asdffs.arrays.arrays import find_arrays
from asdffs.arrays.branch import Outline
from asdffs.arrays.ndarrays import Ndarray
from asdffs.dialects.base import Dialect
from asdffs.errors import InvalidTreeError

#: Returns the text of the new source of an array; None keeps the old one.
Wanted = Callable[[Ndarray], str | None]


def with_sources(outline: Outline, wanted: Wanted) -> bytes:
    """Return the text of ``outline`` with new sources; a source that an alias elsewhere uses is not changed."""
    pieces: list[str] = []
    done = 0
    for branch in sorted(outline.arrays, key=lambda branch: branch.source or (0, 0)):
        new = wanted(branch.array) if branch.array is not None else None
        if branch.source is None or branch.shared or new is None:
            continue
        start, stop = branch.source
        if start < done:  # several arrays share it by a merge key or an alias
            continue
        pieces += (outline.text[done:start], new)
        done = stop
    pieces.append(outline.text[done:])
    return "".join(pieces).encode("utf-8", "surrogateescape")


def checked_sources(outline: Outline, wanted: Wanted, dialect: Dialect) -> bytes:
    """Return ``with_sources``, after a check that each array has its new source and nothing else changed.

    Raises ``InvalidTreeError`` if a source is written in a way that cannot be edited alone.
    """
    text = with_sources(outline, wanted)
    old = find_arrays(outline.text.encode("utf-8", "surrogateescape"), dialect)
    new = find_arrays(text, dialect)
    for before, after in zip(old, new, strict=True):
        written = wanted(before)
        expected = before.source if written is None else _read(written)
        if after._replace(source=None, line=0) != before._replace(source=None, line=0) or after.source != expected:
            sentence = f"{before.name}: its source is written in a way that cannot be edited alone; write it plainly"
            raise InvalidTreeError(sentence, line=before.line)
    return text


def uri_of(path: str) -> str:
    """Return a relative path as a URI, quoted for YAML if necessary."""
    uri = quote(path.encode("utf-8", "surrogateescape"), safe="/")
    return uri if uri[0].isalnum() else f'"{uri}"'


def _read(written: str) -> int | str:
    """Return the value of a source that was written by this module."""
    plain = written.strip("\"'")
    try:
        return int(plain, 0)
    except ValueError:
        return plain
