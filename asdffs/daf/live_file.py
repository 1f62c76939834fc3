"""A file of a mounted store: what it holds now, and what becomes of it when it is written.

The caller holds the main lock.
"""

from __future__ import annotations

import time
from typing import Protocol

from asdffs.daf.files import Content
from asdffs.daf.loose import Loose
from asdffs.daf.stored import Stored
from asdffs.document.changes import Subject, content
from asdffs.document.document import Document
from asdffs.errors import NotSupportedError
from asdffs.scheduling import RankedLock
from asdffs.storage.backend import Extent
from asdffs.views.base import ViewFile


class Directory(Protocol):
    """What a file asks of a directory that it is in."""

    @property
    def path(self) -> str:
        """From the root of the store, with a slash at the end; empty for the root."""


class FileOwner(Protocol):
    """What a file asks of the mounted store that it is in.  ``turn``: held by whoever changes names, or commits."""

    document: Document
    lock: RankedLock

    def loosen(self, file: LiveFile, size: int) -> Loose:
        """Give a stored file bytes of its own, the first ``size`` of those that it has."""

    def forget(self, file: LiveFile) -> None:
        """A file is gone."""

    def wake(self) -> None:
        """Something is to be committed, soon."""

    def sync_log(self) -> None:
        """Make durable what was done to names."""


class LiveFile(ViewFile):
    """One file.  ``content``: what it holds; ``names``: where it is; ``writers``, ``opens``: handles on it."""

    writable = True
    linkable = True

    def __init__(self, store: FileOwner, content: Content) -> None:
        self._store = store
        self.content = content
        self.identity = self
        self.names: dict[tuple[Directory, str], None] = {}
        self.opens = 0
        self.writers = 0
        self._stamp = 0
        self._base = self._changed()

    @property
    def paths(self) -> list[str]:
        """Its paths, in order; none when it has no name any more."""
        return sorted(directory.path + name for directory, name in self.names)

    @property
    def loose(self) -> Loose | None:
        """Its bytes when the tree does not have it yet."""
        return self.content if isinstance(self.content, Loose) else None

    @property
    def block(self) -> int | None:
        """The number of the block that holds its bytes, and nothing else."""
        window = self.window()
        if window is None or window[1] or self._store.document.blocks[window[0]].size != self.content.size:
            return None
        return window[0]

    def become(self, content: Content, *, same: bool) -> None:
        """Hold ``content`` from now on; ``same``: these are the bytes that it had."""
        version = self.version()
        self.content = content
        self._base = self._changed()
        self._stamp = version if same else max(time.time_ns(), version + 1)

    # -- as ``ViewFile`` ------------------------------------------------------

    def subjects(self) -> tuple[Subject, ...] | None:
        """The block; of others the kernel keeps nothing, because they may be another by the next commit."""
        window = self.window()
        return None if window is None or len(self.names) > 1 else (content(window[0]),)

    def version(self) -> int:
        """When it changed; to be committed is no change."""
        changed = self._changed()
        return self._stamp if changed == self._base else max(changed, self._stamp)

    def _changed(self) -> int:
        window = self.window()
        return 0 if window is None else self._store.document.changes.stamp(content(window[0]))

    def window(self) -> tuple[int, int] | None:
        """Where it is in a block, as it is."""
        return self.content.window if isinstance(self.content, Stored) else None

    def size(self) -> int:
        """In bytes."""
        return self.content.size

    def read(self, offset: int, length: int) -> bytes | Extent:
        """Bytes, or where they are."""
        return self.content.read(offset, length)

    def open_for_writing(self) -> None:
        """Not while it is being committed."""
        with self._store.lock.entered():
            pass

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        """Into the block, or the loose file; what would be longer than its block becomes loose."""
        window = self.window()
        if window is not None and offset + len(payload) <= self.content.size:
            self._store.document.blocks[window[0]].write_at(window[1] + offset, payload)
        else:
            self._loosened(self.content.size).write(offset, payload)

    def truncate(self, size: int) -> None:
        """Set the size.  A file of another size than its property is to have is no part of it for now."""
        if size != self.content.size:
            self._loosened(min(size, self.content.size)).truncate(size)

    @property
    def commits_late(self) -> bool:  # type: ignore[override]  # a constant elsewhere
        """A compressed block is encoded as a whole."""
        window = self.window()
        return window is not None and self._store.document.blocks[window[0]].header.compressed

    def flush(self, *, durable: bool) -> None:
        """Have a compressed block stored; with ``durable``: fsync."""
        if not durable and not self.commits_late:
            return
        window, loose = self.window(), self.loose
        if window is not None:
            self._store.document.blocks[window[0]].flush(durable=durable)
        elif loose is not None:
            loose.sync(self._store.document.scheduler)
        self._store.sync_log()

    def allocate(self, offset: int, length: int, *, keep_size: bool, zero: bool) -> None:
        """Room for a loose file."""
        if self.loose is not None or (offset + length > self.content.size and not keep_size and not zero):
            self._loosened(self.content.size).allocate(offset, length, keep_size=keep_size, zero=zero)
        elif keep_size or zero:
            raise NotSupportedError("a file that is in the tree cannot be reserved without growing")

    def opened(self, *, write: bool) -> None:
        """See ``ViewFile``."""
        self.opens += 1
        self.writers += write

    def closed(self, *, write: bool) -> None:
        """Its property may be whole now; one without names and handles is gone."""
        self.opens -= 1
        self.writers -= write
        if not self.opens and not self.names:
            self._store.forget(self)
        elif not self.writers and self.loose is not None:
            self._store.wake()

    def _loosened(self, size: int) -> Loose:
        """Its bytes in the spool, the first ``size`` of them to begin with."""
        return self.loose or self._store.loosen(self, size)


class Now:
    """What a file holds, as ``Content``."""

    def __init__(self, file: LiveFile) -> None:
        self.file = file

    @property
    def size(self) -> int:
        """See ``Content``."""
        return self.file.content.size

    def read(self, offset: int, length: int) -> bytes | Extent:
        """See ``Content``."""
        return self.file.content.read(offset, length)
