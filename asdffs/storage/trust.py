"""Decide whether to trust a sidecar: in /tmp any user may put one beside a file.

Recovery writes into the file the bytes that a journal names.  So a journal or a payload is trusted only if
every user who could have written it may also write the file.  It must belong to this user or to the owner of
the file.  Others may write it only if they may write the file.  It must have only one name, so that it is not
another file.  Reads only.
"""

from __future__ import annotations

import os
from typing import Final

from asdffs.errors import UntrustedFileError
from asdffs.printable import as_word
from asdffs.storage.backend import Access, Backend, Folder

_GROUP_MAY_WRITE: Final = 0o020
_OTHERS_MAY_WRITE: Final = 0o002


def check_trusted(folder: Folder, name: str, sidecar: Backend) -> None:
    """Raise ``UntrustedFileError`` unless ``sidecar`` of the file ``name`` is trusted; or ``OSError``."""
    _check(folder, name, sidecar.name, sidecar.signature().access)


def check_name_trusted(folder: Folder, name: str, sidecar: str) -> None:
    """Do the same as ``check_trusted`` for a sidecar that could not be opened."""
    _check(folder, name, sidecar, folder.signature(sidecar).access)


def _check(folder: Folder, name: str, sidecar: str, access: Access) -> None:
    reason = _distrust(access, folder.signature(name).access)
    if reason:
        path = folder.path(sidecar)
        advice = f"look at it, then remove it: rm {as_word(path)}"
        raise UntrustedFileError(f"{path} {reason}, so it is not used; {advice}")


def is_trusted(folder: Folder, name: str, sidecar: Backend) -> bool:
    """Return whether ``sidecar`` is trusted; False also if that is unknown."""
    try:
        check_trusted(folder, name, sidecar)
    except (UntrustedFileError, OSError):
        return False
    return True


def _distrust(sidecar: Access, file: Access) -> str:
    """Return why the sidecar is not trusted; empty if it is."""
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
