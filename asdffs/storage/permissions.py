"""Who may read copies of a file, and files that it leads to.

A copy beside a file gets the group of the user who made it, and maybe entries of the directory's default ACL.
With the same permission bits, other users could read it.  If the copy cannot get the owner, group and ACL of
the file, only its own owner may read it.

In a mount for other users, its daemon reads with the rights of the user who mounted.  A stranger's tree could name
any file of that user.  So a linked file is shown only to users who may read it themselves.  Stateless.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Final

from asdffs.storage.backend import Access
from asdffs.storage.file_backend import ACL, FileFolder

_OWNER: Final = 0o600


def protect(fd: int, folder: FileFolder, name: str) -> None:
    """Give the open file ``fd`` the owner, group, ACL and permissions of the file ``name`` in ``folder``.

    If that is not possible, only its owner may read and write it.  Raises ``OSError``.
    """
    os.fchmod(fd, _OWNER)
    with contextlib.suppress(OSError):  # entries of the directory's default ACL
        os.removexattr(fd, ACL)
    try:
        status = folder.status(name)
    except OSError:
        return
    if not stat.S_ISREG(status.st_mode):
        return
    _give(fd, status)
    if os.fstat(fd).st_gid != status.st_gid:
        return
    try:
        acl = os.getxattr(f"/proc/self/fd/{folder.fileno()}/{name}", ACL, follow_symlinks=False)
    except OSError:  # the file has no ACL, or the file system does not support ACLs
        os.fchmod(fd, stat.S_IMODE(status.st_mode) & 0o666)
        return
    with contextlib.suppress(OSError):
        os.setxattr(fd, ACL, acl)


def make_directory(folder: FileFolder, name: str, of: str) -> FileFolder | None:
    """Create the directory ``name`` for saved copies of the file ``of``, as readable as the file, and return it.

    An existing directory is used if it is trusted.  Returns None if something else has that name, or if other users
    may change its content.  Raises ``OSError``.
    """
    made = True
    try:
        os.mkdir(name, 0o700, dir_fd=folder.fileno())
    except FileExistsError:
        made = False
    try:
        found = folder.below(name)
    except NotADirectoryError:
        return None
    facts = os.fstat(found.fileno())  # of what was opened: another user may have exchanged it
    if not _is_ours(facts, folder, of):
        return None
    if made and facts.st_uid == os.geteuid():
        with found.readable() as fd:
            protect(fd, folder, of)
            mode = stat.S_IMODE(os.fstat(fd).st_mode)
            os.fchmod(fd, 0o700 | (mode & 0o044) | (mode & 0o044) >> 2)
    return found


def _is_ours(facts: os.stat_result, folder: FileFolder, of: str) -> bool:
    owners = {os.geteuid()}
    with contextlib.suppress(OSError):
        owners.add(folder.status(of).st_uid)
    return facts.st_uid in owners and not facts.st_mode & 0o022


def _give(fd: int, status: os.stat_result) -> None:
    """Set the owner and the group of the file, as far as this user may."""
    for owner in (status.st_uid, -1):
        with contextlib.suppress(OSError):
            os.fchown(fd, owner, status.st_gid)
            return


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
