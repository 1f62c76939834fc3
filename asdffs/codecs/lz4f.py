"""The ``lz4f`` compression of the asdf-compression package: one LZ4 frame."""

from __future__ import annotations

from collections.abc import Iterator

from asdffs.codecs.base import PIECE, Codec, Source, decode_stream, pieces


class Lz4f(Codec):
    """The codec ``lz4f``: one LZ4 frame."""

    id = b"lz4f"
    library = "lz4"
    extra = "lz4"
    ratio = 256

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
