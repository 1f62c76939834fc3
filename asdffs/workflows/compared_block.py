"""One side of a comparison of blocks: reads decoded or stored bytes; its errors name the file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from asdffs.document.document import Document
from asdffs.errors import AsdffsError, DamagedFileError
from asdffs.format.block_header import BlockHeader
from asdffs.scheduling import CHUNK


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: block ``number`` of ``document``.  Errors name its file."""

    document: Document
    number: int

    @property
    def key(self) -> tuple[str, int]:
        """What tells it from others."""
        return self.document.path, self.number

    @property
    def header(self) -> BlockHeader:
        """Its header."""
        with self._naming():
            return self.document.blocks[self.number].header

    @property
    def size(self) -> int:
        """Bytes of content."""
        with self._naming():
            return self.document.blocks[self.number].size

    @property
    def stored_size(self) -> int:
        """Stored bytes that the file has."""
        with self._naming():
            return self.document.contents.stored_stretch(self.number).length

    def read(self, offset: int) -> bytes:
        """Some bytes of the content."""
        with self._naming():
            return self.document.blocks[self.number].read_at(offset, CHUNK)

    def read_stored(self, offset: int) -> bytes:
        """Some stored bytes."""
        with self._naming():
            return self.document.blocks[self.number].read_stored(offset, CHUNK)

    def check_decodable(self) -> None:
        """Bytes that are stored in an unknown way say nothing of the content.  Raises ``DamagedFileError``."""
        if self.document.blocks[self.number].obstacle:
            compression = self.document.blocks[self.number].compression
            sentence = f"cannot be compared: the compression {compression!r} is not known here"
            raise DamagedFileError(sentence, path=self.document.path, block=self.number)

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except AsdffsError as err:
            err.path = err.path or self.document.path
            raise


def size_or_none(document: Document, number: int) -> int | None:
    """Return the decoded size of a block, or None where it is not known."""
    return document.blocks[number].size if number < len(document.blocks) else None
