"""Looks for tags in the text of a tree without parsing it.  Pure."""

from __future__ import annotations

import re
from typing import Final

#: ``%TAG ! prefix``: what the handle ``!`` stands for, and directives for other handles (YAML 1.1, section 6.2).
_DIRECTIVE: Final = re.compile(rb"^%TAG[ \t]+(\S+)[ \t]+(\S+)", re.MULTILINE)
#: What may be a tag: a URI in angle brackets, or a handle and a suffix (section 6.2.2).
_TAG: Final = re.compile(rb"!(?:<([^>\s]*)>|([^\s,\[\]{}]*))")
_YAML: Final = b"tag:yaml.org,2002:"


def has_only_tags(text: bytes, prefixes: tuple[str, ...]) -> bool:
    """Return whether all tags in ``text`` begin with one of ``prefixes``.

    Also returns False for some texts without other tags: if text that is no tag looks like one, or if tags are
    written in unusual ways.
    """
    known = tuple(prefix.encode() for prefix in prefixes)
    start = text.find(b"\n---") + 1
    directives = _DIRECTIVE.findall(text, 0, start)
    if len(directives) > 1 or any(handle != b"!" for handle, _ in directives):
        return False
    primary = directives[0][1] if directives else b"!"
    return all(_expanded(uri, short, primary).startswith(known) for uri, short in _TAG.findall(text, start))


def _expanded(uri: bytes, short: bytes, primary: bytes) -> bytes:
    """Return the whole tag; an empty one if it is written in an unusual way."""
    if b"%" in uri or b"%" in short:
        return b""
    if short.startswith(b"!"):
        return _YAML + short[1:]
    return b"" if b"!" in short else uri or primary + short
