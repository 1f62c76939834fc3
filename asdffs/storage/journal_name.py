"""The name of the crash journal beside a file, and whether there is one.

On its own, because most commands find none, and need nothing else of ``journal``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from asdffs.storage.backend import Folder

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


def has_journal(folder: Folder, name: str) -> bool:
    """Return whether the file ``name`` has a journal: it is open for writing, or a change was interrupted."""
    try:
        folder.signature(journal_name(name))
    except OSError:
        return False
    return True
