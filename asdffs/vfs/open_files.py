"""OpenFiles: operations on the open files of a mount, and the lock under which each file changes.

The caller holds the main lock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator

from asdffs.document.document import Document
from asdffs.errors import FileExpectedError, StaleFileError
from asdffs.scheduling import Rank, RankedLock
from asdffs.storage.backend import Extent
from asdffs.vfs.coherence import Coherence, Kernel
from asdffs.vfs.directories import discard
from asdffs.vfs.foreign import ForeignChanges
from asdffs.vfs.handles import FastPath, Handle, Handles
from asdffs.vfs.names import Names
from asdffs.vfs.namespace import FileNode, Node, User
from asdffs.vfs.scratch import SpoolFile
from asdffs.vfs.shared_pages import SharedPages
from asdffs.vfs.staging import DraftState, Staging


class OpenFiles:
    """The open files of one document.  ``Vfs`` makes the parts."""

    def __init__(
        self,
        document: Document,
        handles: Handles,
        kernel: Kernel,
        coherence: Coherence,
        pages: SharedPages,
        staging: Staging,
        names: Names,
    ) -> None:
        self.document = document
        self._handles = handles
        self._kernel = kernel
        self._coherence = coherence
        self._pages = pages
        self.staging = staging
        self.names = names
        self.foreign = ForeignChanges(document, staging, names.root, coherence)

    # -- opened and closed ----------------------------------------------------

    def open(self, node: Node, *, write: bool, truncate: bool) -> int:
        """Open a file and return the number of the handle.

        Raises ``FileExpectedError``, ``ReadOnlyError``, and whatever the file refuses with.
        """
        self.foreign.look()
        if not isinstance(node, FileNode):
            raise FileExpectedError("is a directory", path=node.path)
        self.names.check_there(node)
        if write:
            self.names.check_writable()
            node.file.open_for_writing()
        else:
            node.file.open_for_reading()
        direct = write and self._pages.opening(node)  # it may wait, and the file be read again meanwhile
        snapshot, generation = node.file.snapshot(), self.document.generation
        handle = self._opened(Handle(node, writable=write, snapshot=snapshot, generation=generation, direct=direct))
        if node is self.staging.node and not truncate:
            self.staging.seen()
        if truncate and write:
            try:
                self._truncate(node, 0, [self._handles.files[handle]])
            except BaseException:  # the program does not get the handle, so it would never be closed
                self._remove(handle)
                raise
        return handle

    def _opened(self, opened: Handle) -> int:
        """Add an open file to the table, and return the number of its handle."""
        self._coherence.learn(opened.node)
        handle = self._handles.add(opened)
        if self._coherence.has_open_sibling(opened.node):
            self._kernel.prepare()
        return handle

    def create(self, folder: Node, name: str, mode: int, by: User | None = None) -> tuple[Node, int]:
        """Create and open a file that belongs to ``by``; return it and the number of the handle.

        Raises as ``Names.create``.
        """
        self.foreign.look()
        node = self.names.create(folder, name, mode, by)
        direct = self._pages.opening(node)
        generation = self.staging.base if node is self.staging.node else self.document.generation
        return node, self._opened(Handle(node, writable=True, generation=generation, direct=direct))

    # -- reads and writes -----------------------------------------------------

    def read(self, handle: int, offset: int, length: int) -> bytes | Extent:
        """Return bytes, or the extent that holds them; fewer at the end of the file.  Raises as ``ViewFile.read``."""
        opened = self._handles.files[handle]
        if opened.snapshot is not None:
            return opened.snapshot[offset : offset + length]
        node, way = opened.node, opened.way
        if way is not None and node.write_lock is None and node.gate is None:
            found = way.read(offset, length)
            if found is not None:
                return found
        return self._read(opened, offset, length)

    def _read(self, opened: Handle, offset: int, length: int) -> bytes | Extent:
        node, way = opened.node, self._fast_path(opened)  # first, because finding it may release the main lock
        if node.write_lock is not None:
            self._await_change(node)
        if node.gate is not None:
            self._pages.reading(node, offset, length, cached=not opened.direct)
        found = way.read(offset, length)
        return node.file.read(offset, length) if found is None else found

    def _fast_path(self, opened: Handle) -> FastPath:
        """Return a current fast path for a handle."""
        way = opened.way
        if way is None or not way.current:
            way = opened.way = FastPath(self.document, opened.node)
        return way

    def whole(self, handle: int) -> None:
        """Return None: what is shown is a part of the ASDF file, or made from it."""

    def is_direct(self, handle: int) -> bool:
        """Return whether the kernel must not cache pages that are read through the handle."""
        opened = self._handles.files[handle]
        return opened.direct or opened.snapshot is not None

    def write(self, handle: int, offset: int, payload: bytes | memoryview, *, mapped: bool = False) -> int:
        """Write ``payload`` and return its length.

        ``mapped``: it consists of whole pages of an mmap, of which the program may have changed only a few bytes.
        Raises ``StaleFileError`` for a mapped write to a file that another program changed since the open.
        """
        opened = self._handles.files[handle]
        node = opened.node
        if mapped and opened.generation != self.document.generation and not isinstance(node.file, SpoolFile):
            raise StaleFileError("another program changed the file after it was mapped; open it again")
        with (
            self._exclusive(opened),
            self._pages.writing(node, offset, payload, mapped=mapped, cached=not opened.direct) as change,
        ):
            (node.file.write_mapped if mapped else node.file.write)(offset, change.payload)
            opened.slow_write_version = self.document.tree.version
            self._dirtied(opened, change.siblings)
        return len(payload)

    def write_fast(self, handle: int, offset: int, payload: bytes | memoryview) -> bool:
        """Write through the fast path, if no other file is open for writing, and no request changes this one.

        Returns False without writing anything if the caller must use ``write``.  Raises as
        ``Transaction.write_content``.
        """
        opened = self._handles.files[handle]
        node = opened.node
        if opened.slow_write_version < 0:
            return False
        way = self._fast_path(opened)  # first, because finding it may release the main lock; nothing below does
        if opened.slow_write_version != self.document.tree.version or opened.direct or node.gate is not None:
            return False
        if node.write_lock is None or node.write_lock.taken or not self._pages.is_alone(node):
            return False
        stamp = way.write(offset, payload)
        if stamp:
            opened.dirty = True
            node.touched(stamp)
            self._coherence.note(self.document.changes.take(), node)
        return bool(stamp)

    def truncate(self, node: Node, size: int, handle: int | None = None) -> None:
        """Set the size, through a handle or without one.  Then all writers of the file count as dirty."""
        self.names.check_changeable(node)
        if not isinstance(node, FileNode):
            raise FileExpectedError("is a directory", path=node.path)
        if handle is None:
            node.file.open_for_writing()
        writers = [self._handles.files[handle]] if handle is not None else list(self._writers(node))
        self._truncate(node, size, writers or [Handle(node, writable=True, generation=self.document.generation)])
        if not writers:
            node.file.flush(durable=False)

    def _truncate(self, node: FileNode, size: int, writers: list[Handle]) -> None:
        with self._exclusive(writers[0]):
            before = node.file.size()
            with self._pages.byte_change(node, min(before, size), abs(before - size)) as siblings:
                node.file.truncate(size)
                self._pages.truncated(node, size)
                for opened in writers:
                    self._dirtied(opened, siblings)

    def allocate(self, handle: int, offset: int, length: int, *, keep_size: bool, zero: bool) -> None:
        """Carry out fallocate(2) through an open file.  Raises as ``ViewFile.allocate``."""
        opened = self._handles.files[handle]
        with self._exclusive(opened), self._pages.byte_change(opened.node, offset, length) as siblings:
            opened.node.file.allocate(offset, length, keep_size=keep_size, zero=zero)
            self._dirtied(opened, siblings)

    def _dirtied(self, opened: Handle, seen_to: Collection[Node] = ()) -> None:
        """Record a write through ``opened``.  ``seen_to``: nodes whose old pages are dropped anyway."""
        opened.dirty = True
        opened.node.touch()
        self._note_change(opened, seen_to)
        if opened.node is self.staging.node:
            self.staging.written(opened.generation)

    def _note_change(self, opened: Handle, seen_to: Collection[Node] = ()) -> None:
        author = None if opened.direct else opened.node  # the kernel updates the pages of the author itself
        self._coherence.note(self.document.changes.take(), author, seen_to)

    @contextlib.contextmanager
    def _exclusive(self, opened: Handle) -> Iterator[None]:
        """Hold the lock of the file, so that its changes come one after the other and not during its commit."""
        node = opened.node
        if node is self.staging.node and self.staging.state is DraftState.CLEAN:
            self.foreign.look()  # now it is no conflict yet: only what is based on the older version is refused
        if node.write_lock is None:
            node.write_lock = RankedLock(self.document.scheduler, Rank.NODE)
        with node.write_lock.entered(), self.staging.guard(node):
            try:
                yield
            except BaseException:  # a failed write may have written a part, so the other views are told of it
                self._note_change(opened)
                raise

    @staticmethod
    def _await_change(node: FileNode) -> None:
        """Wait until no write changes ``node``.

        A read that overtakes an earlier write would leave old bytes in the kernel's cache.
        """
        if node.write_lock is not None and node.write_lock.taken:
            with node.write_lock.entered(patiently=True):
                pass

    def _writers(self, node: FileNode) -> Iterator[Handle]:
        return (opened for opened in self._handles.of(node) if opened.writable)

    # -- flushed and closed ---------------------------------------------------

    def is_dirty(self, handle: int) -> bool:
        """Return whether a program wrote through the handle since its last flush."""
        return self._handles.files[handle].dirty

    def flush(self, handle: int, *, killed: bool) -> None:
        """Handle the close of a file descriptor.

        Commits the tree if this handle wrote it and its program was not ``killed``.  Raises what the commit raises.
        """
        opened = self._handles.files[handle]
        if opened.dirty:
            self._flush(opened, killed=killed)
        if opened.writable:
            self.document.check_shrunk()

    def _flush(self, opened: Handle, *, killed: bool) -> None:
        with self.staging.guard(opened.node):
            opened.dirty = False
            if opened.node is not self.staging.node:
                if not opened.node.file.commits_late or not any(h.dirty for h in self._handles.of(opened.node)):
                    self._flush_node(opened.node, durable=False)
            elif killed:
                self.staging.cut_off()
            else:
                self.staging.commit_draft()

    def fsync(self, handle: int) -> None:
        """Make written bytes durable.  For the tree: commit it.  Raises what the commit raises."""
        opened = self._handles.files[handle]
        with self.staging.guard(opened.node):
            if opened.node is not self.staging.node:
                self._flush_node(opened.node, durable=True)
            elif opened.dirty:
                opened.dirty = False
                self.staging.commit_draft()

    def _flush_node(self, node: FileNode, *, durable: bool) -> None:
        for opened in self._handles.of(node):
            opened.slow_write_version = -1
        node.file.flush(durable=durable)

    def release(self, handle: int) -> None:
        """Close a handle after its last file descriptor.  Flushes again: mapped writes may have come after the flush.

        Raises as ``flush``.
        """
        node = self._handles.files[handle].node
        try:
            self.flush(handle, killed=False)
        finally:
            with self.staging.guard(node):  # a commit may be about it
                self._remove(handle)
                discard(node)

    def _remove(self, handle: int) -> None:
        self._pages.closed(self._handles.remove(handle))
