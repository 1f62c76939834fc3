"""fast paths: reads and writes of a file that shows a block as it is, while nothing about it changes.

The first read or write through a handle asks everybody: the view, the tree, the locks, the pages of other views.
What they answered holds until one of the numbers that a ``FastPath`` remembers is another, or a lock is taken; until
then nothing is asked again.  Whatever is not known to be the same goes the long way.  The caller holds the main lock.
"""

from __future__ import annotations

from asdffs.document.blocks.windows import Window
from asdffs.document.changes import content
from asdffs.document.document import Document
from asdffs.storage.backend import Extent
from asdffs.vfs.namespace import FileNode


class FastPath:
    """Where the bytes of ``node`` are.  ``window`` is None: there is no fast path while the numbers are the same.

    ``head``: bytes of the file before those of the block; ``size``: of the file; ``shift``: what makes an offset one
    of the block when added; ``table``, ``epoch``, ``version``: of the blocks and the tree, when it was found.
    """

    __slots__ = ("_document", "_epoch", "_head", "_mode", "_modes", "_shift", "_size", "_table", "_version", "window")

    def __init__(self, document: Document, node: FileNode) -> None:
        self._document = document
        self._table, self._epoch = document.table, document.table.epoch
        self._version = document.tree.version
        self._modes, self._mode = document.mode, document.mode.mode
        self._head = self._shift = self._size = 0
        found = self._find(node)
        self.window = found if self.current else None  # what was asked first may be other since: another time

    def _find(self, node: FileNode) -> Window | None:
        file = node.file
        shown = file.window() if file.steady_window else None
        if shown is None or content(shown[0]) not in (file.subjects() or ()):  # or it is a block of another file
            return None
        self._head, self._shift, self._size = file.head_size(), shown[1], file.size()
        return self._document.contents.window(shown[0])

    @property
    def current(self) -> bool:
        """Whether blocks and tree are what they were when it was found."""
        document = self._document
        table = document.table
        if self._modes.mode is not self._mode:  # after a failure other bytes than those of the file may be shown
            return False
        return table is self._table and table.epoch == self._epoch and document.tree.version == self._version

    def read(self, offset: int, length: int) -> Extent | None:
        """Where these bytes are, fewer at the end; None: ask the file."""
        window = self.window
        length = min(length, self._size - offset)
        if window is None or offset < self._head or length <= 0 or window.moving.taken:
            return None
        return Extent(window.fd, window.start + offset + self._shift, length)

    def write(self, offset: int, payload: bytes | memoryview) -> int:
        """Write these bytes; return the stamp of the change.  0, and nothing is done, where the file must be asked.

        Raises as ``Transaction.write_content``.
        """
        window = self.window
        if window is None or offset < self._head or offset + len(payload) > self._size:
            return 0
        return self._document.contents.overwrite(window, offset + self._shift, payload)
