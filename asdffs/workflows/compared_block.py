"""Reads decoded or stored bytes for one side of a comparison of blocks; errors name the file."""

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
        """The path of the file and the number of the block."""
        return self.document.path, self.number

    @property
    def header(self) -> BlockHeader:
        """The header of the block."""
        with self._naming():
            return self.document.blocks[self.number].header

    @property
    def size(self) -> int:
        """The size of the content in bytes."""
        with self._naming():
            return self.document.blocks[self.number].size

    @property
    def stored_size(self) -> int:
        """The number of stored bytes in the file."""
        with self._naming():
            return self.document.contents.stored_stretch(self.number).length

    def read(self, offset: int) -> bytes:
        """Return up to ``CHUNK`` bytes of the content from ``offset``."""
        with self._naming():
            return self.document.blocks[self.number].read_at(offset, CHUNK)

    def read_stored(self, offset: int) -> bytes:
        """Return up to ``CHUNK`` stored bytes from ``offset``."""
        with self._naming():
            return self.document.blocks[self.number].read_stored(offset, CHUNK)

    def check_decodable(self) -> None:
        """Raise ``DamagedFileError`` if the block cannot be decoded here, so that its content is unknown."""
        with self._naming():
            obstacle = self.document.blocks[self.number].obstacle
        if obstacle:
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
    """Return the size of the content of a block in bytes, or None if there is no such block."""
    return Side(document, number).size if number < len(document.blocks) else None
