"""What another program did to the file, as far as its signature tells."""

from __future__ import annotations

import enum

from asdffs.storage.open_file import OpenFile


class Foreign(enum.Enum):
    """What another program did to the file, as far as its signature tells."""

    NO = "nothing"
    CHANGED = "changed in place"
    REPLACED = "replaced by another file"
    REMOVED = "removed"


def foreign_change_of(file: OpenFile) -> Foreign:
    """Compare what the name leads to now with the file as we left it.  Raises ``OSError``."""
    try:
        now = file.folder.signature(file.backend.name)
    except FileNotFoundError:
        return Foreign.REMOVED
    if file.is_ours(now):
        return Foreign.NO
    return Foreign.CHANGED if now.inode == file.signature.inode else Foreign.REPLACED
