"""The exploded form of a document: the tree with URIs as sources, and one ASDF file for each block.

Implements section Exploded form.  Only the sources in the text are edited, so comments and everything else stay.  A
block file is as short as readers accept: a header line, the version of the standard, and the block with its stored
bytes.  This module only reads the document, and writes nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from asdffs.arrays.branch import Outline
from asdffs.arrays.ndarrays import Ndarray
from asdffs.arrays.outline import read_outline
from asdffs.arrays.sources import Wanted, is_relative, resolve, uri_of, with_sources
from asdffs.errors import InvalidTreeError
from asdffs.format.block_header import BlockHeader, build_block_header
from asdffs.format.constants import NO_COMPRESSION, STREAMED
from asdffs.storage.backend import Extent
from asdffs.workflows.exploded_names import block_file_name

if TYPE_CHECKING:
    from asdffs.document.document import Document


def written_outline(document: Document) -> Outline:
    """Return the outline of the committed tree, with the position of each source in the text.

    The main lock is released meanwhile.  If the tree is not valid YAML, the outline has only the text.  Raises
    ``OSError``.
    """
    text = document.tree.text()
    try:
        with document.scheduler.waiting():
            return read_outline(text, document.dialect)
    except InvalidTreeError:
        return Outline(text.decode("utf-8", "surrogateescape"), None, ())


def exploded_text(outline: Outline, stem: str, count: int) -> bytes:
    """Return header, comments and tree with a URI for each source among ``count`` blocks.

    Sources that are URIs already, and those that refer to no block, stay as they are.
    """
    return with_sources(outline, exploded_sources(stem, count))


def exploded_sources(stem: str, count: int, file: str = "", directory: str = "") -> Wanted:
    """Return the function that gives the new source of an array in the exploded form of ``file`` in ``directory``.

    A relative URI is changed so that it leads to the same file as before.  Without ``directory``, the exploded form
    is in the directory of the file, and URIs stay as they are.
    """

    def new_source(array: Ndarray) -> str | None:
        number = array.block_in(count)
        if number is not None:
            return uri_of(block_file_name(stem, number))
        return moved_source(array.source, file, directory) if directory else None

    return new_source


def moved_source(source: int | str | None, file: str, directory: str) -> str | None:
    """Return the relative URI ``source`` in ``file``, rewritten for a file in ``directory``.

    None if it stays as it is.
    """
    if not isinstance(source, str) or os.path.dirname(file) == directory or not is_relative(source):
        return None
    target = resolve(source, file)
    return None if target is None else uri_of(os.path.relpath(target, directory))


class ExplodedPart(NamedTuple):
    """The file for one block, in its present state.

    ``prefix``: the bytes before the content; the first ``head`` of them are before the block.  ``length``: bytes of
    content.  ``decoded``: the file has the decoded content of the block instead of its stored bytes, for example
    because the content is not committed yet.
    """

    number: int
    prefix: bytes
    head: int
    length: int
    decoded: bool

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return len(self.prefix) + self.length

    def read(self, document: Document, offset: int, length: int) -> bytes | Extent:
        """Return up to ``length`` bytes of the content from ``offset``.  Raises ``AsdffsError``, ``OSError``."""
        length = max(0, min(length, self.length - offset))
        block = document.blocks[self.number]
        return (block.read_extent if self.decoded else block.read_stored_extent)(offset, length)

    def moved(self, size: int) -> ExplodedPart:
        """Return this file with content that begins ``size`` bytes later, behind a comment of spaces.

        ``size`` must not be 1: the shortest comment has 2 bytes.
        """
        comment = b"#" + b" " * (size - 2) + b"\n" if size else b""
        return self._replace(prefix=self.prefix[: self.head] + comment + self.prefix[self.head :])


def block_file(document: Document, number: int) -> ExplodedPart:
    """Return the file for block ``number``.  Raises ``DamagedBlockError``."""
    block = document.blocks[number]
    header = block.header
    decoded = (
        not header.compressed
        or number in document.contents.compressed.dirty
        or document.contents.codecs.follows_tree(number)
    )
    if header.compressed and not decoded:
        new = header._replace(allocated_size=header.used_size)
    else:
        new = _plain(header, block.size)
    length = block.size if decoded else new.used_size
    head = document.dialect.block_head(document.layout.header)
    return ExplodedPart(number, head + build_block_header(new._replace(extra=b"")), len(head), length, decoded)


def _plain(header: BlockHeader, size: int) -> BlockHeader:
    """Return the header of a block that stores ``size`` bytes uncompressed; a streamed block stays streamed."""
    if header.streamed:
        return header.emptied()._replace(flags=STREAMED)
    same = not header.compressed and size == header.used_size
    plain = header._replace(compression=NO_COMPRESSION, allocated_size=size).with_used(size)
    return plain if same else plain.without_checksum()
