"""The ``zlib`` compression of the standard (section Compression): one zlib stream."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from asdffs.codecs.base import PIECE, Source, pieces
from asdffs.codecs.seeking.zlib_points import ZlibPoints


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
        return ZlibPoints(stored, size).decode_from(0)

    def seeker(self, stored: Source, size: int) -> ZlibPoints:
        """Return a seeker that remembers states of the decoder.  See ``codecs.seeking.seeker``."""
        return ZlibPoints(stored, size)

    def encode(self, content: Source) -> Iterator[bytes]:
        """See ``Codec``.  Never raises ``ValueError``."""
        stream = zlib.compressobj()
        for piece in pieces(content):
            yield stream.compress(piece)
        yield stream.flush()


PLUGIN = Zlib()
