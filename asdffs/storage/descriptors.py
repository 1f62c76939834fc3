"""File descriptors: which of them a process keeps only to be quick, and what happens when it has no more.

A process has a limited number of descriptors, and the limit may change while it runs.  An archive has many documents,
and each has drafts, scratch and decoded blocks.  So one ``KeptFiles`` for the whole process keeps the named files of
all spools open that were used last, at most a quarter of the limit.  If open(2) finds no descriptor left, these are
closed, and it is tried again.

Any thread may open files.  The files of ``KeptFiles`` are used by one thread at a time: the holder of the main lock.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from typing import Final

#: Largest number of files that are kept open.
_MOST: Final = 256
#: Files that were used so recently that a request may still use them; they are not closed when descriptors run out.
_IN_USE: Final = 4
#: The limit where the system tells none.
_UNKNOWN: Final = 512
_NO_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)


def descriptor_limit() -> int:
    """Return how many descriptors this process may have now."""
    try:
        import resource
    except ImportError:  # Windows
        return _UNKNOWN
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


def is_scarce(fd: int) -> bool:
    """Return whether half of the descriptors are in use: the new ``fd`` is the lowest number that was free."""
    return fd >= descriptor_limit() // 2


def open_fd(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    """Call open(2); if there is no descriptor left, close the files that are kept open first.  Raises ``OSError``."""
    return _granted(lambda: os.open(path, flags, mode, dir_fd=dir_fd))


def duplicate_fd(fd: int) -> int:
    """Call dup(2) in the same way.  Raises ``OSError``."""
    return _granted(lambda: os.dup(fd))


def _granted(call: Callable[[], int]) -> int:
    try:
        return call()
    except OSError as err:
        if err.errno not in _NO_DESCRIPTORS:
            raise
    kept_files.close_most()
    return call()


class KeptFiles:
    """File descriptors of the most recently used files, by path."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._open: dict[str, int] = {}  # least recently used first

    def __len__(self) -> int:
        return len(self._open)

    def create(self, path: str) -> None:
        """Create the empty file ``path``, for this user only.  Raises ``OSError``."""
        with self._lock:
            self.close(path)  # of a file that had this name before
            self._open[path] = self._opened(path, os.O_CREAT | os.O_EXCL)

    def get(self, path: str) -> int:
        """Return the file descriptor of the file at ``path``, valid until the next call of ``get`` or ``create``.

        Raises ``OSError``.
        """
        with self._lock:
            fd = self._open.pop(path, -1)
            self._open[path] = fd = fd if fd >= 0 else self._opened(path)
            return fd

    def close(self, path: str) -> None:
        """Close the file at ``path`` if it is open."""
        with self._lock:
            fd = self._open.pop(path, -1)
            if fd >= 0:
                os.close(fd)

    def close_below(self, directory: str) -> None:
        """Close all files in ``directory``."""
        with self._lock:
            for path in [path for path in self._open if path.startswith(os.path.join(directory, ""))]:
                self.close(path)

    def close_most(self) -> None:
        """Close all files that no request uses."""
        with self._lock:
            self._shrink(_IN_USE)

    def renamed(self, old: str, new: str) -> None:
        """Note that an open file has a new path."""
        with self._lock:
            if old in self._open:
                self._open[new] = self._open.pop(old)

    def forget(self) -> None:
        """Forget the files: they are those of the process of which this is a fork."""
        self.__init__()  # type: ignore[misc]  # another thread of that process may have held the lock

    def _opened(self, path: str, more: int = 0) -> int:
        self._shrink(min(_MOST, descriptor_limit() // 4) - 1)
        return open_fd(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | more, 0o600)

    def _shrink(self, most: int) -> None:
        while len(self._open) > max(0, most):
            self.close(next(iter(self._open)))


#: The files of this process.
kept_files: Final = KeptFiles()
os.register_at_fork(after_in_child=kept_files.forget)
