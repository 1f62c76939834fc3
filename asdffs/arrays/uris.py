"""Resolves URIs in sources to files on this machine (section Exploded form).

A source that is a URI means the first block of that file.  A relative URI is relative to the directory of the file
that has the source.  A remote file leads to no file on this machine.  Pure functions.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from urllib.parse import SplitResult  # and late below: most commands resolve no URI

_LOCAL = ("", "localhost")


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
