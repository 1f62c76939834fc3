"""Named files of a spool directory: scratch, drafts, and files of a FilesDaf store that the tree does not have yet.

Their bytes survive a killed daemon.  A mount may have any number of them, so only the most recently used files are
open (``descriptors``).  One thread at a time.
"""

from __future__ import annotations

import contextlib
import os

from asdffs.scheduling import Scheduler
from asdffs.storage.backend import Extent
from asdffs.storage.descriptors import duplicate_fd, kept_files
from asdffs.storage.file_backend import write_all
from asdffs.storage.linux_calls import KEEP_SIZE, PUNCH_HOLE, fallocate


class ScratchFile:
    """The file at ``path``, which exists already.  Sizes and offsets are in bytes."""

    def __init__(self, path: str) -> None:
        self.path = path

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
        fd = duplicate_fd(self._fd())  # another thread may close the original during the wait
        try:
            with scheduler.waiting():
                os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, path: str) -> None:
        """Rename the file, over an existing file at ``path``.  Raises ``OSError``."""
        os.replace(self.path, path)
        kept_files.close(path)
        kept_files.renamed(self.path, path)
        self.path = path

    def drop(self) -> None:
        """Remove the file.  Raises ``OSError``."""
        kept_files.close(self.path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def _fd(self) -> int:
        return kept_files.get(self.path)
