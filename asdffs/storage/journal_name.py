"""The name of the crash journal beside a file.  On its own, because a reader only asks whether there is one."""

from __future__ import annotations

import os
from typing import Final

#: Bytes of the longest name that file systems allow.
_LONGEST: Final = 255
JOURNAL_SUFFIX: Final = ".asdffs-journal"


def journal_name(name: str) -> str:
    """Return the name of the sidecar of the file ``name``; hashed if the plain one would be too long."""
    plain = f".{name}{JOURNAL_SUFFIX}"
    if len(os.fsencode(plain)) <= _LONGEST:
        return plain
    import hashlib

    return f".{hashlib.sha256(os.fsencode(name)).hexdigest()[:32]}{JOURNAL_SUFFIX}"
