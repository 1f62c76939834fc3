"""Files that live in the spool directory: drafts, and whatever editors and tools create.

``SpoolFile`` keeps its bytes in a named file of the spool, so that they outlive a daemon
that is killed; as the clean tree it has no spool file and shows the committed text.
One thread.
"""

from __future__ import annotations

import os
import re
from urllib.parse import quote

from asdffs.scheduling import Scheduler, SingleThread
from asdffs.storage.backend import Extent, read_bytes
from asdffs.storage.scratch_file import Descriptors, ScratchFile
from asdffs.views.base import ViewFile

_LONGEST_QUOTED = 200
_CUT_ESCAPE = re.compile(r"%[0-9A-F]?\Z")


class Spool:
    """The directory of one mount, which exists already.  ``path`` is absolute."""

    def __init__(self, path: str, scheduler: Scheduler | None = None) -> None:
        self.path = path
        self.scheduler = scheduler or SingleThread()
        self._count = 0
        self._descriptors = Descriptors()

    def create(self, name: str) -> ScratchFile:
        """A new empty file whose path tells which ``name`` it was made for.  Raises ``OSError``."""
        path = self.new_path(name)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        return ScratchFile(path, self._descriptors)

    def new_path(self, name: str) -> str:
        """A path that no file has, and that tells which ``name`` it is for."""
        self._count += 1
        quoted = _CUT_ESCAPE.sub("", quote(os.fsencode(name), safe="")[:_LONGEST_QUOTED])
        return os.path.join(self.path, f"{self._count}-{quoted}")

    def close(self) -> None:
        """Close descriptors; files stay."""
        self._descriptors.close_all()


class SpoolFile(ViewFile):
    """A file in the spool, or, as long as it has none, the bytes of ``committed``."""

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
        """Of its spool file; empty without one."""
        return self._own.path if self._own is not None else ""

    def subjects(self) -> None:
        """The kernel asks each time: it may have several names."""

    @property
    def spooled(self) -> bool:
        """Whether it has bytes of its own."""
        return self._own is not None

    def size(self) -> int:
        """Size in bytes."""
        return self._own.size if self._own is not None else self._source.size()

    def read(self, offset: int, length: int) -> bytes | Extent:
        """An extent of the spool file, or the committed bytes."""
        return self._own.read(offset, length) if self._own is not None else self._source.read(offset, length)

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
        self.take(None).write(offset, payload)

    def truncate(self, size: int) -> None:
        """Cut or extend with zeros."""
        self.take(b"" if size == 0 else None).truncate(size)

    def flush(self, *, durable: bool) -> None:
        """With ``durable``: fsync."""
        if durable and self._own is not None:
            self._own.sync(self._spool.scheduler)

    def allocate(self, offset: int, length: int, *, keep_size: bool, zero: bool) -> None:
        """What the spool's file system does."""
        self.take(None).allocate(offset, length, keep_size=keep_size, zero=zero)

    def take(self, content: bytes | None) -> ScratchFile:
        """Have bytes of its own from now on: ``content``, or the committed ones as they are now; return the file."""
        if self._own is None:
            own = self._made(self.content() if content is None else content)
            self._version = self.version()
            self._committed, self._own = None, own
        return self._own

    def give(self, committed: ViewFile, *, same: bool) -> None:
        """Show ``committed`` from now on, and drop its own bytes; ``same``: they are the same bytes."""
        self._version = self.version() + (not same)
        self.drop()
        self._committed, self._shown = committed, committed.version() or 0

    def drop(self) -> None:
        """Remove the spool file."""
        own, self._own = self._own, None
        if own is not None:
            own.drop()

    def rename(self, name: str) -> None:
        """The node is called ``name`` now; its spool file tells so, for whoever finds it after a crash."""
        self._name = name
        if self._own is not None:
            self._own.rename(self._spool.new_path(name))

    @property
    def _source(self) -> ViewFile:
        if self._committed is None:
            raise FileNotFoundError("the file is gone")
        return self._committed

    def _made(self, content: bytes = b"") -> ScratchFile:
        """A spool file with ``content``; nothing has changed when it fails."""
        made = self._spool.create(self._name)
        try:
            if content:
                made.write(0, content)
        except OSError:
            made.drop()
            raise
        return made
