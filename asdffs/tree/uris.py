"""URIs for sources: the files on this machine that they lead to (section Exploded form).

A source that is a URI means the first block of the file it leads to, relative to the file it is in.  Pure functions.
"""

from __future__ import annotations

import posixpath
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

_LOCAL = ("", "localhost")


def resolve(source: str, base: str) -> str | None:
    """The path that the URI ``source`` in the file ``base`` leads to; None when it is not on this machine."""
    parts = _split(source)
    if parts is None:
        return None
    path = unquote_to_bytes(parts.path).decode("utf-8", "surrogateescape")
    return posixpath.normpath(posixpath.join(posixpath.dirname(base), path))


def is_relative(source: str) -> bool:
    """Whether it is a path relative to the file it is in."""
    parts = _split(source)
    return parts is not None and not parts.scheme and not parts.netloc and not parts.path.startswith("/")


def _split(source: str) -> SplitResult | None:
    """Its parts, when it leads to a file on this machine."""
    try:
        parts = urlsplit(source)
    except ValueError:  # no URI at all
        return None
    local = parts.scheme in ("", "file") and parts.netloc in _LOCAL and bool(parts.path)
    local = local and b"\0" not in unquote_to_bytes(parts.path)  # no name has that
    return parts if local else None
