"""Paths of values: ``roman.meta.exposure.type``, ``items[0].name``, ``"odd.key".x``, or a JSON Pointer.

Grammar of the dotted form::

    path  = step *( "." key | index )
    step  = key | index
    key   = bare | JSON string
    bare  = one or more characters, none of . [ ] " ' = < > ! ~ ( ) & | , or white space
    index = "[" integer "]" | "[" JSON string "]"

A path that begins with ``/`` is a JSON Pointer (RFC 6901).  ``.`` alone is the root.  A negative index counts from
the end.  In a sequence, a key of digits is the number of an item, as in a JSON Pointer.  Pure functions.
"""

from __future__ import annotations

import re
from typing import Final

from asdffs.errors import UsageError

#: The keys and numbers of items from the root of the tree to a value.
Path = tuple[str | int, ...]

_BARE: Final = re.compile(r"""[^\s.\[\]"'=<>!~()&|,\x00-\x1f]+""")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_INDEX: Final = re.compile(r"\[(-?\d{1,18})\]")
_ESCAPES: Final = re.compile(r"~(?![01])")


def parse_path(text: str) -> Path:
    """Return the keys and numbers of the path ``text``; the root is an empty tuple.

    Raises ``UsageError`` with the character where the path is wrong.
    """
    if text.startswith("/"):
        return _parse_pointer(text)
    path, end = parse_prefix(text, 0)
    if end < len(text):
        raise _wrong(text, end, "a path cannot go on like this; put keys with such characters into double quotes")
    return path


def parse_prefix(text: str, start: int) -> tuple[Path, int]:
    """Return the longest path in the dotted form that begins at ``start``, and the offset behind it.

    Raises ``UsageError`` where no path begins.
    """
    if re.match(r"\.(?![^\s=])", text[start:]):
        return (), start + 1
    step, end = _step(text, start)
    steps = [step]
    while end < len(text):
        if text[end] == ".":
            step, end = _step(text, end + 1)
        elif text[end] == "[":
            step, end = _step(text, end)
        else:
            break
        steps.append(step)
    return tuple(steps), end


def split_assignment(text: str) -> tuple[Path, str]:
    """Return path and value of ``PATH=VALUE``.  Raises ``UsageError``."""
    if text.startswith("/"):
        pointer, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"{text!r}: a value is missing; write PATH=VALUE")
        return _parse_pointer(pointer), value
    path, end = parse_prefix(text, 0)
    if text[end : end + 1] != "=":
        raise _wrong(text, end, "'=' and a value are missing here; write PATH=VALUE")
    return path, text[end + 1 :]


def format_path(path: Path) -> str:
    """Return the dotted form of ``path``; ``parse_path`` reads it back."""
    parts: list[str] = []
    for step in path:
        if isinstance(step, int):
            parts.append(f"[{step}]")
            continue
        key = step if _BARE.fullmatch(step) and not step.startswith("/") else _quoted(step)
        parts.append(f".{key}" if parts else key)
    return "".join(parts) or "."


def _quoted(key: str) -> str:
    from json import dumps  # not above: most paths have no quotes

    return dumps(key, ensure_ascii=False)


def _step(text: str, start: int) -> tuple[str | int, int]:
    """Return the key or number that begins at ``start``, and the offset behind it."""
    if index := _INDEX.match(text, start):
        return int(index[1]), index.end()
    bracket = text.startswith("[", start)
    if string := _STRING.match(text, start + bracket):
        end = string.end()
        if bracket and not text.startswith("]", end):
            raise _wrong(text, end, "']' is missing here")
        return _read_string(text, string), end + bracket
    bare = None if bracket else _BARE.match(text, start)
    if bare is None:
        raise _wrong(text, start, "a key, or a number in brackets, is missing here")
    return bare[0], bare.end()


def _read_string(text: str, string: re.Match[str]) -> str:
    from json import loads

    try:
        return str(loads(string[0]))
    except ValueError as err:
        raise _wrong(text, string.start(), "this is not a JSON string") from err


def _parse_pointer(text: str) -> Path:
    if wrong := _ESCAPES.search(text):
        raise _wrong(text, wrong.start(), "in a JSON Pointer '~' is written '~0', and '/' in a key '~1'")
    return tuple(key.replace("~1", "/").replace("~0", "~") for key in text[1:].split("/"))


def _wrong(text: str, place: int, sentence: str) -> UsageError:
    return UsageError(f"path {text!r}, character {place + 1}: {sentence}")
