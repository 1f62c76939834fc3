"""Vfs: the operations of the mount in terms of nodes, handles and documents.

Raises domain errors (``asdffs.errors``) and ``OSError``; only the adapter knows errno.
User: ``mount/operations``.  One thread.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from asdffs.document.document import Document
from asdffs.errors import (
    AsdffsError,
    FileExpectedError,
    NameRefusedError,
    NoAttributeError,
    NotDirectoryError,
    ReadOnlyError,
)
from asdffs.storage.store import Extent
from asdffs.vfs.ending import Keeper, distinct
from asdffs.vfs.handles import Handle, Handles
from asdffs.vfs.names import Names, Owner
from asdffs.vfs.namespace import DirectoryNode, FileNode, LinkNode, Node
from asdffs.vfs.scratch import Spool, SpoolFile
from asdffs.vfs.staging import TREE, Draft, Staging
from asdffs.views.tree_yaml import CommittedTree

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Attributes:
    """What stat shows.  ``size`` in bytes, times in ns, ``mode`` permission bits."""

    kind: Literal["file", "directory", "link"]
    mode: int
    size: int
    mtime_ns: int
    atime_ns: int
    uid: int
    gid: int
    links: int


class Vfs:
    """The mount of one document.  ``spool`` and ``rejected`` are directories that exist and are empty."""

    def __init__(self, document: Document, *, spool: str, rejected: str) -> None:
        self.document = document
        status = os.stat(document.path)
        mask = 0o777 if document.writable else 0o555
        owner = Owner(status.st_mode & mask, status.st_uid, status.st_gid, status.st_mtime_ns)
        self._spool = Spool(spool)
        self.names = Names(document, self._spool, owner)
        tree = self.names.file_node(SpoolFile(self._spool, TREE, CommittedTree(document)), owner.mode)
        self.staging = Staging(document, self._spool, rejected, tree)
        self.names.bind(self.staging)
        self._handles = Handles()
        document.report.settled = False

    # -- attributes ---------------------------------------------------------

    def attributes(self, path: str, handle: int | None = None) -> Attributes:
        """What stat shows of a path, or of an open file.  Raises ``NoSuchNameError``."""
        opened = self._handles.find(handle)
        node = opened.node if opened else self.names.find(path)
        if isinstance(node, LinkNode):
            return _attributes(node, "link", len(os.fsencode(node.target)), 1)
        if isinstance(node, FileNode):
            return _attributes(node, "file", node.file.size(), max(1, node.names))
        return _attributes(node, "directory", 0, 2)

    def readdir(self, path: str) -> Iterator[str]:
        """Names in a directory.  Raises ``NotDirectoryError``."""
        node = self.names.find(path)
        if not isinstance(node, DirectoryNode):
            raise NotDirectoryError("is a file", path=path)
        return node.entries()

    def readlink(self, path: str) -> str:
        """Target of a symbolic link.  Raises ``NameRefusedError``."""
        node = self.names.find(path)
        if not isinstance(node, LinkNode):
            raise NameRefusedError("is no symbolic link", path=path)
        return node.target

    def chmod(self, path: str, mode: int) -> None:
        """Set the mode of scratch; elsewhere it succeeds and changes nothing."""
        node = self._changeable(path)
        if self._is_scratch(node):
            node.mode = mode & 0o7777

    def chown(self, path: str, uid: int, gid: int) -> None:
        """Set the owner of scratch (-1: keep); elsewhere it succeeds and changes nothing."""
        node = self._changeable(path)
        if self._is_scratch(node):
            node.uid = node.uid if uid == -1 else uid
            node.gid = node.gid if gid == -1 else gid

    def utimens(self, path: str, atime_ns: int, mtime_ns: int) -> None:
        """Set the times of a node."""
        node = self._changeable(path)
        node.atime_ns, node.mtime_ns = atime_ns, mtime_ns

    def xattrs(self, path: str) -> list[str]:
        """Names of the extended attributes."""
        node = self.names.find(path)
        return list(node.file.attributes()) if isinstance(node, FileNode) else []

    def xattr(self, path: str, name: str) -> bytes:
        """One extended attribute.  Raises ``NoAttributeError``."""
        node = self.names.find(path)
        if not isinstance(node, FileNode):
            raise NoAttributeError("only files have attributes", path=path)
        return node.file.attribute(name)

    # -- open files ---------------------------------------------------------

    def open(self, path: str, *, write: bool, truncate: bool) -> int:
        """Open a file; number of the handle.  Raises what the node refuses with."""
        self._refresh()
        node = self.names.find(path)
        if not isinstance(node, FileNode):
            raise FileExpectedError("is a directory", path=path)
        if write:
            self._check_writable()
            node.file.open_for_writing()
        opened = Handle(node, write)
        if truncate and write:
            node.file.truncate(0)
            self._dirtied(opened)
        return self._handles.add(opened)

    def create(self, path: str, mode: int) -> int:
        """Create and open a file.  Raises as ``Names.create``."""
        return self._handles.add(Handle(self.names.create(path, mode), writable=True))

    def read(self, handle: int, offset: int, length: int) -> bytes | Extent:
        """Bytes, or where they are."""
        return self._handles.get(handle).node.file.read(offset, length)

    def write(self, handle: int, offset: int, payload: bytes) -> int:
        """Write; bytes written."""
        opened = self._handles.get(handle)
        opened.node.file.write(offset, payload)
        self._dirtied(opened)
        return len(payload)

    def truncate(self, path: str, size: int, handle: int | None = None) -> None:
        """Set the size, through a handle or by name (then all writers of the file count as dirty)."""
        if handle is not None:
            opened = self._handles.get(handle)
            opened.node.file.truncate(size)
            self._dirtied(opened)
            return
        node = self._changeable(path)
        if not isinstance(node, FileNode):
            raise FileExpectedError("is a directory", path=path)
        node.file.open_for_writing()
        node.file.truncate(size)
        writers = [opened for opened in self._handles.of(node) if opened.writable]
        for opened in writers:
            self._dirtied(opened)
        if not writers:
            self._dirtied(Handle(node, writable=True))
            node.file.settle(durable=False)

    def flush(self, handle: int, *, killed: bool) -> None:
        """A descriptor was closed.  Commits the tree if this handle wrote it and its program lives."""
        opened = self._handles.get(handle)
        if not opened.dirty:
            return
        opened.dirty = False
        if opened.node is not self.staging.node:
            opened.node.file.settle(durable=False)
        elif killed:
            self.staging.cut_off()
        else:
            self.staging.judge()

    def fsync(self, handle: int) -> None:
        """What was written is durable; for the tree: committed.  Raises what the commit raises."""
        opened = self._handles.get(handle)
        if opened.node is not self.staging.node:
            opened.node.file.settle(durable=True)
        elif opened.dirty:
            opened.dirty = False
            self.staging.judge()

    def release(self, handle: int) -> None:
        """The last descriptor of a handle is gone; stores through a map may have come after its flush."""
        try:
            self.flush(handle, killed=False)
        finally:
            self.names.discard(self._handles.remove(handle).node)

    # -- ending -------------------------------------------------------------

    def finish(self) -> None:
        """Judge the draft unless somebody is writing it, and finish the file.

        Raises ``InvalidTreeError`` for a rejected draft, after finishing the rest; else as
        ``Document.finish``.
        """
        refused: AsdffsError | OSError | None = None
        writing = self.staging.node is not None and any(h.dirty for h in self._handles.of(self.staging.node))
        if self.staging.state in (Draft.DIRTY, Draft.REJECTED) and not writing:
            try:
                self.staging.judge()
            except (AsdffsError, OSError) as err:
                refused = err
        self.document.finish()
        if refused is not None:
            raise refused

    def end(self) -> None:
        """Finish, and keep what is not in the file beside it.  Failures go into the report.

        The document stays open, and so locked: whoever owns the spool empties it before the next mount may use it.
        """
        report = self.document.report
        try:
            if self.document.writable:
                self.finish()
        except Exception as err:
            logger.exception("the file could not be finished")
            report.failures.append(str(err))
        self._keep_beside()

    def _keep_beside(self) -> None:
        report = self.document.report
        keeper = Keeper(self.document.path)
        try:
            for draft in distinct([*report.rejected, *self.staging.unsaved()], self.document.tree.text()):
                keeper.keep_draft(draft)
            for name, source in self.names.scratch_files():
                keeper.keep_scratch(name, source)
        except OSError as err:
            keeper.failures.append(f"what was saved stays in {self._spool.path} ({err.strerror})")
        report.kept += keeper.kept
        report.failures += keeper.failures
        report.settled = not keeper.failures

    def _refresh(self) -> None:
        """Another program may have changed the file: read it again while nothing of ours is pending."""
        if self.staging.state is not Draft.CLEAN or self.staging.node is None:
            return
        try:
            changed = self.document.refresh()
        except (AsdffsError, OSError) as err:  # what is there now cannot be served: go on with what was
            self.document.report.refuse(err)
            return
        if changed:
            now = time.time_ns()
            for node in (self.names.root, *self.names.root.fixed.values()):
                node.mtime_ns = now
                if isinstance(node, DirectoryNode):
                    node.forget()

    def _dirtied(self, opened: Handle) -> None:
        opened.dirty = True
        opened.node.touch()
        if opened.node is self.staging.node:
            self.staging.written()

    def _is_scratch(self, node: Node) -> bool:
        if isinstance(node, FileNode):
            return isinstance(node.file, SpoolFile) and node is not self.staging.node
        return isinstance(node, LinkNode)

    def _changeable(self, path: str) -> Node:
        self._check_writable()
        return self.names.find(path)

    def _check_writable(self) -> None:
        if not self.document.writable:
            raise ReadOnlyError("the mount is read-only")


def _attributes(node: Node, kind: Literal["file", "directory", "link"], size: int, links: int) -> Attributes:
    return Attributes(kind, node.mode, size, node.mtime_ns, node.atime_ns, node.uid, node.gid, links)
