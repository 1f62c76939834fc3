"""Paths of values: ``roman.meta.exposure.type``, ``items[0].name``, ``"odd.key".x``, or a JSON Pointer.

Grammar of the dotted form::

    path  = step *( "." key | index )
    step  = key | index
    key   = bare | JSON string
    bare  = one or more characters, none of . [ ] " ' = < > ! ~ ( ) & | , or white space
    index = "[" integer "]" | "[" JSON string "]"

A first key with ``/`` must be in quotes: who writes ``meta/n`` means ``meta.n``.  A path that begins with ``/`` is a
JSON Pointer (RFC 6901).  ``.`` alone is the root.  A negative index counts from the end.  In a sequence, a key of
digits is the number of an item, as in a JSON Pointer.

``parse_prefix`` reads every path of the command line: alone, before ``=``, in a list, and in a condition.

In a mount, a key is the name of a file or directory (``name_of``).  Characters that a file name cannot have are
percent-encoded: ``/``, control characters, and ``%`` itself.  An empty key becomes ``%``.  A name that is too long is
cut and ends in ``%~`` and a checksum.  Pure.
"""

from __future__ import annotations

import re
import zlib
from typing import Final

from asdffs.errors import UsageError

#: The keys and numbers of items from the root of the tree to a value.
Path = tuple[str | int, ...]

_BARE: Final = re.compile(r"""[^\s.\[\]"'=<>!~()&|,\x00-\x1f]+""")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_INDEX: Final = re.compile(r"\[(-?[0-9]{1,18})\]")
_NUMBER: Final = re.compile(r"0|-?[1-9][0-9]{0,17}")
_ESCAPES: Final = re.compile(r"~(?![01])")
#: The characters of a JSON Pointer, by what may follow it: nothing, ``=`` and a value, another path, an operator.
_ALONE: Final = re.compile(r".*", re.DOTALL)
_ASSIGNED: Final = re.compile(r"[^=]*")
_LISTED: Final = re.compile(r"[^,]*")
IN_CONDITION: Final = re.compile(r"""[^\s"'=<>!()&|,\[\]]*""")
#: The largest length of a name with its ending, in bytes, and the room left for the ending.
_LONGEST: Final = 255
_ENDING: Final = 8


def parse_path(text: str) -> Path:
    """Return the keys and numbers of the path ``text``; the root is an empty tuple.

    Raises ``UsageError`` with the character where the path is wrong.
    """
    path, end = parse_prefix(text, 0, _ALONE)
    if end < len(text):
        raise _wrong(text, end, "a path cannot go on like this; put keys with such characters into double quotes")
    return path


def parse_paths(text: str) -> list[Path]:
    """Return the paths in ``text``, with commas between them.  Raises ``UsageError``."""
    found, end = [], -1
    while end < len(text):
        path, end = parse_prefix(text, end + 1, _LISTED)
        if text[end : end + 1] not in ("", ","):
            raise _wrong(text, end, "a comma is expected here; put keys with such characters into double quotes")
        found.append(path)
    return found


def parse_prefix(text: str, start: int, pointer: re.Pattern[str], what: str = "path") -> tuple[Path, int]:
    """Return the longest path that begins at ``start``, and the offset behind it.

    ``pointer``: the characters that a JSON Pointer may have here.  ``what``: what ``text`` is, for errors.
    Raises ``UsageError`` with the character where it is wrong.
    """
    if text.startswith("/", start):
        return _pointer(text, start, pointer, what)
    if re.match(r"\.(?![^\s=<>!,)])", text[start:]):
        return (), start + 1
    step, end = _step(text, start, what)
    if "/" in text[start:end] and text[start] not in '["':
        meant = text[start:end].replace("/", ".")
        raise _wrong(text, text.index("/", start), f"write {meant}, or put a key with '/' into double quotes", what)
    steps = [step]
    while text[end : end + 1] in (".", "[") and end < len(text):
        step, end = _step(text, end + text.startswith(".", end), what)
        steps.append(step)
    return tuple(steps), end


