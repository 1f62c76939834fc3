"""Named files of a spool directory: scratch, drafts, and files of a FilesDaf store that the tree does not have yet.

Their bytes survive a killed daemon.  A mount may have any number of them, but a process has a limited number of
file descriptors.  So only the most recently used files are open.  One thread at a time.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Final

from asdffs.scheduling import Scheduler
from asdffs.storage.backend import Extent
from asdffs.storage.file_backend import write_all
from asdffs.storage.linux_calls import KEEP_SIZE, PUNCH_HOLE, fallocate

#: Largest number of open files.
_MOST: Final = 64
_NO_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)


class Descriptors:
    """File descriptors of the most recently used files, by path.

    The least recently used file is closed first.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._open: dict[str, int] = {}

    def get(self, path: str) -> int:
        """Return the file descriptor of the file at ``path``, valid until the next call of ``get``.

        Raises ``OSError``.
        """
        fd = self._open.pop(path, -1)
        if fd < 0:
            while len(self._open) >= self._most:
                self.close(next(iter(self._open)))
            fd = self._opened(path)
        self._open[path] = fd
        return fd

    def close(self, path: str) -> None:
        """Close the file at ``path`` if it is open."""
        fd = self._open.pop(path, -1)
        if fd >= 0:
            os.close(fd)

    def close_all(self) -> None:
        """Close all files."""
        for path in list(self._open):
            self.close(path)

    def renamed(self, old: str, new: str) -> None:
        """Note that an open file has a new path."""
        if old in self._open:
            self._open[new] = self._open.pop(old)

    def _opened(self, path: str) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(path, flags)
        except OSError as err:
            if err.errno not in _NO_DESCRIPTORS or not self._open:
                raise
            self.close_all()
            return os.open(path, flags)


class ScratchFile:
    """The file at ``path``, which exists already.  Sizes and offsets are in bytes."""

    def __init__(self, path: str, descriptors: Descriptors) -> None:
        self.path = path
        self._descriptors = descriptors

    @property
    def size(self) -> int:
        """The current size.  Raises ``OSError``."""
        return os.stat(self.path).st_size

    def read(self, offset: int, length: int) -> Extent:
        """Return where the bytes are, fewer at the end of the file.

        Read them before another file is used.  Raises ``OSError``.
        """
        fd = self._fd()
        return Extent(fd, offset, max(0, min(length, os.fstat(fd).st_size - offset)))

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        """Write all of ``payload`` at ``offset``.  Raises ``OSError``."""
        write_all(self._fd(), payload, offset)

    def truncate(self, size: int) -> None:
        """Set the size.  Raises ``OSError``."""
        os.ftruncate(self._fd(), size)

    def allocate(self, offset: int, length: int, *, keep_size: bool, zero: bool) -> None:
        """Reserve disk space for these bytes, or make them zeros if ``zero``.  Raises ``OSError``.

        The errno is EOPNOTSUPP if the file system of the spool does not support it.
        """
        if not keep_size and not zero:
            os.posix_fallocate(self._fd(), offset, length)
            return
        if zero and not keep_size and offset + length > self.size:
            os.ftruncate(self._fd(), offset + length)
        fallocate(self._fd(), KEEP_SIZE | (PUNCH_HOLE if zero else 0), offset, length)

    def sync(self, scheduler: Scheduler) -> None:
        """Make the file durable; releases the main lock meanwhile.  Raises ``OSError``."""
        fd = os.dup(self._fd())  # another thread may close the original during the wait
        try:
            with scheduler.waiting():
                os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, path: str) -> None:
        """Rename the file, over an existing file at ``path``.  Raises ``OSError``."""
        os.replace(self.path, path)
        self._descriptors.close(path)
        self._descriptors.renamed(self.path, path)
        self.path = path

    def drop(self) -> None:
        """Remove the file.  Raises ``OSError``."""
        self._descriptors.close(self.path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def _fd(self) -> int:
        return self._descriptors.get(self.path)
