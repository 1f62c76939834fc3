"""The compressed blocks of a document: read and written decoded, or shown as they are stored.

A block whose compression is not known, or whose library is not installed, shows its stored bytes, read-only.  What is
written stays in the spool until ``document`` has it stored.  The caller holds the main lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple

from asdffs.codecs.base import PIECE, Codec
from asdffs.document.blocks.codecs import BlockCodecs
from asdffs.document.blocks.decoding import DecodedBlock
from asdffs.document.blocks.spool_room import SpoolRoom
from asdffs.document.progress import Progress
from asdffs.errors import DamagedBlockError
from asdffs.format.block_header import BlockHeader
from asdffs.scheduling import Scheduler

logger = logging.getLogger(__name__)


class StoredBytes(NamedTuple):
    """The stored bytes of a block, for a codec at work while others hold the main lock.  See ``codecs.Source``."""

    size: int
    read: Callable[[int, int], bytes]
    scheduler: Scheduler

    def read_at(self, offset: int, length: int) -> bytes:
        """Bytes from ``offset``, fewer where the block ends.  Raises as ``Document.read_stored``."""
        pieces: list[bytes] = []
        while length > 0:  # others hold the main lock in between
            with self.scheduler.resumed():
                piece = self.read(offset, min(length, PIECE))
            pieces.append(piece)
            offset, length = offset + len(piece), length - len(piece) if piece else 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class CompressedBlocks:
    """``read_stored(number, offset, length)`` and ``header(number)`` are the document's."""

    def __init__(
        self,
        codecs: BlockCodecs,
        room: SpoolRoom,
        scheduler: Scheduler,
        *,
        progress: Progress,
        header: Callable[[int], BlockHeader],
        read_stored: Callable[[int, int, int], bytes],
    ) -> None:
        self._codecs = codecs
        self._room = room
        self._scheduler = scheduler
        self._progress = progress
        self._header = header
        self._read_stored = read_stored
        self._decoded: dict[int, DecodedBlock] = {}
        self._told: set[str] = set()

    @property
    def dirty(self) -> tuple[int, ...]:
        """Blocks that were written and are not stored."""
        return tuple(sorted(number for number, block in self._decoded.items() if block.dirty))

    def is_dirty(self, number: int) -> bool:
        """Whether the block was written and is not stored."""
        block = self._decoded.get(number)
        return block is not None and block.dirty

    def saved(self, number: int) -> None:
        """The block was stored: what the spool has of it is in the file."""
        self._codecs.forget(number)
        self._decoded[number].saved()

    @property
    def busy(self) -> bool:
        """Whether somebody is decoding."""
        return any(block.busy for block in self._decoded.values())

    def block(self, number: int) -> DecodedBlock | None:
        """The decoded block; None when it shows its stored bytes.  Raises ``DamagedBlockError``."""
        known = self._decoded.get(number)
        if known is not None:
            return known
        header = self._header(number)
        codec = self._codecs.of(number)
        if codec is None:
            self._tell(number)
            return None
        _check_ratio(number, header, codec)
        decoded = DecodedBlock(
            number,
            header.data_size,
            lambda: self._decode(number),
            self._room,
            scheduler=self._scheduler,
            progress=self._progress,
        )
        return self._decoded.setdefault(number, decoded)

    def size(self, number: int) -> int:
        """Decoded size in bytes, pending changes included; of a block that cannot be decoded, the stored size.

        Raises ``DamagedBlockError`` for one that cannot be right.
        """
        known = self._decoded.get(number)
        if known is not None:
            return known.size
        header = self._header(number)
        codec = self._codecs.of(number)
        if codec is None:
            return header.used_size
        _check_ratio(number, header, codec)
        return header.data_size

    def forget(self, number: int) -> None:
        """The block was stored in another way, or is gone."""
        self._codecs.forget(number)
        decoded = self._decoded.pop(number, None)
        if decoded is not None:
            decoded.retire()

    def close(self) -> None:
        """Give the spool files back."""
        for number in list(self._decoded):
            self.forget(number)

    def _decode(self, number: int) -> tuple[int, Iterator[bytes]]:
        header = self._header(number)
        if not header.used_size and not header.data_size:  # an empty block is stored as nothing
            return 0, iter(())
        codec = self._codecs.of(number)
        if codec is None:
            raise DamagedBlockError(self._codecs.obstacle(number), block=number)
        stored = StoredBytes(
            header.used_size, lambda at, length: self._read_stored(number, at, length), self._scheduler
        )
        with self._scheduler.waiting():
            memory = codec.memory(stored)
        return memory, codec.decode(stored, header.data_size)

    def _tell(self, number: int) -> None:
        name = self._codecs.name(number)
        if name not in self._told:
            self._told.add(name)
            logger.warning("%s", self._codecs.obstacle(number))


def _check_ratio(number: int, header: BlockHeader, codec: Codec) -> None:
    """Refuse at once what would be decoded for hours to find that it is not all there."""
    if header.data_size > codec.ratio * header.used_size:
        raise DamagedBlockError(
            f"its data_size of {header.data_size} bytes cannot come of {header.used_size} stored bytes", block=number
        )
