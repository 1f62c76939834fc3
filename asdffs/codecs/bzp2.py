"""The ``bzp2`` compression of the standard (section Compression): one bzip2 stream."""

from __future__ import annotations

import bz2
from collections.abc import Iterator

from asdffs.codecs.base import PIECE, Source, decode_stream, pieces


class Bzp2:
    """See ``Codec``."""

    id = b"bzp2"
    extra = ""
    ratio = 1 << 21  # a block of 900 kB holds 46 MB of equal bytes, in about 40 bytes

    def available(self) -> bool:
        """Python has it."""
        return True

    def memory(self, stored: Source) -> int:
        """As bzip2's manual says, and what is fed at a time."""
        return 5 << 20

    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """Raises ``ValueError``."""
        stream = bz2.BZ2Decompressor()

        def work(piece: bytes) -> bytes:
            try:
                return stream.decompress(piece, PIECE)
            except OSError as err:
                raise ValueError(str(err)) from err

        yield from decode_stream(stream, work, stored, size)

    def encode(self, content: Source) -> Iterator[bytes]:
        """Never refuses."""
        stream = bz2.BZ2Compressor()
        for piece in pieces(content):
            yield stream.compress(piece)
        yield stream.flush()


PLUGIN = Bzp2()
