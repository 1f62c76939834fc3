"""The ``bzp2`` compression of the standard (section Compression): one bzip2 stream."""

from __future__ import annotations

import bz2


class Bzp2Decoder:
    """See ``Decoder``."""

    def __init__(self) -> None:
        self._stream = bz2.BZ2Decompressor()

    def decode(self, stored: bytes, limit: int) -> bytes:
        """Raises ``ValueError``."""
        if self._stream.eof:
            return b""
        try:
            return self._stream.decompress(stored, limit)
        except OSError as err:
            raise ValueError(str(err)) from err

    @property
    def hungry(self) -> bool:
        """Whether all stored bytes are consumed."""
        return self._stream.needs_input

    @property
    def finished(self) -> bool:
        """Whether the stream ended."""
        return self._stream.eof


class Bzp2:
    """See ``Codec``."""

    id = b"bzp2"

    def decoder(self) -> Bzp2Decoder:
        """A new decoder."""
        return Bzp2Decoder()


PLUGIN = Bzp2()
