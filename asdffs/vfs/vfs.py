"""Vfs: the operations of a mount in terms of nodes, handles and documents.

Raises domain errors (``asdffs.errors``) and ``OSError``; only ``mount`` knows errno.  The caller holds the main lock
(``asdffs.scheduling``).
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Collection, Iterator

from asdffs.document.document import Document
from asdffs.document.saves.drafts import Drafts
from asdffs.document.saves.history import History, Places
from asdffs.document.saves.keeping import keep_beside
from asdffs.errors import (
    AsdffsError,
    FileExpectedError,
    GoneError,
    NoSuchNameError,
    NotDirectoryError,
    ReadOnlyError,
    StaleFileError,
)
from asdffs.scheduling import Rank, RankedLock
from asdffs.storage.backend import Extent
from asdffs.vfs.attributes import Attributes, Entry, Shown, User, attributes_of, owner_of
from asdffs.vfs.coherence import Coherence
from asdffs.vfs.fast_paths import FastPath
from asdffs.vfs.foreign import ForeignChanges
from asdffs.vfs.handles import DirectoryHandle, Handle, Handles
from asdffs.vfs.inodes import Inode
from asdffs.vfs.kernel import Kernel, NoKernel
from asdffs.vfs.metadata import Metadata
from asdffs.vfs.names import Names
from asdffs.vfs.namespace import ROOT_NUMBER, DirectoryNode, FileNode, Node, number_of
from asdffs.vfs.scratch import Spool, SpoolFile
from asdffs.vfs.shared_pages import SharedPages
from asdffs.vfs.staging import TREE, DraftState, Staging
from asdffs.views.tree_yaml import CommittedTree

logger = logging.getLogger(__name__)


class Vfs:
    """The mount of one document.

    The directories of ``places`` exist already; those for the spool and for rejected drafts are empty.  ``number``:
    the inode number of its root.
    """

    def __init__(
        self,
        document: Document,
        places: Places,
        shown: Shown | None = None,
        *,
        kernel: Kernel | None = None,
        number: int = ROOT_NUMBER,
    ) -> None:
        self.document = document
        chosen = shown or Shown()
        owner = owner_of(document, chosen)
        self._spool = Spool(places.spool, document.scheduler)
        self._handles = Handles()
        self._coherence = Coherence(self._handles.nodes)
        self._kernel = kernel or NoKernel()
        self._pages = SharedPages(self._coherence, document.scheduler, self._kernel)
        shown_tree = SpoolFile(self._spool, TREE, CommittedTree(document))
        at = owner.mtime_ns
        tree = FileNode(owner.mode, owner.uid, owner.gid, at, at, file=shown_tree, number=number_of(number, TREE))
        history = History(places.history, document.report.history)
        drafts = Drafts(document, places.rejected, history, committing=self._pages.committing)
        self.staging = Staging(document, drafts, tree)
        self.names = Names(
            document,
            self._spool,
            owner,
            self._coherence,
            self._pages,
            self.staging,
            chosen.views._replace(spool=places.spool),
            number=number,
        )
        self.metadata = Metadata(self.staging, self._check_changeable)
        self.foreign = ForeignChanges(document, self.staging, self.names.root, self._coherence)

    def refuse(self, error: Exception) -> None:
        """Note in the report of the document why a request was refused."""
        self.document.report.refuse(error)

    def tell_changes(self, *, wait: bool) -> None:
        """Make the kernel drop its caches of nodes that changed.  ``wait``: wait a moment until mmaps show it."""
        if self.document.changes.news or self._coherence.stale or (wait and self._kernel.behind):
            stale, author = self.take_stale()
            self._kernel.invalidate(stale, author, wait=wait)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is open, and no draft or scratch waits for a program: the document may be closed."""
        at_rest = self.staging.node is not None and self.staging.state is DraftState.CLEAN
        return at_rest and not self._handles.any and not self.document.busy and not self.names.has_scratch

    @property
    def stored_in(self) -> str:
        """The directory on whose disk the bytes are: that of the file, or of the cache of a remote file."""
        return tempfile.gettempdir() if self.document.is_remote else os.path.dirname(self.document.path)

    # -- attributes ---------------------------------------------------------

    @property
    def root(self) -> Node:
        """The root of the mount."""
        return self.names.root

    def lookup(self, folder: Node, name: str) -> tuple[Node, Attributes]:
        """Return the node of that name, and its attributes.  Raises as ``Names.find``."""
        seen = folder.seen.get(name) if isinstance(folder, DirectoryNode) and name not in folder.leaving else None
        if seen is not None and seen.shape == self.document.changes.shape and folder.subjects() is not None:
            return seen, self.attributes(seen)  # nothing came or went since it was found
        node = self.names.find(folder, name)
        if node.shape is not None:
            node.shape = self.document.changes.shape
        return node, self.attributes(node)

    def _check_there(self, node: Node) -> None:
        """Raise ``GoneError`` or ``NoSuchNameError`` if no name leads to ``node`` any more, and no handle.

        The view is asked even for an open one: it may give the file other content.
        """
        if node.names <= 0 and not node.opens:
            raise GoneError("has no name any more", path=node.path)
        if node.folder is not None and node.name in node.folder.leaving:
            raise NoSuchNameError("is being removed", path=node.path)
        if node.shape is None or node.shape == self.document.changes.shape:
            return
        try:
            if self.names.walk(node.path) is not node:
                raise GoneError("its name leads to another file", path=node.path)
            node.shape = self.document.changes.shape
        except (GoneError, NoSuchNameError, NotDirectoryError):
            if not node.opens:
                raise

    def forget(self, node: Node) -> bool:
        """Drop ``node``, which the kernel does not need; return False if it has state that a new one would lack."""
        dropped = node.folder is not None and node.folder.drop(node)
        if dropped:
            self._coherence.forget(node)
        return dropped

    def put_away(self, inode: Inode) -> bool:
        """Drop the node of ``inode``; return False if a new one would not look the same."""
        node = inode.item
        if not self.forget(node):
            return False
        inode.put_away(node.path, self.names.root.number, self.document.changes.shape)
        return True

    def attributes(self, node: Node, handle: int | None = None) -> Attributes:
        """Return the attributes of a node, for the kernel."""
        last, document = node.shown, self.document
        if last is not None and last[0] == self._state(node):
            kept: Attributes = last[1]
            return kept
        if node.names <= 0 or node.shape != document.changes.shape:
            self._check_there(node)
        shown = attributes_of(node)
        self._coherence.learn(node)
        node.shown = (self._state(node), shown) if shown.steady and node.shape is not None else None
        return shown

    def _state(self, node: Node) -> tuple[int, ...]:
        """Return numbers of which one is another if the attributes of a node of a view may be others."""
        document = self.document
        return (
            *(document.changes.last, document.table.epoch, node.names),
            *(node.mtime_ns, node.atime_ns, node.changed_ns),
        )

    def take_stale(self) -> tuple[dict[Node, bool], Node | None]:
        """Return the nodes that changed through another node since the last call, and the author of the last change.

        The value of each node tells whether the kernel may have old pages of it.  Cheap if there are no such nodes.
        """
        if self.document.changes.news:
            self._coherence.note(self.document.changes.take())
        return self._coherence.take()

    def readlink(self, node: Node) -> str:
        """Return the target of a symbolic link.  Raises as ``Metadata.readlink``."""
        return self.metadata.readlink(node)

    def xattrs(self, node: Node) -> list[str]:
        """Return the names of the extended attributes."""
        return self.metadata.xattrs(node)

    def xattr(self, node: Node, name: str) -> bytes:
        """Return the value of an extended attribute.  Raises as ``Metadata.xattr``."""
        return self.metadata.xattr(node, name)

    # -- directories --------------------------------------------------------

    def opendir(self, node: Node) -> int:
        """Open a directory; return the number of the handle.  Raises ``NotDirectoryError``."""
        if not isinstance(node, DirectoryNode):
            raise NotDirectoryError("is a file", path=node.path)
        self._check_there(node)
        return self._handles.add(DirectoryHandle(node))

    def entries_from(self, handle: int, start: int) -> Iterator[Entry]:
        """Return the entries from ``start`` on, including ``.`` and ``..``, all without attributes (``Area``).

        They are read at entry 0 and do not change until the next call for entry 0.
        """
        opened = self._handles.directories[handle]
        if start == 0:
            opened.names = [".", "..", *opened.node.entries()]
        return ((os.fsencode(opened.names[at]), 0, 0) for at in range(start, len(opened.names)))

    def entry(self, handle: int, name: str) -> tuple[Node, Attributes] | None:
        """Return an entry of an open directory; None for ``.``, ``..`` and a name that is gone."""
        try:
            node = self._handles.directories[handle].node.find(name)
        except KeyError:
            return None
        if node.shape is not None:
            node.shape = self.document.changes.shape
        return node, self.attributes(node)

    def is_root(self, handle: int) -> bool:
        """Return whether an open directory is the root of the mount."""
        return self._handles.directories[handle].node is self.names.root

    def closedir(self, handle: int) -> None:
        """Close a directory."""
        self._handles.remove(handle)

    # -- open files ---------------------------------------------------------

    def open(self, node: Node, *, write: bool, truncate: bool) -> int:
        """Open a file and return the number of the handle.

        Raises ``FileExpectedError``, ``ReadOnlyError``, and whatever the file refuses with.
        """
        self.foreign.look()
        if not isinstance(node, FileNode):
            raise FileExpectedError("is a directory", path=node.path)
        self._check_there(node)
        if write:
            self._check_writable()
            node.file.open_for_writing()
        else:
            node.file.open_for_reading()
        snapshot, generation = node.file.snapshot(), self.document.generation
        handle = self._opened(node, write=write, snapshot=snapshot, generation=generation)
        if node is self.staging.node and not truncate:
            self.staging.seen()
        if truncate and write:
            try:
                self._truncate(node, 0, [self._handles.files[handle]])
            except BaseException:  # the program does not get the handle, so it would never be closed
                self._remove(handle)
                raise
        return handle

    def _opened(self, node: FileNode, *, write: bool, snapshot: bytes | None = None, generation: int) -> int:
        """Add an open file to the table, and return the number of its handle."""
        direct = write and self._pages.opening(node)
        opened = Handle(node, writable=write, snapshot=snapshot, generation=generation, direct=direct)
        self._coherence.learn(node)
        handle = self._handles.add(opened)
        if self._coherence.has_open_sibling(node):
            self._kernel.prepare()
        return handle

    def create(self, folder: Node, name: str, mode: int, by: User | None = None) -> tuple[Node, int]:
        """Create and open a file that belongs to ``by``; return it and the number of the handle.

        Raises as ``Names.create``.
        """
        self.foreign.look()
        node = self.names.create(folder, name, mode, by)
        generation = self.staging.base if node is self.staging.node else self.document.generation
        return node, self._opened(node, write=True, generation=generation)

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
        """Write through the fast path, if no other request or view uses the block.

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
        self._check_changeable(node)
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
                    self._settle(opened.node, durable=False)
            elif killed:
                self.staging.cut_off()
            else:
                self.staging.commit_draft()

    def fsync(self, handle: int) -> None:
        """Make written bytes durable.  For the tree: commit it.  Raises what the commit raises."""
        opened = self._handles.files[handle]
        with self.staging.guard(opened.node):
            if opened.node is not self.staging.node:
                self._settle(opened.node, durable=True)
            elif opened.dirty:
                opened.dirty = False
                self.staging.commit_draft()

    def _settle(self, node: FileNode, *, durable: bool) -> None:
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
                self.names.discard(node)

    def _remove(self, handle: int) -> None:
        self._pages.closed(self._handles.remove(handle))

    # -- ending -------------------------------------------------------------

    def finish(self, *, final: bool = False) -> None:
        """Commit the draft unless a program is writing it, and finish the file.

        ``final``: no more requests follow.  Raises ``InvalidTreeError`` for a rejected draft, after finishing the
        rest, and otherwise as ``Document.finish``.
        """
        refused: Exception | None = None
        with self.staging.lock.entered():  # before the check for writers: a write may be queued for this lock
            try:
                self._commit_draft_unless_written()
            except (AsdffsError, OSError) as err:
                refused = err
        for view in self.names.views:
            try:
                view.finish(final=final)
            except (AsdffsError, OSError) as err:
                refused = refused or err
            except Exception as err:  # a bug in a view of another package must not keep the file unfinished
                logger.exception("a view could not be finished")
                refused = refused or err
        self.document.finish()
        self.document.check_shrunk()
        if refused is None and not final:
            self.document.report.check_cut()
        if refused is not None:
            raise refused

    def _commit_draft_unless_written(self) -> None:
        writing = self.staging.node is not None and any(h.dirty for h in self._handles.of(self.staging.node))
        if self.staging.state in (DraftState.DIRTY, DraftState.REJECTED) and not writing:
            self.staging.commit_draft()

    def end(self) -> bool:
        """Finish the file and keep everything that is not in it beside it; return whether all of it was kept.

        Failures go into the report.  The document stays open, and so locked, because the owner of the spool must
        empty it before the next mount may use it.
        """
        report = self.document.report
        try:
            if self.document.writable:
                self.foreign.look()
                self.finish(final=True)
        except (AsdffsError, OSError) as err:
            logger.error("the file could not be finished: %s", report.tell(err))
            report.fail(err)
        except Exception as err:  # even after a bug, unsaved edits must be kept beside the file
            logger.exception("the file could not be finished")
            report.fail(err)
        names = self.names
        self._spool.close()
        return keep_beside(self.document, self.staging.unsaved, names.left, names.unsaved_files, self._spool.path)

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

    def _check_changeable(self, node: Node) -> None:
        """Raise ``ReadOnlyError``, or as ``_check_there``, if the node may not be changed."""
        self._check_writable()
        self._check_there(node)

    def _check_writable(self) -> None:
        if not self.document.writable:
            raise ReadOnlyError("the mount is read-only")
