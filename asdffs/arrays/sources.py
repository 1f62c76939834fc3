"""Sources of arrays: resolves those that are URIs, and changes them in the text of a tree.

A source that is a URI means the first block of that file (section Exploded form).  A relative URI is relative to the
directory of the file that has the source.  A remote file leads to no file on this machine.  Pure functions.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import TYPE_CHECKING

from asdffs.arrays.branch import Outline
from asdffs.arrays.ndarrays import Ndarray, find_arrays
from asdffs.dialects.base import Dialect
from asdffs.errors import InvalidTreeError
from asdffs.format.text import with_replaced

if TYPE_CHECKING:
    from urllib.parse import SplitResult  # and late below: most commands resolve no URI

#: Hosts of a URI that are this machine.
_LOCAL = ("", "localhost")

#: Returns the text of the new source of an array; None keeps the old one.
Wanted = Callable[[Ndarray], str | None]


def resolve(source: str, base: str) -> str | None:
    """Return the path that the URI ``source`` in the file ``base`` refers to; None if it is not on this machine.

    ``base``: an absolute path, or the URL of a remote file, which leads nowhere.
    """
    from urllib.parse import unquote_to_bytes

    parts = _split(source)
    if parts is None or not base.startswith("/"):
        return None
    path = unquote_to_bytes(parts.path).decode("utf-8", "surrogateescape")
    return posixpath.normpath(posixpath.join(posixpath.dirname(base), path))


def is_relative(source: str) -> bool:
    """Return whether ``source`` is a relative path."""
    parts = _split(source)
    return parts is not None and not parts.scheme and not parts.netloc and not parts.path.startswith("/")


def _split(source: str) -> SplitResult | None:
    """Return the parts of a URI that refers to a file on this machine, else None."""
    from urllib.parse import unquote_to_bytes, urlsplit

    try:
        parts = urlsplit(source)
    except ValueError:  # not a URI
        return None
    local = parts.scheme in ("", "file") and parts.netloc in _LOCAL and bool(parts.path)
    local = local and b"\0" not in unquote_to_bytes(parts.path)  # file names cannot contain NUL
    return parts if local else None


def with_sources(outline: Outline, wanted: Wanted) -> bytes:
    """Return the text of ``outline`` with new sources; a source that an alias elsewhere uses is not changed."""
    spans = []
    for branch in outline.arrays:
        new = wanted(branch.array) if branch.array is not None else None
        if branch.source is not None and not branch.shared and new is not None:
            spans.append((*branch.source, new))  # several arrays may share one, by a merge key or an alias
    return with_replaced(outline.text, spans).encode("utf-8", "surrogateescape")


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
    from urllib.parse import quote

    uri = quote(path.encode("utf-8", "surrogateescape"), safe="/")
    return uri if uri[0].isalnum() else f'"{uri}"'


def _read(written: str) -> int | str:
    """Return the value of a source that was written by this module."""
    plain = written.strip("\"'")
    try:
        return int(plain, 0)
    except ValueError:
        return plain
