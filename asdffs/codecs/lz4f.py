"""The ``lz4f`` compression of the asdf-compression package: one LZ4 frame."""

from __future__ import annotations

from collections.abc import Iterator

from asdffs.codecs.base import PIECE, Source, is_installed, pieces


class Lz4f:
    """See ``Codec``."""

    id = b"lz4f"
    extra = "lz4"
    ratio = 256

    def available(self) -> bool:
        """Whether ``lz4`` is installed."""
        return is_installed("lz4")

    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """Raises ``ValueError``."""
        import lz4.frame

        stream = lz4.frame.LZ4FrameDecompressor()
        try:
            for piece in pieces(stored):
                if stream.eof:
                    return
                yield stream.decompress(piece, PIECE)
                while not stream.eof and not stream.needs_input:
                    yield stream.decompress(b"", PIECE)
        except RuntimeError as err:
            raise ValueError(str(err)) from err

    def encode(self, content: Source) -> Iterator[bytes]:
        """Never refuses."""
        import lz4.frame

        stream = lz4.frame.LZ4FrameCompressor()
        yield stream.begin(content.size)
        for piece in pieces(content):
            yield stream.compress(piece)
        yield stream.flush()


PLUGIN = Lz4f()
