"""Files in the spool directory: drafts, and the scratch files of editors and tools.

``SpoolFile`` keeps its bytes in a named file of the spool, so that they survive if the daemon is killed.  A clean
``tree.yaml`` has no spool file and shows the committed text.  The caller holds the main lock.
"""

from __future__ import annotations

import os
import re

from asdffs.scheduling import Scheduler, SingleThread
from asdffs.storage.backend import Extent, read_bytes
from asdffs.storage.descriptors import kept_files
from asdffs.storage.own_files import ScratchFile
from asdffs.views.base import ViewFile

_LONGEST_QUOTED = 200
_CUT_ESCAPE = re.compile(r"%[0-9A-F]?\Z")


class Spool:
    """The spool directory of one mount.  ``path`` is absolute; the directory exists already."""

    def __init__(self, path: str, scheduler: Scheduler | None = None) -> None:
        self.path = path
        self.scheduler = scheduler or SingleThread()
        self._count = 0

    def create(self, name: str) -> ScratchFile:
        """Create an empty file.  Its path contains ``name``, so it can be recognized.  Raises ``OSError``."""
        path = self.new_path(name)
        kept_files.create(path)
        return ScratchFile(path)

    def new_path(self, name: str) -> str:
        """Return an unused path that contains ``name``, quoted and shortened if necessary."""
        from urllib.parse import quote  # many mounts have no scratch

        self._count += 1
        quoted = _CUT_ESCAPE.sub("", quote(os.fsencode(name), safe="")[:_LONGEST_QUOTED])
        return os.path.join(self.path, f"{self._count}-{quoted}")

    def close(self) -> None:
        """Close all file descriptors.  The files stay."""
        kept_files.close_below(self.path)


class SpoolFile(ViewFile):
    """A file in the spool.  As long as it has no spool file, it shows the bytes of ``committed``."""

    writable = True

    def __init__(self, spool: Spool, name: str, committed: ViewFile | None = None) -> None:
        self._spool = spool
        self._name = name
        self._committed = committed
        self._own: ScratchFile | None = None
        self._version = 0
        self._shown = committed.version() or 0 if committed is not None else 0
        if committed is None:
            self._own = self._made()

    @property
    def path(self) -> str:
        """Path of the spool file; empty without one."""
        return self._own.path if self._own is not None else ""

    def subjects(self) -> None:
        """Return None: the kernel must ask each time, because the file may have several names."""

    @property
    def spooled(self) -> bool:
        """Whether there is a spool file."""
        return self._own is not None

    def size(self) -> int:
        """Return the size in bytes."""
        return self._own.size if self._own is not None else self._source.size()

    def read(self, offset: int, length: int) -> bytes | Extent:
        """Return an extent of the spool file, or the committed bytes."""
        return self._own.read(offset, length) if self._own is not None else self._source.read(offset, length)

    def content(self) -> bytes:
        """Return all bytes.  Raises ``OSError``."""
        return read_bytes(self.read(0, self.size()))

    def open_for_writing(self) -> None:
        """Allow it: these files are always writable."""

    def version(self) -> int:
        """Return a number that changes when the content changes in another way than by a write."""
        if self._committed is None:
            return self._version
        return self._version + (self._committed.version() or 0) - self._shown

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        """Write ``payload`` at ``offset``.  Raises ``OSError`` if the spool is full."""
        self.take(None).write(offset, payload)

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes, or extend it with zeros."""
        self.take(b"" if size == 0 else None).truncate(size)

    def flush(self, *, durable: bool) -> None:
        """Sync the spool file to disk if ``durable``, else do nothing."""
        if durable and self._own is not None:
            self._own.sync(self._spool.scheduler)

    def allocate(self, offset: int, length: int, *, keep_size: bool, zero: bool) -> None:
        """Call fallocate(2) on the spool file."""
        self.take(None).allocate(offset, length, keep_size=keep_size, zero=zero)

    def take(self, content: bytes | None) -> ScratchFile:
        """Return the spool file; create it if there is none.

        A new one gets ``content``, or for None a copy of the committed bytes.
        """
        if self._own is None:
            own = self._made(self.content() if content is None else content)
            self._version = self.version()
            self._committed, self._own = None, own
        return self._own

    def give(self, committed: ViewFile, *, same: bool) -> None:
        """Show ``committed`` from now on, and delete the spool file.  ``same``: both have the same bytes."""
        self._version = self.version() + (not same)
        self.drop()
        self._committed, self._shown = committed, committed.version() or 0

    def drop(self) -> None:
        """Delete the spool file, if there is one."""
        own, self._own = self._own, None
        if own is not None:
            own.drop()

    def rename(self, name: str) -> None:
        """Rename the spool file, because the node is called ``name`` now.  After a crash the path tells the name."""
        self._name = name
        if self._own is not None:
            self._own.rename(self._spool.new_path(name))

    @property
    def _source(self) -> ViewFile:
        if self._committed is None:
            raise FileNotFoundError("the file is gone")
        return self._committed

    def _made(self, content: bytes = b"") -> ScratchFile:
        """Create a spool file with ``content``.  Leaves nothing behind if it raises ``OSError``."""
        made = self._spool.create(self._name)
        try:
            if content:
                made.write(0, content)
        except OSError:
            made.drop()
            raise
        return made
