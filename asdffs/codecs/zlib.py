"""The ``zlib`` compression of the standard (section Compression): one zlib stream."""

from __future__ import annotations

import zlib


class ZlibDecoder:
    """See ``Decoder``."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj()

    def decode(self, stored: bytes, limit: int) -> bytes:
        """Raises ``ValueError``."""
        try:
            return self._stream.decompress(self._stream.unconsumed_tail + stored, limit)
        except zlib.error as err:
            raise ValueError(str(err)) from err

    @property
    def hungry(self) -> bool:
        """Whether all stored bytes are consumed."""
        return not self._stream.unconsumed_tail

    @property
    def finished(self) -> bool:
        """Whether the stream ended."""
        return self._stream.eof


class Zlib:
    """See ``Codec``."""

    id = b"zlib"

    def decoder(self) -> ZlibDecoder:
        """A new decoder."""
        return ZlibDecoder()


PLUGIN = Zlib()
