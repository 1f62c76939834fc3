"""The ``zlib`` compression of the standard (section Compression): one zlib stream."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from asdffs.codecs.base import PIECE, Source, check_ended, pieces


class Zlib:
    """See ``Codec``."""

    id = b"zlib"
    extra = ""
    ratio = 1032

    def available(self) -> bool:
        """Return True: the module is part of Python."""
        return True

    def memory(self, stored: Source) -> int:
        """Return the size of the window plus one piece of input."""
        return 2 * PIECE

    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """See ``Codec``."""
        stream = zlib.decompressobj()

        def work(rest: bytes) -> bytes:
            try:
                return stream.decompress(rest, PIECE)
            except zlib.error as err:
                raise ValueError(str(err)) from err

        for piece in pieces(stored):
            yield work(piece)
            while stream.unconsumed_tail and not stream.eof:
                yield work(stream.unconsumed_tail)
        while not stream.eof and (more := work(b"")):
            yield more
        check_ended(ended=stream.eof, size=size)

    def encode(self, content: Source) -> Iterator[bytes]:
        """See ``Codec``.  Never raises ``ValueError``."""
        stream = zlib.compressobj()
        for piece in pieces(content):
            yield stream.compress(piece)
        yield stream.flush()


PLUGIN = Zlib()
