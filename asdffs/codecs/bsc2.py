"""The ``bsc2`` compression: chunks of Blosc2, each after its length (4 bytes, big-endian).

It is ``blsc`` as in AbacusSummit, but with chunks of c-blosc 2 instead of buffers of c-blosc 1.  No public program
writes it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from asdffs.codecs.base import LARGEST_PART, Codec, Source, pieces
from asdffs.codecs.bls2 import HEAD, Bls2, Settings, compressed, translated_errors
from asdffs.codecs.blsc import PREFIX, measured
from asdffs.codecs.seeking import Chained, Seeker

#: The bytes of content of a chunk that is written.
_CHUNK = 1 << 22


class Bsc2(Bls2):
    """The codec; chunks that are encoded get ``settings``.  See ``Codec``."""

    id = b"bsc2"

    def layout_of(self, stored: Source) -> Codec:
        """See ``codecs.base.Varied``: the settings of the first chunk."""
        return Bsc2(Settings.of(stored.read_at(PREFIX.size, HEAD)))

    def memory(self, stored: Source) -> int:
        """Return the stored bytes and the content of a chunk of usual size."""
        return 2 * _CHUNK

    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """See ``Codec``."""
        return _decoded(stored, 0)

    def seeker(self, stored: Source, size: int) -> Seeker:
        """Return a seeker that reads the header of each chunk."""
        return Chained(functools.partial(measured, stored), functools.partial(_decoded, stored))

    def encode(self, content: Source) -> Iterator[bytes]:
        """See ``Codec``."""
        for piece in pieces(content, length=_CHUNK):
            chunk = compressed(piece, self.settings)
            yield PREFIX.pack(len(chunk)) + chunk


def _decoded(stored: Source, place: int) -> Iterator[bytes]:
    """Yield the content of the chunks from ``place`` of the stored bytes on."""
    import blosc2

    while (found := measured(stored, place)) is not None:
        length, behind = found
        start = place + PREFIX.size
        if length > LARGEST_PART:
            raise ValueError(f"a chunk of {length} bytes is too large")
        with translated_errors():
            yield bytes(blosc2.decompress2(stored.read_at(start, behind - start)))
        place = behind


PLUGIN = Bsc2()
