"""Reads compressed blocks: decoded as far as somebody asked, into an unlinked spool file.

A sequential reader never waits for more than the piece it reads; a second pass reads the
spool.  Memory is bounded by the pieces; a block that decodes to more than its data_size is
cut off and reported.  User: ``document``.  One thread at a time has the turn; one reader at a
time decodes, and others are served meanwhile.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import BinaryIO

from asdffs.codecs.base import Codec
from asdffs.errors import DamagedBlockError
from asdffs.relief import Exclusive, Relief
from asdffs.storage.file_store import write_all
from asdffs.storage.store import Extent

_STORED_PIECE = 1 << 18
_DECODED_PIECE = 1 << 20


class DecodedBlock:
    """Block ``number`` of ``size`` decoded bytes; ``read_stored(offset, length)`` gives its stored ones."""

    def __init__(
        self,
        read_stored: Callable[[int, int], bytes],
        size: int,
        codec: Codec,
        number: int,
        *,
        spool: str | None,
        relief: Relief,
    ) -> None:
        self._relief = relief
        self._decoding = Exclusive(relief)
        self._read_stored = read_stored
        self._size = size
        self._number = number
        self._decoder = codec.decoder()
        self._next = 0
        self._done = 0
        self._unkept = b""
        self._spool: BinaryIO = tempfile.TemporaryFile(dir=spool)  # noqa: SIM115 - lives as long as self

    def read(self, offset: int, length: int) -> Extent:
        """Where the decoded bytes ``[offset, offset + length)`` are.  Raises ``DamagedBlockError``, ``OSError``."""
        stop = min(offset + length, self._size)
        if self._done < stop or self._done == self._size:
            with self._decoding.entered():
                self._decode_to(stop)
        return Extent(self._spool.fileno(), offset, max(0, stop - offset))

    @property
    def busy(self) -> bool:
        """Whether somebody is decoding: not the moment to close."""
        return self._decoding.taken

    def close(self) -> None:
        """Give the spool back."""
        self._spool.close()

    def _decode_to(self, stop: int) -> None:
        while self._done < stop:
            self._decode_piece()
        if self._done == self._size:
            self._check_end()

    def _decode_piece(self) -> None:
        """Decode a piece and keep it; one for which there was no room is kept first at the next try."""
        if not self._unkept:
            self._unkept, more = self._decode(min(_DECODED_PIECE, self._size - self._done))
            if not self._unkept and not more:
                raise self._damaged(f"it decodes to {self._done} bytes instead of {self._size}")
        with self._relief.waiting():
            write_all(self._spool.fileno(), self._unkept, self._done)
        self._done += len(self._unkept)
        self._unkept = b""

    def _check_end(self) -> None:
        """After the last byte: the stream must end here, which is where it verifies itself."""
        more = not self._decoder.finished
        while more:
            piece, more = self._decode(1)
            if piece:
                raise self._damaged(f"it decodes to more than its data_size of {self._size} bytes")

    def _decode(self, limit: int) -> tuple[bytes, bool]:
        """Up to ``limit`` decoded bytes, and whether more may come."""
        stored = b""
        if self._decoder.hungry:
            stored = self._read_stored(self._next, _STORED_PIECE)
            self._next += len(stored)
        try:
            with self._relief.waiting():
                piece = self._decoder.decode(stored, limit)
        except ValueError as err:
            raise self._damaged(f"its compressed bytes are damaged: {err}") from err
        return piece, bool(piece or stored) and not self._decoder.finished

    def _damaged(self, reason: str) -> DamagedBlockError:
        return DamagedBlockError(reason, block=self._number)
