"""Entries of views that programs can create, remove, and overwrite by a rename: blocks.

The view decides which names are allowed and what they mean.  This module connects them with nodes and scratch.  The
caller holds the main lock.
"""

from __future__ import annotations

import contextlib

from asdffs.errors import AsdffsError, InUseError, NotPermittedError
from asdffs.scheduling import Scheduler
from asdffs.storage.backend import read_bytes
from asdffs.vfs.coherence import Coherence
from asdffs.vfs.namespace import DirectoryNode, FileNode, Node
from asdffs.vfs.shared_pages import SharedPages
from asdffs.views.base import View

_COPY_PIECE = 1 << 20


class ViewEntries:
    """The entries of ``views``, which are keyed by the node of each view's directory."""

    def __init__(
        self, views: dict[DirectoryNode, View], scheduler: Scheduler, coherence: Coherence, pages: SharedPages
    ) -> None:
        self._coherence = coherence
        self._pages = pages
        self._views = views
        self._scheduler = scheduler

    def takes(self, folder: DirectoryNode, name: str) -> bool:
        """Return whether ``name`` is free, and a file created there would be an entry of a view."""
        view = self._views.get(folder)
        return view is not None and _find(folder, name) is None and view.takes(name)

    def has(self, folder: DirectoryNode, name: str) -> bool:
        """Return whether ``name`` exists and is an entry of a view."""
        node = _find(folder, name)
        return node is not None and name not in folder.scratch and name not in folder.fixed

    def add(self, folder: DirectoryNode, name: str) -> FileNode:
        """Create an entry of the view and return its node.  Raises as ``View.add``."""
        self._views[folder].add(name)
        node = folder.find(name)
        if not isinstance(node, FileNode):
            raise TypeError("views add files")
        node.touch()
        folder.touch()
        return node

    def remove(self, folder: DirectoryNode, name: str, node: Node) -> None:
        """Remove an entry of a view.  Raises ``InUseError``, ``NotPermittedError``, or as ``View.remove``."""
        view = self._views.get(folder)
        if view is None:
            raise NotPermittedError("is a fixed part of the mount, which stays as long as the mount", path=name)
        if node.opens or self._coherence.has_open_sibling(node):
            raise InUseError("is open in a program", path=name)
        folder.leaving.add(name)  # no other request may open it while this one waits
        try:
            view.remove(name)
            folder.seen.pop(name, None)
        finally:
            folder.leaving.discard(name)

    def become(self, node: Node, target: DirectoryNode, name: str) -> Node:
        """Copy a scratch file onto a view entry, which is created if necessary; return its node.

        A new entry is removed again if the copy fails.  Raises ``NotPermittedError``, and as ``View.add`` and the
        methods of its file.
        """
        if not isinstance(node, FileNode):
            raise NotPermittedError("only a file can become a block")
        if not self.takes(target, name):
            found = target.find(name)
            self._copy_onto(node, found)
            return found
        added = self.add(target, name)
        try:
            self._copy_onto(node, added)
        except (AsdffsError, OSError):
            with contextlib.suppress(InUseError):  # another block was added after it meanwhile
                self.remove(target, name, added)
            raise
        return added

    def _copy_onto(self, source: Node, target: Node) -> None:
        """Copy ``source`` onto ``target``.  This is not atomic (docs/semantics.md, Blocks)."""
        if not isinstance(source, FileNode) or not isinstance(target, FileNode):
            raise NotPermittedError("only a file can be renamed onto a block")
        target.file.open_for_writing()
        size = source.file.size()
        with self._pages.byte_change(target, 0, max(size, target.file.size()), own=True):
            target.touch()  # here, because the copy may fail half-way
            if target.file.commits_late:  # so that its old content is not decoded for nothing
                target.file.truncate(0)
            target.file.truncate(size)
        try:
            self._copy(source, target, size)
        except (AsdffsError, OSError):
            if not target.writers:
                target.file.revert()
            raise
        target.touch()  # marks the writes as seen, so that they do not move the times set below
        target.atime_ns, target.mtime_ns = source.atime_ns, source.mtime_ns  # rsync set them; the kernel shows them

    def _copy(self, source: FileNode, target: FileNode, size: int) -> None:
        with self._scheduler.waiting():
            for start in range(0, size, _COPY_PIECE):
                with self._scheduler.resumed():
                    piece = read_bytes(source.file.read(start, _COPY_PIECE))
                    with self._pages.writing(target, start, piece, cached=False):
                        target.file.write(start, piece)
        target.file.flush(durable=False)


def _find(folder: DirectoryNode, name: str) -> Node | None:
    try:
        return folder.find(name)
    except KeyError:
        return None
