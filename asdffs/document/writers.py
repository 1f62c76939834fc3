"""What is known of the libraries that write ASDF files, which a file names in its tree (``asdf_library``)."""

from __future__ import annotations

import re
from typing import Final

from asdffs.errors import AsdffsError
from asdffs.tree.locating import locate
from asdffs.tree.tape import SCALAR, Tape

#: Library -> the first version whose MD5 of a compressed block is that of the stored bytes, as the standard says.
#: Before, it is that of the content, and a reader that checks it refuses another one.
_SUMS_STORED: Final = {"asdf": (5, 3)}
_VERSION: Final = re.compile(r"(\d{1,6})\.(\d{1,6})(?!\d)")
_KEY: Final = b"asdf_library"


def sums_content(text: bytes) -> bool:
    """Return whether the writer of a tree takes the MD5 of the content of a compressed block."""
    if _KEY not in text:
        return False
    try:
        tape = Tape(text)
        name, version = (_scalar(tape, key) for key in ("name", "version"))
    except AsdffsError:
        return False
    found = _VERSION.match(version)
    first = _SUMS_STORED.get(name)
    return found is not None and first is not None and (int(found[1]), int(found[2])) < first


def _scalar(tape: Tape, key: str) -> str:
    found = locate(tape, (_KEY.decode(), key))
    row = tape.target(found.row) if not found.missing else -1
    return tape.scalar(row) if row >= 0 and tape.kind[row] == SCALAR else ""