def split_assignment(text: str) -> tuple[Path, str, bool]:
    """Return path and value of ``PATH=VALUE`` or ``PATH:=VALUE``, and whether it is the second.

    A key that ends with a colon must be in quotes here.  Raises ``UsageError``.
    """
    path, end = parse_prefix(text, 0, _ASSIGNED)
    if text.startswith(":=", end):
        return path, text[end + 2 :], True
    if text[end : end + 1] != "=":
        raise _wrong(text, end, "'=' and a value are missing here; write PATH=VALUE")
    if text[end - 1] != ":":
        return path, text[end + 1 :], False
    path, _ = parse_prefix(text[: end - 1], 0, _ASSIGNED)  # the colon is not the end of the last key
    return path, text[end + 1 :], True


def item_number(step: str | int) -> int | None:
    """Return the number of the item that a step means in a sequence; None for a key that is no number."""
    if isinstance(step, int):
        return step
    return int(step) if _NUMBER.fullmatch(step) else None


def format_path(path: Path) -> str:
    """Return the dotted form of ``path``; ``parse_path`` reads it back."""
    parts: list[str] = []
    for step in path:
        if isinstance(step, int):
            parts.append(f"[{step}]")
            continue
        key = step if _BARE.fullmatch(step) and "/" not in step and step[-1] != ":" else _quoted(step)
        parts.append(f".{key}" if parts else key)
    return "".join(parts) or "."


def _quoted(key: str) -> str:
    from json import dumps  # not above: most paths have no quotes

    return dumps(key, ensure_ascii=False)


def _step(text: str, start: int, what: str) -> tuple[str | int, int]:
    """Return the key or number that begins at ``start``, and the offset behind it."""
    if index := _INDEX.match(text, start):
        return int(index[1]), index.end()
    bracket = text.startswith("[", start)
    if string := _STRING.match(text, start + bracket):
        end = string.end()
        if bracket and not text.startswith("]", end):
            raise _wrong(text, end, "']' is missing here", what)
        return _read_string(text, string, what), end + bracket
    bare = None if bracket else _BARE.match(text, start)
    if bare is None:
        raise _wrong(text, start, "a key, or a number in brackets, is missing here", what)
    return bare[0], bare.end()


def _read_string(text: str, string: re.Match[str], what: str) -> str:
    from json import loads

    try:
        return str(loads(string[0]))
    except ValueError as err:
        raise _wrong(text, string.start(), "this is not a JSON string", what) from err


def _pointer(text: str, start: int, characters: re.Pattern[str], what: str) -> tuple[Path, int]:
    found = characters.match(text, start)
    assert found is not None  # it may be empty
    if wrong := _ESCAPES.search(text, start, found.end()):
        raise _wrong(text, wrong.start(), "in a JSON Pointer '~' is written '~0', and '/' in a key '~1'", what)
    keys = found[0][1:].split("/")
    return tuple(key.replace("~1", "/").replace("~0", "~") for key in keys), found.end()


def _wrong(text: str, place: int, sentence: str, what: str = "path") -> UsageError:
    return UsageError(f"{what} {text!r}, character {place + 1}: {sentence}")


def name_of(key: str | int) -> str:
    """Return the name for ``key``, without an ending."""
    text = str(key)
    if not text.strip("."):  # '', '.' and '..' are not usable as names
        return text.replace(".", "%2E") or "%"
    name = "".join(_encoded(character) for character in text)
    raw = name.encode("utf-8", "surrogateescape")
    if len(raw) <= _LONGEST - _ENDING:
        return name
    mark = f"%~{zlib.crc32(text.encode('utf-8', 'surrogateescape')):08x}"
    return raw[: _LONGEST - _ENDING - len(mark)].decode("utf-8", "ignore") + mark


def directory_name_of(key: str | int, endings: tuple[str, ...]) -> str:
    """Return the name for a directory, with a dot encoded if the file of another key could have the same name."""
    name = name_of(key)
    for ending in endings:
        if name.endswith(ending):
            return f"{name[: -len(ending)]}%2E{ending[1:]}"
    return name


def _encoded(character: str) -> str:
    refused = character in "/%\x7f" or character < " "
    return f"%{ord(character):02X}" if refused else character
