"""A file of a mounted store: its present content, and how writes change it.

The caller holds the main lock.
"""

from __future__ import annotations

import time
from typing import Protocol

from asdffs.document.changes import STORE, TREE, Subject, content
from asdffs.document.document import Document
from asdffs.errors import NotSupportedError
from asdffs.features.daf.files import Bytes, Content
from asdffs.features.daf.loose import Loose, LooseFiles
from asdffs.features.daf.node_files import Stored
from asdffs.scheduling import RankedLock
from asdffs.storage.backend import Extent
from asdffs.views.base import ViewFile


class Directory(Protocol):
    """The part of a directory that its files need."""

    @property
    def path(self) -> str:
        """Path from the root of the store, with a slash at the end; empty for the root."""


class Owner(Protocol):
    """The part of the mounted store that its files and directories need; see ``LiveStore``.

    ``lock``: held while names change and during a commit.
    """

    document: Document
    lock: RankedLock
    spool: LooseFiles

    def refresh(self) -> None:
        """Load the tree again if another commit changed it."""

    def new_file(self, path: str) -> LiveFile:
        """Return a new empty loose file for ``path``, and log it."""

    def note(self, *operation: str) -> None:
        """Log a change to names and schedule a commit."""

    def copy_to_spool(self, file: LiveFile, size: int) -> Loose:
        """Make a stored file loose, with a copy of its first ``size`` bytes."""

    def unnamed(self, file: LiveFile) -> None:
        """Hold a file that lost its last name while it is open; else forget it."""

    def forget(self, file: LiveFile) -> None:
        """Release the bytes of a file that has neither names nor handles."""

    def wake(self) -> None:
        """Schedule a commit."""


class LiveFile(ViewFile):
    """One file.  ``content``: its bytes; ``names``: its hard links, each a directory and a name.

    ``opens``: number of open handles; ``writers``: of those, handles that may write.
    """

    writable = True

    def __init__(self, store: Owner, content: Content) -> None:
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
        """Its paths, sorted; empty if it has no name any more."""
        return sorted(directory.path + name for directory, name in self.names)

    @property
    def loose(self) -> Loose | None:
        """Its content if the file is loose, else None."""
        return self.content if isinstance(self.content, Loose) else None

    @property
    def block(self) -> int | None:
        """The number of the block that holds exactly its bytes; None without one."""
        window = self.window()
        if window is None or window[1] or self._store.document.blocks[window[0]].size != self.content.size:
            return None
        return window[0]

    def become(self, content: Content, *, same: bool) -> None:
        """Replace the content; ``same``: the bytes are the same as before, so ``version`` stays."""
        version = self.version()
        self.content = content
        self._base = self._changed()
        self._stamp = version if same else max(time.time_ns(), version + 1)
        if not same:
            self._store.document.changes.note(STORE)

    # -- as ``ViewFile`` ------------------------------------------------------

    def subjects(self) -> tuple[Subject, ...] | None:
        """Return what the content depends on; None if the kernel must not cache the file.

        That is a loose or a converted file; and one with several names, because the next commit may make a file of
        its own of each name.
        """
        if len(self.names) > 1:
            return None
        if isinstance(self.content, Bytes):
            return (TREE, STORE)
        window = self.window()
        return None if window is None else (content(window[0]),)

    def version(self) -> int:
        """Return the time in ns of the last change.  A commit of the same bytes is not a change."""
        changed = self._changed()
        return self._stamp if changed == self._base else max(changed, self._stamp)

    def _changed(self) -> int:
        window = self.window()
        return 0 if window is None else self._store.document.changes.stamp(content(window[0]))

    def window(self) -> tuple[int, int] | None:
        """Return the block number and offset where its bytes lie unchanged; None without one."""
        return self.content.window if isinstance(self.content, Stored) else None

    def size(self) -> int:
        """Return the size in bytes."""
        return self.content.size

    def read(self, offset: int, length: int) -> bytes | Extent:
        """Return bytes, or the extent where they are."""
        return self.content.read(offset, length)

    def open_for_writing(self) -> None:
        """Wait until no commit runs, so that a file being committed is not opened for writing."""
        with self._store.lock.entered():
            pass

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        """Write into the block or the loose file; a file that would outgrow its block becomes loose."""
        window = self.window()
        if window is not None and offset + len(payload) <= self.content.size:
            self._store.document.blocks[window[0]].write_at(window[1] + offset, payload)
        else:
            self._in_spool(self.content.size).write(offset, payload)

    def truncate(self, size: int) -> None:
        """Set the size.  A resized file becomes loose, as its size no longer fits its property."""
        if size != self.content.size:
            self._in_spool(min(size, self.content.size)).truncate(size)

    @property
    def commits_late(self) -> bool:  # type: ignore[override]  # a constant elsewhere
        """Whether the file lies in a compressed block, which is encoded as a whole."""
        window = self.window()
        return window is not None and self._store.document.blocks[window[0]].header.compressed

    def flush(self, *, durable: bool) -> None:
        """Commit a compressed block; with ``durable``, fsync the file and the log."""
        if not durable and not self.commits_late:
            return
        window, loose = self.window(), self.loose
        if window is not None:
            self._store.document.blocks[window[0]].flush(durable=durable)
        elif loose is not None:
            loose.sync(self._store.document.scheduler)
        self._store.spool.sync()

    def allocate(self, offset: int, length: int, *, keep_size: bool, zero: bool) -> None:
        """Reserve disk space for a loose file; a stored file that would grow becomes loose.

        Raises ``NotSupportedError`` for a stored file with ``keep_size`` or ``zero``.
        """
        if self.loose is not None or (offset + length > self.content.size and not keep_size and not zero):
            self._in_spool(self.content.size).allocate(offset, length, keep_size=keep_size, zero=zero)
        elif keep_size or zero:
            raise NotSupportedError("room cannot be reserved in a committed file that does not grow")

    def opened(self, *, write: bool) -> None:
        """See ``ViewFile``."""
        self.opens += 1
        self.writers += write

    def closed(self, *, write: bool) -> None:
        """Count a closed handle; a file without names and handles is forgotten.

        After the last writer of a loose file, schedule a commit: its property may be whole now.
        """
        self.opens -= 1
        self.writers -= write
        if not self.opens and not self.names:
            self._store.forget(self)
        elif not self.writers and self.loose is not None:
            self._store.wake()

    def _in_spool(self, size: int) -> Loose:
        """Return the loose content; a stored file becomes loose with its first ``size`` bytes."""
        return self.loose or self._store.copy_to_spool(self, size)


class CurrentContent:
    """The present content of a file, as ``Content``; it follows the file when that becomes loose or stored."""

    def __init__(self, file: LiveFile) -> None:
        self.file = file

    @property
    def size(self) -> int:
        """See ``Content``."""
        return self.file.content.size

    def read(self, offset: int, length: int) -> bytes | Extent:
        """See ``Content``."""
        return self.file.content.read(offset, length)
