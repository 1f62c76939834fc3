"""Whether a sidecar that was found by its name may be believed: in /tmp anybody may put one beside a file.

A journal says which bytes of the file are to be others, and recovery obeys it.  So a journal, or a payload, is only
believed when nobody wrote it who could not have written the file itself: it belongs to this user or to the owner of
the file, others may write it only where they may write the file, and it has one name, so that it is no other file.
Reads only.
"""

from __future__ import annotations

import os
from typing import Final

from asdffs.errors import UntrustedFileError
from asdffs.storage.backend import Access, Backend, Folder

_GROUP_MAY_WRITE: Final = 0o020
_OTHERS_MAY_WRITE: Final = 0o002


def check_trusted(folder: Folder, name: str, sidecar: Backend) -> None:
    """Raise ``UntrustedFileError`` unless ``sidecar`` of the file ``name`` may be believed; or ``OSError``."""
    _check(folder, name, sidecar.name, sidecar.signature().access)


def check_name_trusted(folder: Folder, name: str, sidecar: str) -> None:
    """The same of a sidecar that could not be opened."""
    _check(folder, name, sidecar, folder.signature(sidecar).access)


def _check(folder: Folder, name: str, sidecar: str, access: Access) -> None:
    reason = _distrust(access, folder.signature(name).access)
    if reason:
        path = folder.path(sidecar)
        raise UntrustedFileError(f"{path} {reason}, so it is not used; look at it, then remove it: rm '{path}'")


def is_trusted(folder: Folder, name: str, sidecar: Backend) -> bool:
    """As ``check_trusted``; False also where it cannot be known."""
    try:
        check_trusted(folder, name, sidecar)
    except (UntrustedFileError, OSError):
        return False
    return True


def _distrust(sidecar: Access, file: Access) -> str:
    """Why not; empty when it may be believed."""
    if sidecar.user not in (os.geteuid(), file.user):
        return f"belongs to another user ({sidecar.user})"
    if sidecar.links != 1:
        return "has several names"
    allowed = file.mode & _OTHERS_MAY_WRITE
    if sidecar.group == file.group:
        allowed |= file.mode & _GROUP_MAY_WRITE
    if sidecar.mode & (_GROUP_MAY_WRITE | _OTHERS_MAY_WRITE) & ~allowed:
        return "can be written by others"
    return ""
