"""Fast paths: reads and writes of a file that shows the stored bytes of a block, while nothing about it changes.

The first read or write through a handle asks the view, the tree, the locks and the pages of other views.  A
``FastPath`` remembers the answer together with version numbers.  The answer holds until one of these numbers changes
or a lock is taken.  Everything else takes the slow path.  The caller holds the main lock.
"""

from __future__ import annotations

from typing import Any, Final

from asdffs.document.blocks.reading import Window
from asdffs.document.changes import content
from asdffs.document.document import Document
from asdffs.storage.backend import Extent
from asdffs.vfs.namespace import FileNode

#: As ``Extent`` itself, without a call of Python.
_new: Final[Any] = tuple.__new__


class FastPath:
    """The place of the bytes of ``node``.  If ``window`` is None, there is no fast path until something changes.

    ``_head``: bytes at the start of the file that do not come from the block.  ``_size``: size of the file in bytes.
    ``_shift``: added to an offset in the file, gives the offset in the block.  ``_table``, ``_epoch``, ``_version``
    and ``_mode``: the blocks, the tree and the state of the document when the place was found.
    """

    __slots__ = ("_document", "_epoch", "_head", "_mode", "_modes", "_shift", "_size", "_table", "_version", "window")

    def __init__(self, document: Document, node: FileNode) -> None:
        self._document = document
        self._table, self._epoch = document.table, document.table.epoch
        self._version = document.tree.version
        self._modes, self._mode = document.mode, document.mode.mode
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
        if self._modes.mode is not self._mode:  # after a failure the mount may have to show other bytes than the file
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
        return self._document.contents.overwrite(window, offset + self._shift, payload)
