"""Checks the permissions of the program that opens a file, in a mount for other users.

The kernel checks them as well (``default_permissions``), but by what it was told of a name.  A user who may change
the directory can give the name to another file before the open comes.
"""

from __future__ import annotations

import contextlib
import os

from asdffs.vfs.attributes import Attributes, User


def may_open(shown: Attributes, user: User, pid: int, flags: int) -> bool:
    """Return whether process ``pid`` of ``user`` may open a file with these attributes.  ``flags``: as of open(2)."""
    if user.uid == 0:
        return True
    mode = flags & os.O_ACCMODE
    wanted = (0 if mode == os.O_WRONLY else 4) | (0 if mode == os.O_RDONLY else 2)
    if user.uid == shown.uid:
        allowed = shown.mode >> 6
    elif shown.gid == user.gid or ((groups := _groups_of(pid)) is not None and shown.gid in groups):
        allowed = shown.mode >> 3
    else:
        allowed = shown.mode if groups is not None else shown.mode | shown.mode >> 3  # the kernel knows better
    return not wanted & ~allowed


def _groups_of(pid: int) -> list[int] | None:
    """Return the supplementary groups of a process (proc(5), status); None if it is in another PID namespace."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", "rb") as file:
        return next((list(map(int, line.split()[1:])) for line in file if line.startswith(b"Groups:")), None)
    return None
