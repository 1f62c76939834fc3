"""Shows the committed text of the tree as a read-only file."""

from __future__ import annotations

from asdffs.document.document import Document
from asdffs.storage.backend import Extent
from asdffs.views.base import ViewFile


class CommittedTree(ViewFile):
    """Header, comments and tree as they are in the file now."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def size(self) -> int:
        """Size of the text."""
        return self._document.tree.size

    def read(self, offset: int, length: int) -> bytes | Extent:
        """The file's own bytes."""
        return self._document.read_text(offset, length)

    def subjects(self) -> None:
        """The kernel asks each time: readers of it are few."""

    def version(self) -> int:
        """Of the committed text."""
        return self._document.tree.version
