"""The compressed blocks of a document, with their decoded content or their stored bytes.

A block is read-only and shows its stored bytes if its compression is unknown or the library is not installed.
Written content stays in the spool until ``committing`` encodes it.  The caller holds the main lock.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from asdffs.codecs.base import PIECE
from asdffs.document.blocks.codecs import BlockCodecs
from asdffs.document.blocks.spool import SpoolRoom
from asdffs.document.blocks.table import BlockTable
from asdffs.document.blocks.transaction import Transaction
from asdffs.document.report import Progress
from asdffs.errors import DamagedBlockError
from asdffs.scheduling import Scheduler

if TYPE_CHECKING:  # most files have no compressed block
    from asdffs.codecs.seeking import Seeker, Slot
    from asdffs.document.blocks.decoding import DecodedBlock

logger = logging.getLogger(__name__)


class StoredBytes(NamedTuple):
    """The stored bytes of a block, for a decoder that runs without the main lock.

    See ``codecs.base.Source``.  ``reader()`` returns a function that reads bytes: ``BlockReader.stored_reader``.
    ``announce(parts)`` tells what is read next, as offsets and lengths.  Both are called with the main lock held.
    """

    size: int
    reader: Callable[[], Callable[[int, int], bytes]]
    announce: Callable[[Sequence[tuple[int, int]]], None]
    scheduler: Scheduler

    def ask_ahead(self, parts: Sequence[tuple[int, int]]) -> None:
        """Ask the server of a remote file for ``parts`` at the same time."""
        inside = [(offset, min(length, self.size - offset)) for offset, length in parts if offset < self.size]
        with self.scheduler.resumed():
            self.announce(inside)

    @contextlib.contextmanager
    def locked(self) -> Iterator[Callable[[int, int], bytes]]:
        """See ``codecs.base.small_reads``."""
        with self.scheduler.resumed():
            yield self.reader()

    def read_at(self, offset: int, length: int) -> bytes:
        """See ``codecs.base.Source``.  Raises as ``BlockReader.read_stored``."""
        pieces: list[bytes] = []
        if length > PIECE:
            self.ask_ahead([(offset, length)])
        while length > 0:  # one piece at a time, so that other threads can take the main lock in between
            with self.scheduler.resumed():
                piece = self.reader()(offset, min(length, PIECE))
            pieces.append(piece)
            offset, length = offset + len(piece), length - len(piece) if piece else 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class CompressedBlocks:
    """The decoded contents of the compressed blocks of ``table``.

    ``stored_reader``, ``fetch_ahead``: as of ``BlockReader``.  Where decoders can start is kept for the next time,
    for the file with the signature ``transaction.known``.
    """

    def __init__(
        self,
        transaction: Transaction,
        table: BlockTable,
        codecs: BlockCodecs,
        room: SpoolRoom,
        *,
        scheduler: Scheduler,
        progress: Progress,
        stored_reader: Callable[[int], Callable[[int, int], bytes]],
        fetch_ahead: Callable[[int, Sequence[tuple[int, int]]], None],
    ) -> None:
        self._transaction = transaction
        self._table = table
        self._codecs = codecs
        self._room = room
        self._scheduler = scheduler
        self._progress = progress
        self._stored_reader = stored_reader
        self._fetch_ahead = fetch_ahead
        self._decoded: dict[int, DecodedBlock] = {}
        self._told: set[str] = set()

    @property
    def dirty(self) -> tuple[int, ...]:
        """Numbers of the blocks that were written and are not committed, in ascending order."""
        return tuple(sorted(number for number, block in self._decoded.items() if block.dirty))

    def is_dirty(self, number: int) -> bool:
        """Return whether the block was written and is not committed."""
        block = self._decoded.get(number)
        return block is not None and block.dirty

    def saved(self, number: int) -> None:
        """Note that the block was committed: the ASDF file has the content of the spool."""
        self._codecs.forget(number)
        self._decoded[number].saved()

    @property
    def busy(self) -> bool:
        """Whether a thread is decoding or writing any block now."""
        return any(block.busy for block in self._decoded.values())

    def block(self, number: int) -> DecodedBlock | None:
        """Return the decoded block; None if it shows its stored bytes.  Raises ``DamagedBlockError``."""
        known = self._decoded.get(number)
        if known is not None:
            return known
        if self._codecs.of(number) is None:
            self._tell(number)
            return None
        size = self._stated_size(number)
        from asdffs.document.blocks.decoding import DecodedBlock

        decoded = DecodedBlock(
            number,
            size,
            lambda: self._seeker(number),
            self._room,
            scheduler=self._scheduler,
            progress=self._progress,
        )
        return self._decoded.setdefault(number, decoded)

    def stored(self, number: int) -> StoredBytes:
        """Return the stored bytes of the block, for a thread that does not hold the main lock."""
        return StoredBytes(
            self._table.header(number).used_size,
            functools.partial(self._stored_reader, number),
            functools.partial(self._fetch_ahead, number),
            self._scheduler,
        )

    def size(self, number: int) -> int:
        """Return the decoded size in bytes, pending changes included; the stored size if it cannot be decoded.

        Raises ``DamagedBlockError`` if the header states an impossible size.
        """
        known = self._decoded.get(number)
        if known is not None:
            return known.size
        return self._stated_size(number)

    def _stated_size(self, number: int) -> int:
        """Return the size that the header states.

        Raises ``DamagedBlockError`` if the stored bytes cannot decode to it: otherwise the block would be decoded for
        hours, only to find that it is not complete.
        """
        header, codec = self._table.header(number), self._codecs.of(number)
        if codec is None:
            return header.used_size
        if header.data_size > codec.ratio * header.used_size:
            raise DamagedBlockError(
                f"its data_size of {header.data_size} bytes cannot come from {header.used_size} stored bytes",
                block=number,
            )
        return header.data_size

    def count_pieces(self, number: int) -> int | None:
        """Return how many pieces of the stored block can be decoded one by one.

        None if the codec cannot tell without decoding it, or the bytes are damaged.  Raises as ``read_stored``.
        """
        from asdffs.codecs.seeking import Countable

        try:
            seeker = self._seeker(number)[1]
            with self._scheduler.waiting():
                return seeker.count_pieces() if isinstance(seeker, Countable) else None
        except (DamagedBlockError, ValueError):
            return None

    def pieces(self, number: int, most: int) -> list[Slot] | None:
        """Return where the pieces of the stored block are that can be decoded one by one; None if more than ``most``.

        Of a remote file, each may be a request.  Raises ``DamagedBlockError``, or as ``read_stored``.
        """
        from asdffs.codecs.seeking import Pieced, Slot

        header = self._table.header(number)
        try:
            seeker = self._seeker(number)[1]
            if not isinstance(seeker, Pieced):
                return [Slot(0, header.data_size, 0, header.used_size)]
            with self._scheduler.waiting():
                found = list(itertools.islice(seeker.pieces(header.data_size), most + 1))
        except ValueError as err:
            raise DamagedBlockError(f"its compressed bytes are damaged: {err}", block=number) from err
        return found if len(found) <= most else None

    def forget(self, number: int) -> None:
        """Drop the decoded block: it was stored in another way, or removed."""
        self._codecs.forget(number)
        decoded = self._decoded.pop(number, None)
        if decoded is not None:
            decoded.invalidate()

    def close(self) -> None:
        """Close all spool files, and keep for the next time where decoders can start."""
        for number, decoded in list(self._decoded.items()):
            found = decoded.remembered()
            if found:
                from asdffs.storage.own_files import save_places

                save_places(self._transaction.known, f"block {number}", found)
            self.forget(number)

    def _recalled(self, number: int, seeker: Seeker) -> Seeker:
        """Give ``seeker`` the places that an earlier program saved, and return it."""
        from asdffs.codecs.seeking import Remembering

        if isinstance(seeker, Remembering):
            from asdffs.storage.own_files import load_places

            seeker.recall(load_places(self._transaction.known, f"block {number}"))
        return seeker

    def _seeker(self, number: int) -> tuple[int, Seeker]:
        """Return the memory that a decoder of the block keeps, and its seeker.

        Raises ``ValueError`` if the stored bytes are damaged, ``DamagedBlockError``, or as ``read_stored``.
        """
        from asdffs.codecs.seeking import FromStart, seeker_of
        from asdffs.document.blocks.codecs import Guarded, is_of_package, mistakes_told

        header = self._table.header(number)
        if not header.used_size and not header.data_size:  # an empty block is stored as no bytes
            return 0, FromStart(lambda: iter(()))
        codec = self._codecs.of(number)
        if codec is None:
            raise DamagedBlockError(self._codecs.obstacle(number), block=number)
        stored = self.stored(number)
        with self._scheduler.waiting():
            if not is_of_package(codec):
                return codec.memory(stored), self._recalled(number, seeker_of(codec, stored, header.data_size))
            with mistakes_told(codec):
                return codec.memory(stored), Guarded(codec, seeker_of(codec, stored, header.data_size))

    def _tell(self, number: int) -> None:
        name = self._codecs.name(number)
        if name not in self._told:
            self._told.add(name)
            logger.warning("%s", self._codecs.obstacle(number))
