"""The ``zstd`` compression of the asdf-compression package: one Zstandard frame.

Frames of others that follow each other are read as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from asdffs.codecs.base import PIECE, Source, is_installed, pieces

_LEVEL = 3  # the package's own
#: A block of 128 KiB may be stored in 4 bytes: so many are fed at a time that memory stays bounded.
_FED = 1 << 10
_HEADER = 18  # ZSTD_FRAMEHEADERSIZE_MAX
_LARGEST_WINDOW = 1 << 27  # the zstd program's own limit


class Zstd:
    """See ``Codec``."""

    id = b"zstd"
    extra = "zstd"
    ratio = 1 << 15

    def available(self) -> bool:
        """Whether ``zstandard`` is installed."""
        return is_installed("zstandard")

    def memory(self, stored: Source) -> int:
        """The window that the frame asks for; what cannot be read keeps nothing."""
        import zstandard

        try:
            window = zstandard.get_frame_parameters(stored.read_at(0, _HEADER)).window_size
        except zstandard.ZstdError:
            return 0
        return min(int(window), _LARGEST_WINDOW) + PIECE

    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """Raises ``ValueError``."""
        import zstandard

        library = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
        stream = library.decompressobj(read_across_frames=True)

        def work(piece: bytes) -> bytes:
            try:
                return bytes(stream.decompress(piece))
            except zstandard.ZstdError as err:
                raise ValueError(str(err)) from err

        for piece in pieces(stored):
            for place in range(0, len(piece), _FED):
                yield work(piece[place : place + _FED])

    def encode(self, content: Source) -> Iterator[bytes]:
        """Never refuses.  On all processors."""
        import zstandard

        stream = zstandard.ZstdCompressor(level=_LEVEL, threads=-1).compressobj(size=content.size)
        for piece in pieces(content):
            yield stream.compress(piece)
        yield stream.flush()


PLUGIN = Zstd()
