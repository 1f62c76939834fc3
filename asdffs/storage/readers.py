"""Tells whether a file that another one leads to may be shown to all who see that one.

In a mount for other users, its daemon reads with the rights of the user who mounted.  A stranger's tree could name
any file of that user.  Reads only.
"""

from __future__ import annotations

import os
from typing import Final

from asdffs.storage.backend import Access

_EVERYBODY: Final = 0o444
_OTHERS: Final = 0o044
_GROUP: Final = 0o040


def may_all_read(linked: Access, directory: str, shown: Access, more: int) -> bool:
    """Return whether all who may read the file ``shown`` may read the file ``linked`` in ``directory``.

    ``more``: permission bits that the mount adds to those of ``shown``.  ACLs are not looked at.  Raises ``OSError``.
    """
    wanted = (shown.mode | more) & _OTHERS
    same = (linked.user, linked.group) == (shown.user, shown.group)
    if not wanted and linked.user == shown.user:
        return True
    if linked.mode & _EVERYBODY != _EVERYBODY and (not same or wanted & ~linked.mode):
        return False
    group = shown.group if same and wanted == _GROUP else None
    return all(_may_search(os.stat(place), group) for place in _with_parents(directory))


def is_as_open(new: Access, old: Access, more: int) -> bool:
    """Return whether all others who may read or write the file ``old`` may do so with the file ``new``.

    ``more``: as above.
    """
    wanted = (old.mode | more) & (_OTHERS | _OTHERS >> 1)
    if (new.user, new.group) == (old.user, old.group):
        return not wanted & ~new.mode
    return not wanted & ~_EVERYBODY and new.mode & _EVERYBODY == _EVERYBODY


def _may_search(directory: os.stat_result, group: int | None) -> bool:
    """Return whether everybody may search the directory, or all of ``group`` if there is one."""
    return bool(directory.st_mode & 0o001) or (directory.st_gid == group and bool(directory.st_mode & 0o010))


def _with_parents(directory: str) -> list[str]:
    found = [directory]
    while found[-1] != "/":
        found.append(os.path.dirname(found[-1]))
    return found
