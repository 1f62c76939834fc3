"""The ``zlib`` compression of the standard (section Compression): one zlib stream."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from asdffs.codecs.base import PIECE, Source, pieces


class Zlib:
    """See ``Codec``."""

    id = b"zlib"
    extra = ""
    ratio = 1032

    def available(self) -> bool:
        """Python has it."""
        return True

    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """Raises ``ValueError``."""
        stream = zlib.decompressobj()
        try:
            for piece in pieces(stored):
                rest = piece
                while rest and not stream.eof:
                    yield stream.decompress(rest, PIECE)
                    rest = stream.unconsumed_tail
            while not stream.eof and (more := stream.decompress(b"", PIECE)):
                yield more
        except zlib.error as err:
            raise ValueError(str(err)) from err

    def encode(self, content: Source) -> Iterator[bytes]:
        """Never refuses."""
        stream = zlib.compressobj()
        for piece in pieces(content):
            yield stream.compress(piece)
        yield stream.flush()


PLUGIN = Zlib()
