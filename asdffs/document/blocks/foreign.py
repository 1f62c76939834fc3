"""Detection of changes that another program made to the file.

Only the signature is compared: device, inode, size, mtime and ctime.
"""

from __future__ import annotations

import enum

from asdffs.storage.open_file import OpenFile


class Foreign(enum.Enum):
    """The change that another program made to the file."""

    NO = "nothing"
    CHANGED = "changed in place"
    REPLACED = "replaced by another file"
    REMOVED = "removed"


def foreign_change_of(file: OpenFile) -> Foreign:
    """Compare the file that has the name now with the file as we last left it.

    Raises ``OSError``, but not if the file is missing.
    """
    try:
        now = file.folder.signature(file.backend.name)
    except FileNotFoundError:
        return Foreign.REMOVED
    if file.is_ours(now):
        return Foreign.NO
    return Foreign.CHANGED if now.inode == file.signature.inode else Foreign.REPLACED
