"""A directory with all that is below it, which another user may change at any time.

Each step of a path is opened without following a symbolic link, and what was opened is what is looked at.  Nothing in
another mount of asdffs is reached: two daemons that look into each other's mounts would wait for each other for good.
Any thread may use it.
"""

from __future__ import annotations

import os
import stat

from asdffs.errors import NotPermittedError
from asdffs.storage.descriptors import open_fd
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.mount_table import OWN, MountPoints


def is_below(path: str, directory: str) -> bool:
    """Return whether ``path`` is ``directory`` or below it; both are absolute, without symbolic links."""
    return os.path.commonpath([path, directory]) == directory


class Beneath:
    """The directory ``root``, an absolute path without symbolic links.

    Paths begin with ``/``, which is the directory itself.  All methods raise ``OSError``, such as
    ``NotADirectoryError`` where a symbolic link is in between, and ``NotPermittedError`` in another mount of asdffs.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self._folder = FileFolder(root)
        self._folder.fileno()  # from now on it is this directory, whatever becomes of the path
        self._mounts = MountPoints(root, OWN)

    def place(self, path: str) -> tuple[FileFolder, str]:
        """Return the directory of ``path``, and its name there."""
        self.check(path)
        above, _, name = path.rpartition("/")
        return self._folder.below(above), name or "."

    def check(self, path: str) -> None:
        """Raise ``NotPermittedError`` if ``path`` leads into another mount of asdffs."""
        if self._mounts.lead(self.root + path):
            raise NotPermittedError("is in another mount of asdffs, and is not shown in this one", path=path)

    def directory(self, path: str) -> FileFolder:
        """Return the directory at ``path``."""
        folder, name = self.place(path)
        return folder if name == "." else folder.below(name)

    def status(self, path: str) -> os.stat_result:
        """Return the status of ``path`` by lstat."""
        folder, name = self.place(path)
        return folder.status(name)

    def has(self, path: str) -> bool:
        """Return whether anything is at ``path``."""
        folder, name = self.place(path)
        return folder.has(name)

    def link(self, path: str) -> str:
        """Return the target of the symbolic link at ``path``."""
        folder, name = self.place(path)
        return os.readlink(name, dir_fd=folder.fileno())

    def open(self, path: str) -> int:
        """Open the regular file at ``path`` for reading, and return the descriptor."""
        folder, name = self.place(path)
        # without waiting for the other end of a pipe
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = open_fd(name, flags, dir_fd=folder.fileno())
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise NotPermittedError("is not a regular file, and is not opened", path=path)
        return fd
