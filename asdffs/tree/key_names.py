"""Makes file names from the keys of a tree.

Characters that a file name cannot have are percent-encoded: ``/``, control characters, and ``%`` itself.  An empty
key becomes ``%``.  A name that is too long is cut and ends in ``%~`` and a checksum.  Pure.
"""

from __future__ import annotations

import zlib
from typing import Final

#: The largest length of a name with its ending, in bytes, and the room left for the ending.
_LONGEST: Final = 255
_ENDING: Final = 8


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
