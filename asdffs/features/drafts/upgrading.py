"""Upgrades a file of the drafts of 2014 and 2015 to ASDF 1.6.0, which present libraries can open.

Only the necessary parts of the text are edited (``upgraded_text``).  Chains of encodings are decoded, and compressed
again if they were compressed.  All other blocks are copied.  The new file gets checksums and a block index.

A block with an unknown encoding keeps its stored bytes.  Its compression gets a name that no library knows, so that
no program takes the bytes for array elements.  The old file is only read.  The scheduler of the threads is
``WorkerThreads``.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from asdffs import __version__
from asdffs.codecs.base import Codec
from asdffs.dialects.base import Dialect
from asdffs.document.blocks.encoding import Encoded
from asdffs.document.document import Document
from asdffs.errors import NotSupportedError
from asdffs.features.drafts.upgraded_text import HistoryEntries, upgraded_text
from asdffs.format.block_form import FORM_48
from asdffs.format.block_header import BlockHeader
from asdffs.format.constants import BLOCK_MAGIC, CHAIN, NO_CHECKSUM, STREAMED
from asdffs.registry import each
from asdffs.scheduling import CHUNK, WorkerThreads
from asdffs.workflows.assembling import Part, RoomPolicy
from asdffs.workflows.repacking import Repacking, RepackOptions

#: The compression in the new file for stored bytes with an unknown encoding.
UNKNOWN: Final = b"enc?"


@dataclass(frozen=True, slots=True)
class BlockUpgrade:
    """The change of block ``number``: its compression before (``was``) and after (``will_be``), as users call it."""

    number: int
    was: str
    will_be: str


class Upgrading(Repacking):
    """One upgrade of ``document``, at the time ``when``.

    ``text``: the text of the new file; ``changes``: those of its blocks; ``notes``: sentences for the user.

    Raises ``NotSupportedError`` if there is nothing to upgrade, ``InvalidTreeError`` if the tree cannot be upgraded,
    ``DamagedBlockError``.
    """

    def __init__(self, document: Document, workers: WorkerThreads, room: RoomPolicy, when: datetime) -> None:
        if not document.dialect.upgradable:
            sentence = f"is already {document.dialect.name}; there is nothing to upgrade"
            raise NotSupportedError(sentence, path=document.path)
        super().__init__(document, workers, RepackOptions(room=room))
        self.changes = [self._change(number) for number in range(self.count)]
        stamp = when.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
        new = upgraded_text(
            self._text, document.dialect, _todays(), self.count, HistoryEntries(self._records(), stamp, __version__)
        )
        self._text = new.text
        self.notes += [f"the tag {tag} has no counterpart and stays as it is" for tag in new.kept]
        self._note_others()

    @property
    def text(self) -> bytes:
        """Header, comments and tree of the new file."""
        return self._text

    def _records(self) -> list[str]:
        """Return the entries for the history of the new file."""
        document = self._document
        records = [f"Upgraded from {document.dialect.name} to ASDF 1.6.0"]
        for number in range(self.count):
            if document.blocks[number].header.compression == CHAIN or document.blocks[number].obstacle:
                records.append(f"Block {number} was encoded as {document.contents.codecs.description(number)}")
        return records

    def _change(self, number: int) -> BlockUpgrade:
        block = self._document.blocks[number]
        codec = self._wanted(number)
        will_be = block.compression
        if self._is_to_encode(number):
            will_be = codec.id.decode("latin-1") if codec is not None else "none"
        if block.obstacle:
            will_be = UNKNOWN.decode()
            self.notes.append(f"block {number}: {block.obstacle}; they are kept, as the compression {will_be!r}")
        fault = block.find_checksum_fault()
        if fault:
            self.notes.append(f"block {number}: {fault}; the bytes and the checksum are kept")
        return BlockUpgrade(number, block.compression, will_be)

    def _note_others(self) -> None:
        """Add a note for each other file with arrays of the tree, because only this file is upgraded."""
        sources = {array.source for array in self._document.tree.arrays() if isinstance(array.source, str)}
        self.notes += [
            f"arrays lie in {source}; upgrade that file, too, beside the new file" for source in sorted(sources)
        ]

    # -- overrides of ``Repacking`` -----------------------------------------

    def _indexed(self) -> bool:
        return True

    def _wanted(self, number: int) -> Codec | None:
        """Return the codec for a block: zlib or bzp2 if its old encodings end with one, else none."""
        document = self._document
        names = document.blocks[number].compression.split("+")
        if document.blocks[number].obstacle:
            return None
        return document.contents.codec(names[-1] if names[-1] in ("zlib", "bzp2") else "none", FORM_48)

    def _is_to_encode(self, number: int) -> bool:
        """Return whether the block has a chain of encodings that can be decoded; all others are copied."""
        block = self._document.blocks[number]
        return block.header.compression == CHAIN and not block.obstacle

    def _part(self, number: int) -> Part:
        part = super()._part(number)
        self._check_decodable(number)
        old, checksum = part.header, self._digest(number, part.header)
        if old.verifiable:  # keep a wrong checksum, too: it shows the damage
            checksum = old.checksum
        return Part(self._new_header(old, checksum, known=self._known(number)), part.stored)

    def _known(self, number: int) -> bool:
        with self._workers.resumed():
            return not self._document.blocks[number].obstacle

    def _check_decodable(self, number: int) -> None:
        """Raise ``DamagedBlockError`` for damaged compressed bytes, which the new file would have, too."""
        with self._workers.resumed():
            block = self._document.blocks[number]
            if block.header.compressed and not block.obstacle:
                for place in range(0, max(1, block.size), CHUNK):
                    block.read_extent(place, CHUNK)
                block.revert()

    def _encoded_part(self, number: int, encoded: Encoded) -> Part:
        part = super()._encoded_part(number, encoded)
        return Part(self._new_header(part.header, encoded.digest, known=True), part.stored)

    def _new_header(self, old: BlockHeader, checksum: bytes, *, known: bool) -> BlockHeader:
        """Return the header in today's form; an unknown compression is named ``UNKNOWN``."""
        return old._replace(
            flags=old.flags & STREAMED,
            compression=old.compression if known else UNKNOWN,
            checksum=NO_CHECKSUM if old.streamed else checksum,
            extra=b"",
            form=FORM_48,
            magic=BLOCK_MAGIC,
        )

    def _digest(self, number: int, header: BlockHeader) -> bytes:
        """Return the MD5 of the stored bytes; for a streamed block, that of no bytes."""
        digest = hashlib.md5(usedforsecurity=False)
        for place in range(0, 0 if header.streamed else header.used_size, CHUNK):
            with self._workers.resumed():
                piece = self._document.contents.read_stored(number, place, CHUNK)
            digest.update(piece)
        return digest.digest()


def _todays() -> Dialect:
    """Return the dialect of new files."""
    found: Dialect = next(dialect for dialect in each("dialects") if not dialect.upgradable)
    return found
