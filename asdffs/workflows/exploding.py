"""The exploded form of a document: the tree with URIs for sources, and one ASDF file for each block.

Implements section Exploded form.  The text is edited where sources are written, so comments and everything else stay.
A block's file is the shortest that readers accept: a header line, the standard's version, and the block with its
stored bytes.  Pure, but for what it reads of the document.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from asdffs.errors import InvalidTreeError
from asdffs.format.block_header import BlockHeader, build_block_header
from asdffs.format.constants import NO_COMPRESSION, STREAMED
from asdffs.storage.backend import Extent
from asdffs.tree.branch import Outline
from asdffs.tree.ndarrays import Ndarray
from asdffs.tree.outline import read_outline
from asdffs.tree.sources import Wanted, uri_of, with_sources
from asdffs.tree.uris import is_relative, resolve

if TYPE_CHECKING:
    from asdffs.document.document import Document


def stem_of(path: str) -> str:
    """What the names of the exploded files begin with: the file's own name without its ending.

    Without ``#``, ``?`` and ``%`` either: the asdf library takes a path for a URI.
    """
    return re.sub("[#?%]", "_", os.path.splitext(os.path.basename(path))[0])


def block_file_name(stem: str, number: int) -> str:
    """Name of the file with block ``number``."""
    return f"{stem}{number:04d}.asdf"


def written_outline(document: Document) -> Outline:
    """The outline of the committed tree, with where each source is written; others are served while it is read.

    Of a tree that is not valid YAML the text alone.  Raises ``OSError``.
    """
    text = document.tree.text()
    try:
        with document.scheduler.waiting():
            return read_outline(text, document.dialect)
    except InvalidTreeError:
        return Outline(text.decode("utf-8", "surrogateescape"), None, ())


def exploded_text(outline: Outline, stem: str, count: int) -> bytes:
    """The text of header, comments and tree, each source among ``count`` blocks replaced by a URI.

    Sources that are URIs already, and those of no block, stay as they are.
    """
    return with_sources(outline, exploded_sources(stem, count))


def exploded_sources(stem: str, count: int, file: str = "", directory: str = "") -> Wanted:
    """What sources are in the exploded form, in ``directory``, of ``file``; without them: beside it.

    There a relative URI leads to the same file as before.
    """

    def wanted(array: Ndarray) -> str | None:
        number = array.block_in(count)
        if number is not None:
            return uri_of(block_file_name(stem, number))
        return moved_source(array.source, file, directory) if directory else None

    return wanted


def moved_source(source: int | str | None, file: str, directory: str) -> str | None:
    """How the relative URI ``source`` in ``file`` is written in ``directory``; None where it stays as it is."""
    if not isinstance(source, str) or os.path.dirname(file) == directory or not is_relative(source):
        return None
    target = resolve(source, file)
    return None if target is None else uri_of(os.path.relpath(target, directory))


class ExplodedPart(NamedTuple):
    """The file of one block as it is now.

    ``prefix``: its bytes before the content, of which ``head`` are before the block; ``length``: of the content;
    ``decoded``: whether the content is what the block decodes to, because that is not stored yet, and not its
    stored bytes.
    """

    number: int
    prefix: bytes
    head: int
    length: int
    decoded: bool

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return len(self.prefix) + self.length

    def read(self, document: Document, offset: int, length: int) -> bytes | Extent:
        """Bytes of the content from ``offset`` of it.  Raises ``AsdffsError``, ``OSError``."""
        length = max(0, min(length, self.length - offset))
        block = document.blocks[self.number]
        return (block.read_extent if self.decoded else block.read_stored_extent)(offset, length)

    def moved(self, size: int) -> ExplodedPart:
        """This file with a content that begins ``size`` bytes (not 1) later, behind a comment of spaces."""
        comment = b"#" + b" " * (size - 2) + b"\n" if size else b""
        return self._replace(prefix=self.prefix[: self.head] + comment + self.prefix[self.head :])


def block_file(document: Document, number: int) -> ExplodedPart:
    """The file for block ``number``.  Raises ``DamagedBlockError``."""
    block = document.blocks[number]
    header = block.header
    decoded = (
        not header.compressed
        or number in document.uncommitted_blocks
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
    """The header of ``size`` bytes that are stored as they are; a streamed block stays one."""
    if header.streamed:
        return header.emptied()._replace(flags=STREAMED)
    same = not header.compressed and size == header.used_size
    plain = header._replace(compression=NO_COMPRESSION, allocated_size=size).with_used(size)
    return plain if same else plain.without_checksum()
