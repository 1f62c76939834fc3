"""Files that live in the spool directory: drafts, and whatever editors and tools create.

``SpoolFile`` keeps its bytes in a named file of the spool, so that they outlive a daemon
that is killed; as the clean tree it has no spool file and shows the committed text.
One thread.
"""

from __future__ import annotations

import os
import re
from urllib.parse import quote

from asdffs.errors import NotSupportedError
from asdffs.relief import Alone, Relief
from asdffs.storage.backend import Extent, read_bytes
from asdffs.storage.file_backend import write_all
from asdffs.views.base import ViewFile

_LONGEST_QUOTED = 200
_CUT_ESCAPE = re.compile(r"%[0-9A-F]?\Z")


class Spool:
    """The directory of one mount, which exists already.  ``path`` is absolute."""

    def __init__(self, path: str, relief: Relief | None = None) -> None:
        self.path = path
        self.relief = relief or Alone()
        self._count = 0

    def create(self, name: str) -> str:
        """The path of a new empty file whose name tells which ``name`` it was made for.  Raises ``OSError``."""
        self._count += 1
        quoted = _CUT_ESCAPE.sub("", quote(os.fsencode(name), safe="")[:_LONGEST_QUOTED])
        path = os.path.join(self.path, f"{self._count}-{quoted}")
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        return path


class SpoolFile(ViewFile):
    """A file in the spool, or, as long as it has none, the bytes of ``committed``."""

    writable = True

    def __init__(self, spool: Spool, name: str, committed: ViewFile | None = None) -> None:
        self._spool = spool
        self._name = name
        self._committed = committed
        self._fd = -1
        self._version = 0
        self._shown = committed.version() or 0 if committed is not None else 0
        self.path = ""
        if committed is None:
            self._create()

    def subjects(self) -> None:
        """The kernel asks each time: it may have several names."""

    @property
    def spooled(self) -> bool:
        """Whether it has bytes of its own."""
        return self._fd >= 0

    def size(self) -> int:
        """Size in bytes."""
        return os.fstat(self._fd).st_size if self._committed is None else self._committed.size()

    def read(self, offset: int, length: int) -> bytes | Extent:
        """An extent of the spool file, or the committed bytes."""
        if self._committed is not None:
            return self._committed.read(offset, length)
        return Extent(self._fd, offset, max(0, min(length, self.size() - offset)))

    def content(self) -> bytes:
        """All bytes.  Raises ``OSError``."""
        return read_bytes(self.read(0, self.size()))

    def open_for_writing(self) -> None:
        """Always allowed."""

    def version(self) -> int:
        """Another number when the content changed other than by a write."""
        if self._committed is None:
            return self._version
        return self._version + (self._committed.version() or 0) - self._shown

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        """Write; raises ``OSError`` when the spool is full."""
        self.take(None)
        write_all(self._fd, payload, offset)

    def truncate(self, size: int) -> None:
        """Cut or extend with zeros."""
        self.take(b"" if size == 0 else None)
        os.ftruncate(self._fd, size)

    def settle(self, *, durable: bool) -> None:
        """With ``durable``: fsync."""
        if not durable or not self.spooled:
            return
        fd = os.dup(self._fd)  # it may be given back while this waits
        try:
            with self._spool.relief.waiting():
                os.fsync(fd)
        finally:
            os.close(fd)

    def allocate(self, offset: int, length: int, *, keep_size: bool, zero: bool) -> None:
        """What the spool's file system does."""
        if keep_size or zero:
            raise NotSupportedError("scratch cannot be reserved without growing")
        self.take(None)
        os.posix_fallocate(self._fd, offset, length)

    def take(self, content: bytes | None) -> None:
        """Have bytes of its own from now on: ``content``, or the committed ones as they are now."""
        if self._committed is None:
            return
        before = self.content() if content is None else content
        self._create(before)
        self._version = self.version()
        self._committed = None

    def give(self, committed: ViewFile, *, same: bool) -> None:
        """Show ``committed`` from now on, and drop its own bytes; ``same``: they are the same bytes."""
        self._version = self.version() + (not same)
        self.drop()
        self._committed, self._shown = committed, committed.version() or 0

    def drop(self) -> None:
        """Remove the spool file."""
        if self.spooled:
            os.close(self._fd)
            os.unlink(self.path)
            self._fd, self.path = -1, ""

    def rename(self, name: str) -> None:
        """The node is called ``name`` now; its spool file tells so, for whoever finds it after a crash."""
        self._name = name
        if self.spooled:
            path = self._spool.create(name)
            os.replace(self.path, path)
            self.path = path

    def _create(self, content: bytes = b"") -> None:
        """A spool file with ``content``; nothing has changed when it fails."""
        path = self._spool.create(self._name)
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            write_all(fd, content, 0)
        except OSError:
            os.close(fd)
            os.unlink(path)
            raise
        self._fd, self.path = fd, path
