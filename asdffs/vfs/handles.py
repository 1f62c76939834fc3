"""The table of open files and directories, which the kernel knows by number, and the fast paths of open files.

The first read or write through a handle asks the view, the tree, the locks and the pages of other views.  If the file
shows the stored bytes of a block, a ``FastPath`` remembers the answer together with version numbers.  It holds until
one of these numbers changes or a lock is taken.  Everything else takes the slow path.

The caller holds the main lock.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

from asdffs.document.blocks.reading import Window
from asdffs.document.changes import content
from asdffs.document.document import Document
from asdffs.storage.backend import Extent
from asdffs.vfs.namespace import DirectoryNode, FileNode, Node

#: The numbers of handles, of all documents of the process.
_numbers: Final = itertools.count(1)
#: As ``Extent`` itself, without a call of Python.
_new: Final[Any] = tuple.__new__


def new_handle() -> int:
    """Return a number that no other handle of the process has."""
    return next(_numbers)


class FastPath:
    """The place of the bytes of ``node``.  If ``window`` is None, there is no fast path until something changes.

    ``_head``: bytes at the start of the file that do not come from the block.  ``_size``: size of the file in bytes.
    ``_shift``: added to an offset in the file, gives the offset in the block.  ``_table``, ``_epoch``, ``_version``
    and ``_noted``: the blocks, the tree and the state of the document when the place was found.
    """

    __slots__ = ("_document", "_epoch", "_head", "_mode", "_noted", "_shift", "_size", "_table", "_version", "window")

    def __init__(self, document: Document, node: FileNode) -> None:
        self._document = document
        self._table, self._epoch = document.table, document.table.epoch
        self._version = document.tree.version
        self._mode, self._noted = document.mode, document.mode.events
        self._head = self._shift = self._size = 0
        found = self._find(node)
        self.window = found if self.current else None  # something changed during the search: try again next time

    def _find(self, node: FileNode) -> Window | None:
        file = node.file
        shown = file.window() if file.steady_window else None
        if shown is None or content(shown[0]) not in (file.subjects() or ()):  # or of a linked file
            return None
        self._head, self._shift, self._size = file.head_size(), shown[1], file.size()
        return self._document.contents.window(shown[0])

    @property
    def current(self) -> bool:
        """Whether blocks, tree and state of the document are unchanged since the place was found."""
        document = self._document
        table = document.table
        if self._mode.events != self._noted:  # after a failure the mount may have to show other bytes
            return False
        return table is self._table and table.epoch == self._epoch and document.tree.version == self._version

    def read(self, offset: int, length: int) -> Extent | None:
        """Return the extent that holds these bytes, shorter at the end of the file; None: take the slow path."""
        window = self.window
        length = min(length, self._size - offset)
        if window is None or offset < self._head or length <= 0 or window.moving.taken or not self.current:
            return None
        found: Extent = _new(Extent, (window.fd, window.start + offset + self._shift, length))
        return found

    def write(self, offset: int, payload: bytes | memoryview) -> int:
        """Write these bytes and return the stamp of the change in ns.

        Returns 0 without writing anything if the slow path must be taken.  Raises as ``Transaction.write_content``.
        """
        window = self.window
        if window is None or offset < self._head or offset + len(payload) > self._size:
            return 0
        return window.write(offset + self._shift, payload)


class Handle:
    """One open file.

    ``dirty``: a program wrote through it since its last flush, or fsync of the tree.  ``snapshot``: the content, if
    it is fixed when the file is opened.  ``generation``: that of the document at the open.  ``direct``: direct I/O:
    the kernel keeps no pages for this handle and refuses mmap(2).  ``way``: the last fast path.
    ``slow_write_version``: the version of the tree at the last write by the slow path since the last flush of the
    file, or -1 if there was none.  Only after such a write may the fast path write, because the file then knows that
    it is dirty.
    """

    __slots__ = ("direct", "dirty", "generation", "node", "slow_write_version", "snapshot", "way", "writable")

    def __init__(
        self,
        node: FileNode,
        *,
        writable: bool,
        snapshot: bytes | None = None,
        generation: int = 0,
        direct: bool = False,
    ) -> None:
        self.node = node
        self.writable = writable
        self.dirty = False
        self.snapshot = snapshot
        self.generation = generation
        self.direct = direct
        self.way: FastPath | None = None
        self.slow_write_version = -1

    @property
    def mappable(self) -> bool:
        """Whether a program may write through an mmap of it."""
        return self.writable and not self.direct


class DirectoryHandle:
    """One open directory, with the names it had when the program began to list it."""

    def __init__(self, node: DirectoryNode) -> None:
        self.node = node
        self.names: list[str] = []


class Handles:
    """The table of open files and directories of one document.  No other document has a handle of the same number.

    ``files`` and ``directories``: by number; only this class changes them.
    """

    def __init__(self) -> None:
        self.files: dict[int, Handle] = {}
        self.directories: dict[int, DirectoryHandle] = {}

    @property
    def any(self) -> bool:
        """Whether anything is open."""
        return bool(self.files or self.directories)

    def add(self, handle: Handle | DirectoryHandle) -> int:
        """Add a handle and return its number."""
        number = new_handle()
        node = handle.node
        node.opens += 1
        if isinstance(handle, DirectoryHandle):
            self.directories[number] = handle
            return number
        self.files[number] = handle
        node.writers += handle.writable
        node.mappers += handle.mappable
        handle.node.file.opened(write=handle.writable)
        return number

    def remove(self, number: int) -> Node:
        """Remove the handle from the table and return its node.  Raises ``KeyError``."""
        directory = self.directories.pop(number, None)
        if directory is not None:
            directory.node.opens -= 1
            return directory.node
        handle = self.files.pop(number)
        node = handle.node
        node.opens -= 1
        node.writers -= handle.writable
        node.mappers -= handle.mappable
        node.file.closed(write=handle.writable)
        return node

    def nodes(self) -> Iterator[Node]:
        """Return the node of each open file and directory."""
        yield from (handle.node for handle in self.files.values())
        yield from (handle.node for handle in self.directories.values())

    def of(self, node: FileNode) -> Iterator[Handle]:
        """Return all handles on ``node``."""
        return (handle for handle in self.files.values() if handle.node is node)
