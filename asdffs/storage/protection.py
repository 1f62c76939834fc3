"""Restrict access to saved copies: only users with access to the file may access its copies.

A copy beside a file gets the group of the user who made it, and maybe entries of the directory's default ACL.
With the same permission bits, other users could read it.  If the copy cannot get the owner, group and ACL of
the file, only its own owner may read it.  Stateless.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Final

_ACL: Final = "system.posix_acl_access"
_OWNER: Final = 0o600


def protect(fd: int, path: str) -> None:
    """Give the open file ``fd`` the owner, group, ACL and permissions of the file at ``path``.

    If that is not possible, only its owner may read and write it.  Raises ``OSError``.
    """
    os.fchmod(fd, _OWNER)
    with contextlib.suppress(OSError):  # entries of the directory's default ACL
        os.removexattr(fd, _ACL)
    try:
        status = os.stat(path)
    except OSError:
        return
    _give(fd, status)
    if os.fstat(fd).st_gid != status.st_gid:
        return
    try:
        acl = os.getxattr(path, _ACL)
    except OSError:  # the file has no ACL, or the file system does not support ACLs
        os.fchmod(fd, stat.S_IMODE(status.st_mode) & 0o666)
        return
    with contextlib.suppress(OSError):
        os.setxattr(fd, _ACL, acl)


def make_directory(folder: str, path: str) -> bool:
    """Create ``folder`` for saved copies of the file at ``path``, as readable as the file.

    An existing directory is used if it is trusted.  Returns False if something else has that name, or if other
    users may change its content.  Raises ``OSError``.
    """
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        return _is_ours(folder, path)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        protect(fd, path)
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        os.fchmod(fd, 0o700 | (mode & 0o044) | (mode & 0o044) >> 2)
    finally:
        os.close(fd)
    return True


def _is_ours(folder: str, path: str) -> bool:
    facts, owners = os.lstat(folder), {os.geteuid()}
    with contextlib.suppress(OSError):
        owners.add(os.stat(path).st_uid)
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid in owners and not facts.st_mode & 0o022


def _give(fd: int, status: os.stat_result) -> None:
    """Set the owner and the group of the file, as far as this user may."""
    for owner in (status.st_uid, -1):
        with contextlib.suppress(OSError):
            os.fchown(fd, owner, status.st_gid)
            return
