"""The ``bzp2`` compression of the standard (section Compression): one bzip2 stream."""

from __future__ import annotations

import bz2
from collections.abc import Iterator

from asdffs.codecs.base import PIECE, Codec, Source, decode_stream, pieces


class Bzp2(Codec):
    """The codec ``bzp2``: one bzip2 stream."""

    id = b"bzp2"
    ratio = 1 << 21  # a bzip2 block of "900 kB" holds up to 46 MB of equal bytes in about 40 stored bytes

    def memory(self, stored: Source) -> int:
        """Return the memory that the manual of bzip2 states, plus one piece of input."""
        return 5 << 20

    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """See ``Codec``."""
        stream = bz2.BZ2Decompressor()

        def work(piece: bytes) -> bytes:
            try:
                return stream.decompress(piece, PIECE)
            except OSError as err:
                raise ValueError(str(err)) from err

        yield from decode_stream(stream, work, stored, size)

    def encode(self, content: Source) -> Iterator[bytes]:
        """See ``Codec``.  Never raises ``ValueError``."""
        stream = bz2.BZ2Compressor()
        for piece in pieces(content):
            yield stream.compress(piece)
        yield stream.flush()


PLUGIN = Bzp2()
