"""Tells to which file a state directory belongs, whatever the name of the file is now."""

from __future__ import annotations

import os
from typing import NamedTuple

from asdffs.storage.linux_calls import birth_ns


def identity_of(file: str | int) -> str:
    """Return the inode and time of birth of a file: a path, or a descriptor.  Raises ``OSError``.

    If the file system does not record the time of birth, the number of the device stands for it.  Another mount of
    the file system may change that number.
    """
    status = os.stat(file)
    born = birth_ns(file if isinstance(file, str) else f"/proc/self/fd/{file}")
    return f"{status.st_ino}-{born}" if born else f"{status.st_ino}-on-{status.st_dev}"


class Owner(NamedTuple):
    """The file to which a state directory belongs.

    ``path``: where it was when it was opened.  ``identities``: its own at that time, then those of the files that a
    growth or another program put in its place.
    """

    path: str = ""
    identities: tuple[str, ...] = ()

    def is_file(self, file: int, identity: str) -> bool:
        """Return whether that is the open ``file``, which has this ``identity``.

        A copy of a whole file system, such as a snapshot, has files of the same identity.  So if such a file is still
        at the path, it is that one.
        """
        if identity not in self.identities:
            return False
        try:
            there = os.path.samestat(os.stat(self.path), os.fstat(file))
            return there or identity_of(self.path) not in self.identities
        except OSError:  # the file was renamed
            return True
