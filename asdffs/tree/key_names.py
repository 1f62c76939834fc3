"""Names of files for the keys of a tree, and back.

What a file system cannot hold in a name is percent-encoded: ``/``, control characters, ``%`` itself; an empty key is
``%``; one that is too long ends in ``%~`` and a checksum.  Pure.
"""

from __future__ import annotations

import zlib
from typing import Final

#: Bytes of a name, its ending included.
_LONGEST: Final = 255
_ENDING: Final = 8


def name_of(key: str | int) -> str:
    """The name for ``key``, without an ending."""
    text = str(key)
    if not text.strip("."):  # '', '.', '..': no name, or one with a meaning
        return text.replace(".", "%2E") or "%"
    name = "".join(_encoded(character) for character in text)
    raw = name.encode("utf-8", "surrogateescape")
    if len(raw) <= _LONGEST - _ENDING:
        return name
    mark = f"%~{zlib.crc32(text.encode('utf-8', 'surrogateescape')):08x}"
    return raw[: _LONGEST - _ENDING - len(mark)].decode("utf-8", "ignore") + mark


def directory_name_of(key: str | int, endings: tuple[str, ...]) -> str:
    """The name for a directory: not one that a file of another key may have."""
    name = name_of(key)
    for ending in endings:
        if name.endswith(ending):
            return f"{name[: -len(ending)]}%2E{ending[1:]}"
    return name


def _encoded(character: str) -> str:
    refused = character in "/%\x7f" or character < " "
    return f"%{ord(character):02X}" if refused else character
