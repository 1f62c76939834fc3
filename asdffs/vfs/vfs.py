"""Vfs: the operations of a mount in terms of nodes, handles and documents.  ``open_files`` has those on open files.

Raises domain errors (``asdffs.errors``) and ``OSError``; only ``mount`` knows errno.  The caller holds the main lock
(``asdffs.scheduling``).
"""

from __future__ import annotations

import logging
import os
import stat
import tempfile
from collections.abc import Iterator

from asdffs.document.document import Document
from asdffs.document.saves.drafts import Drafts
from asdffs.document.saves.history import History, Places
from asdffs.document.saves.keeping import keep_beside
from asdffs.errors import AsdffsError, ForeignAttributeError, NameRefusedError, NoAttributeError, NotDirectoryError
from asdffs.vfs.attributes import Attributes, Entry, Shown, attributes_of, owner_of
from asdffs.vfs.coherence import Coherence, Kernel
from asdffs.vfs.directories import Parts
from asdffs.vfs.handles import DirectoryHandle, Handles
from asdffs.vfs.inodes import LOST, Inode
from asdffs.vfs.names import Names
from asdffs.vfs.namespace import ROOT_NUMBER, DirectoryNode, FileNode, LinkNode, Node, number_of
from asdffs.vfs.open_files import OpenFiles
from asdffs.vfs.scratch import Spool, SpoolFile
from asdffs.vfs.shared_pages import SharedPages
from asdffs.vfs.staging import TREE, DraftState, Staging
from asdffs.views.status import CommittedTree

logger = logging.getLogger(__name__)


class Vfs(OpenFiles):
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
        kernel: Kernel,
        number: int = ROOT_NUMBER,
    ) -> None:
        chosen, handles = shown or Shown(), Handles()
        owner = owner_of(document, chosen)
        self._spool = Spool(places.spool, document.scheduler)
        coherence = Coherence(handles.nodes)
        pages = SharedPages(coherence, document.scheduler, kernel)
        shown_tree = SpoolFile(self._spool, TREE, CommittedTree(document))
        tree = FileNode(owner, file=shown_tree, number=number_of(number, TREE))
        history = History(places.history, document.report.history)
        drafts = Drafts(document, places.rejected, history, committing=pages.committing)
        staging = Staging(document, drafts, tree)
        parts = Parts(self._spool, owner, (chosen.uid, chosen.gid), staging, coherence, pages, document.scheduler)
        names = Names(document, parts, chosen.views._replace(spool=places.spool), number=number)
        super().__init__(document, handles, kernel, coherence, pages, staging, names)

    def refuse(self, error: Exception) -> None:
        """Note in the report of the document why a request was refused."""
        self.document.report.refuse(error)

    def tell_changes(self, locked: Node | None = None, *, wait: bool) -> None:
        """Make the kernel drop its caches of nodes that changed.  ``locked``, ``wait``: see ``Kernel.invalidate``."""
        if self.document.changes.news or self._coherence.stale or (wait and self._kernel.behind):
            self._kernel.invalidate(self.take_stale(), locked, wait=wait)

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

    def put_away_at_end(self, inode: Inode) -> None:
        """Put the node of ``inode`` away, as the document is closed.

        A directory is found again by its path.  A file is lost if its name may be another's when it is asked for.
        """
        node, shape = inode.item, self.document.changes.shape
        if node is not None:
            there = self.names.is_there(node)
            is_directory = isinstance(node, DirectoryNode)
            inode.put_away(node.path, self.names.root.number if there else LOST, None if is_directory else 0)
        elif inode.shape is not None:
            inode.home, inode.shape = inode.home if inode.shape == shape else LOST, 0

    def attributes(self, node: Node, handle: int | None = None) -> Attributes:
        """Return the attributes of a node, for the kernel."""
        last, document = node.shown, self.document
        if last is not None and last[0] == self._state(node):
            kept: Attributes = last[1]
            return kept
        if node.names <= 0 or node.shape != document.changes.shape:
            self.names.check_there(node)
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

    def take_stale(self) -> dict[Node, bool]:
        """Return the nodes that changed through another node since the last call.

        The value of each node tells whether the kernel may have old pages of it.  Cheap if there are no such nodes.
        """
        if self.document.changes.news:
            self._coherence.note(self.document.changes.take())
        return self._coherence.take()

    def readlink(self, node: Node) -> str:
        """Return the target of a symbolic link.  Raises ``NameRefusedError``."""
        if not isinstance(node, LinkNode):
            raise NameRefusedError("is not a symbolic link", path=node.path)
        return node.target

    def xattrs(self, node: Node) -> list[str]:
        """Return the names of the extended attributes."""
        return list(node.file.attributes()) if isinstance(node, FileNode) else []

    def xattr(self, node: Node, name: str) -> bytes:
        """Return the value of an extended attribute.  Raises ``NoAttributeError``."""
        if not isinstance(node, FileNode):
            raise NoAttributeError("only files have attributes", path=node.path)
        return node.file.attribute(name)

    # -- set attributes -------------------------------------------------------

    def chmod(self, node: Node, mode: int) -> None:
        """Set the mode of scratch.  For other nodes, succeed without an effect."""
        self.names.check_changeable(node)
        if self._is_scratch(node):
            node.mode = mode & 0o7777
        node.note_change()

    def chown(self, node: Node, uid: int, gid: int) -> None:
        """Set the owner of scratch; -1 keeps a number.  For other nodes, succeed without an effect."""
        self.names.check_changeable(node)
        if self._is_scratch(node):
            node.uid = node.uid if uid == -1 else uid
            node.gid = node.gid if gid == -1 else gid
            self.drop_privileges(node)
        node.note_change()

    def drop_privileges(self, node: Node) -> None:
        """Take the set-user-ID and set-group-ID bits from a scratch file, as a write by another user does.

        The kernel asks for it, or does not, by the privileges of the program; a change of the owner always does it.
        Without the permission to execute for the group, the second bit means something else, and stays.
        """
        if isinstance(node, FileNode) and self._is_scratch(node):
            node.mode &= ~stat.S_ISUID
            if node.mode & stat.S_IXGRP:
                node.mode &= ~stat.S_ISGID

    def utimens(self, node: Node, atime_ns: int | None, mtime_ns: int | None) -> None:
        """Set the times of a node in ns; None keeps a time."""
        self.names.check_changeable(node)
        if isinstance(node, FileNode):
            node.look()  # notes earlier changes, which would move the new mtime otherwise
        node.atime_ns = node.atime_ns if atime_ns is None else atime_ns
        if mtime_ns is not None:
            node.mtime_ns = node.set_ns = mtime_ns
        node.note_change()

    def set_xattr(self, node: Node, name: str, value: bytes) -> None:
        """Set an extended attribute.  Raises ``ForeignAttributeError``, and whatever the file raises."""
        self.names.check_changeable(node)
        if not isinstance(node, FileNode):
            raise ForeignAttributeError("only files have attributes", path=node.path)
        node.file.set_attribute(name, value)

    def _is_scratch(self, node: Node) -> bool:
        if isinstance(node, FileNode):
            return isinstance(node.file, SpoolFile) and node is not self.staging.node
        return isinstance(node, LinkNode) or (isinstance(node, DirectoryNode) and node.created)

    # -- directories --------------------------------------------------------

    def opendir(self, node: Node) -> int:
        """Open a directory; return the number of the handle.  Raises ``NotDirectoryError``."""
        if not isinstance(node, DirectoryNode):
            raise NotDirectoryError("is a file", path=node.path)
        self.names.check_there(node)
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
