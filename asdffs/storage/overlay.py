"""A read-only store that shows a file as a pending journal record will leave it.

Users: a read-only open of a file whose writer died (or lives): the journal is never
replayed without the exclusive lock, it is laid over the bytes in memory.
"""

from __future__ import annotations

import errno
import os

from asdffs.storage.journal import Record
from asdffs.storage.store import Signature, Store


class OverlayStore:
    """``base`` with the after-images of ``record`` laid over it.  See ``Store``."""

    def __init__(self, base: Store, record: Record) -> None:
        self._base = base
        self._record = record

    @property
    def name(self) -> str:
        """The file's name."""
        return self._base.name

    @property
    def writable(self) -> bool:
        """Never."""
        return False

    def size(self) -> int:
        """Size after the change, in bytes."""
        return self._record.new_size

    def read_at(self, offset: int, length: int) -> bytes:
        """Bytes after the change."""
        length = max(0, min(length, self.size() - offset))
        piece = bytearray(self._base.read_at(offset, length).ljust(length, b"\0"))
        for image in self._record.images:
            start = max(offset, image.offset)
            stop = min(offset + length, image.offset + len(image.after))
            if start < stop:
                piece[start - offset : stop - offset] = image.after[start - image.offset : stop - image.offset]
        return bytes(piece)

    def write_at(self, offset: int, payload: bytes | memoryview) -> None:
        """Raises ``OSError`` (EBADF)."""
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def truncate(self, size: int) -> None:
        """Raises ``OSError`` (EBADF)."""
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def sync(self) -> None:
        """Nothing to do."""

    def extent(self, offset: int, length: int) -> bytes:
        """The bytes: they are in no one file."""
        return self.read_at(offset, length)

    def signature(self) -> Signature:
        """Of the file itself."""
        return self._base.signature()

    def close(self) -> None:
        """Close the file."""
        self._base.close()
