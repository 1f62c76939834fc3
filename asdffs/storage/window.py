"""A part of a file as a backend: an ASDF file inside another file.

Offsets count from the beginning of the part.  Readers use it; changes are planned for the whole file, so everything
that would move or resize bytes is refused.
"""

from __future__ import annotations

import errno
import os

from asdffs.storage.backend import Backend, Extent, PhysicalExtent, Signature


class WindowBackend:
    """The ``length`` bytes from ``start`` of the file ``whole``.  Implements ``Backend``.

    ``signature`` and ``close`` are those of the whole file.
    """

    def __init__(self, whole: Backend, start: int, length: int) -> None:
        self.whole = whole
        self._start = start
        self._length = length

    @property
    def name(self) -> str:
        """See ``Backend``."""
        return self.whole.name

    @property
    def writable(self) -> bool:
        """See ``Backend``."""
        return self.whole.writable

    def size(self) -> int:
        """See ``Backend``: fewer bytes if the whole file was cut."""
        return max(0, min(self._length, self.whole.size() - self._start))

    def read_at(self, offset: int, length: int) -> bytes:
        """See ``Backend``."""
        return self.whole.read_at(self._start + offset, self._inside(offset, length))

    def extent(self, offset: int, length: int) -> bytes | Extent:
        """See ``Backend``."""
        return self.whole.extent(self._start + offset, self._inside(offset, length))

    def write_at(self, offset: int, payload: bytes | memoryview) -> None:
        """See ``Backend``.  Raises ``OSError`` (ENOSPC) outside of the part."""
        if offset < 0 or offset + len(payload) > self._length:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.whole.write_at(self._start + offset, payload)

    def sync(self) -> None:
        """See ``Backend``."""
        self.whole.sync()

    def unit(self) -> int:
        """See ``Backend``."""
        return self.whole.unit()

    def signature(self) -> Signature:
        """See ``Backend``: that of the whole file."""
        return self.whole.signature()

    def close(self) -> None:
        """See ``Backend``: close the whole file."""
        self.whole.close()

    def can_insert(self) -> bool:
        """See ``Backend``: never."""
        return False

    def truncate(self, size: int) -> None:
        """Raise ``OSError`` (EOPNOTSUPP), as all that follow."""
        raise _refused()

    def allocate(self, offset: int, length: int) -> None:
        """See ``truncate``."""
        raise _refused()

    def forget_pages(self, offset: int) -> None:
        """See ``truncate``."""
        raise _refused()

    def insert_range(self, offset: int, length: int) -> None:
        """See ``truncate``."""
        raise _refused()

    def collapse_range(self, offset: int, length: int) -> None:
        """See ``truncate``."""
        raise _refused()

    def extents(self) -> list[PhysicalExtent]:
        """See ``truncate``."""
        raise _refused()

    def _inside(self, offset: int, length: int) -> int:
        return max(0, min(length, self._length - offset))


def _refused() -> OSError:
    return OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
