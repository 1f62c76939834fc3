"""``exploded/``: the document in the standard's exploded form, read-only and live.

``STEM.asdf`` has the tree with a URI for each source, ``STEM0000.asdf`` and so on one block each: a short prefix
and a window on the stored bytes, so readers of ASDF map them.  To copy the directory is to explode the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from asdffs.document.changes import BLOCKS, TREE, Subject, stored
from asdffs.document.document import Document
from asdffs.errors import DamagedBlockError
from asdffs.storage.backend import Extent, read_bytes
from asdffs.views.base import Options, RenderedFile, View, ViewFile
from asdffs.workflows.exploded_names import block_file_name, stem_of

if TYPE_CHECKING:
    from asdffs.workflows.exploding import ExplodedPart


class ExplodedTree(RenderedFile):
    """``STEM.asdf``: the tree, with URIs as sources."""

    def __init__(self, document: Document, stem: str) -> None:
        self._document = document
        self._stem = stem
        self._known: tuple[object, bytes] | None = None

    def render(self) -> bytes:
        """Return the text, which is made once for each tree and number of blocks."""
        from asdffs.workflows.exploding import exploded_text, written_outline  # few programs look into the view

        document = self._document
        key = document.generation, document.tree.version, len(document.blocks)
        if self._known is None or self._known[0] != key:
            self._known = key, exploded_text(written_outline(document), self._stem, len(document.blocks))
        return self._known[1]

    def snapshot(self) -> None:
        """Return None: the text may be large."""

    def subjects(self) -> tuple[Subject, ...]:
        """Return the tree, and the number of blocks: some sources count from the end."""
        return (TREE, BLOCKS)

    def version(self) -> int:
        """Return the time of the last change of these."""
        return max(map(self._document.changes.stamp, self.subjects()))


class ExplodedBlock(ViewFile):
    """``STEM0000.asdf``: one block, after a short prefix."""

    def __init__(self, document: Document, number: int) -> None:
        self._document = document
        self._number = number

    def subjects(self) -> tuple[Subject, ...]:
        """Return the stored bytes of the block."""
        return (stored(self._number),)

    def version(self) -> int:
        """Return the time of the last change of the stored bytes."""
        return self._document.changes.stamp(stored(self._number))

    def size(self) -> int:
        """Return the size of prefix and content; 0 if the block header cannot be read."""
        try:
            return self._file().size
        except DamagedBlockError:
            return 0

    def read(self, offset: int, length: int) -> bytes | Extent:
        """Return a part of the prefix, then of the content."""
        file = self._file()
        if offset >= len(file.prefix):
            return file.read(self._document, offset - len(file.prefix), length)
        head = file.prefix[offset : offset + length]
        return head + read_bytes(file.read(self._document, 0, length - len(head)))

    def open_for_reading(self) -> None:
        """Raise ``DamagedBlockError`` if the block header cannot be read."""
        self._document.blocks[self._number].check_readable()

    def _file(self) -> ExplodedPart:
        from asdffs.workflows.exploding import block_file

        return block_file(self._document, self._number)


class ExplodedView(View):
    """The view ``exploded/``."""

    directory = "exploded"

    def __init__(self, document: Document, options: Options | None = None) -> None:
        super().__init__(document, options)
        self._stem = stem_of(document.path)

    def present(self) -> bool:
        """Return False for an ASDF file inside another file: its sources refer to that file."""
        return self._document.embedded is None

    def names(self) -> Iterator[str]:
        """Yield the name of the tree's file, then those of the blocks."""
        yield f"{self._stem}.asdf"
        for number in range(len(self._document.blocks)):
            yield block_file_name(self._stem, number)

    def subjects(self) -> tuple[Subject, ...]:
        """Return the number of blocks."""
        return (BLOCKS,)

    def version(self) -> int:
        """Return the time of the last change of the number of blocks."""
        return self._document.changes.stamp(BLOCKS)

    def child(self, name: str) -> ViewFile:
        """Return the file ``name``.  Raises ``KeyError``."""
        if name == f"{self._stem}.asdf":
            return ExplodedTree(self._document, self._stem)
        digits = name.removeprefix(self._stem).removesuffix(".asdf")
        number = int(digits) if digits.isascii() and digits.isdigit() else len(self._document.blocks)
        if number >= len(self._document.blocks) or name != block_file_name(self._stem, number):
            raise KeyError(name)
        return ExplodedBlock(self._document, number)


PLUGIN = ExplodedView
