"""The ``lz4f`` compression of the asdf-compression package: one LZ4 frame."""

from __future__ import annotations

from collections.abc import Iterator

from asdffs.codecs.base import PIECE, Source, decode_stream, is_installed, pieces


class Lz4f:
    """See ``Codec``."""

    id = b"lz4f"
    extra = "lz4"
    ratio = 256

    def available(self) -> bool:
        """Return whether ``lz4`` is installed."""
        return is_installed("lz4")

    def memory(self, stored: Source) -> int:
        """Return the size of two of the largest possible blocks of a frame, plus one piece of input."""
        return 10 << 20

    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """See ``Codec``."""
        import lz4.frame

        stream = lz4.frame.LZ4FrameDecompressor()

        def work(piece: bytes) -> bytes:
            try:
                return bytes(stream.decompress(piece, PIECE))
            except RuntimeError as err:
                raise ValueError(str(err)) from err

        yield from decode_stream(stream, work, stored, size)

    def encode(self, content: Source) -> Iterator[bytes]:
        """See ``Codec``.  Never raises ``ValueError``."""
        import lz4.frame

        stream = lz4.frame.LZ4FrameCompressor()
        yield stream.begin(content.size)
        for piece in pieces(content):
            yield stream.compress(piece)
        yield stream.flush()


PLUGIN = Lz4f()
