"""The ``zstd`` compression of the asdf-compression package: one Zstandard frame.

Several frames in a row, as other programs write them, are read as well.  A decoder can start at each of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from asdffs.codecs.base import PIECE, Source, is_installed, pieces
from asdffs.codecs.seeking.chain import RewritableChain
from asdffs.codecs.seeking.seeker import Chained
from asdffs.codecs.seeking.slots import fitting
from asdffs.codecs.seeking.zstd_frames import SKIPPABLE, SKIPPABLE_MAGIC, measure_frame, read_table

_LEVEL = 3  # the level that asdf-compression uses
#: Input bytes at a time.  128 KiB of content may take only 4 stored bytes, so a larger input would need much memory.
_FED = 1 << 10
_HEADER = 18  # ZSTD_FRAMEHEADERSIZE_MAX
_LARGEST_WINDOW = 1 << 27  # the limit of the zstd program


class Zstd:
    """See ``Codec``."""

    id = b"zstd"
    extra = "zstd"
    ratio = 1 << 15

    def available(self) -> bool:
        """Return whether ``zstandard`` is installed."""
        return is_installed("zstandard")

    def memory(self, stored: Source) -> int:
        """Return the window size in the frame header plus one piece; 0 if the header cannot be read."""
        import zstandard

        try:
            window = zstandard.get_frame_parameters(stored.read_at(0, _HEADER)).window_size
        except zstandard.ZstdError:
            return 0
        return min(int(window), _LARGEST_WINDOW) + PIECE

    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """See ``Codec``."""
        return _decoded(stored, 0)

    def seeker(self, stored: Source, size: int) -> Chained | None:
        """Return a seeker of the frames; None if the first one has all of the content, or does not say how much.

        See ``codecs.seeking.seeker``.
        """
        first = _content_size(stored.read_at(0, _HEADER))
        if first is None or first >= size:
            return None

        def measure(place: int) -> tuple[int, int] | None:
            return measure_frame(stored, place, _content_size)

        table = read_table(stored, size)
        if table is None:
            return RewritableChain(measure, lambda place: _decoded(stored, place), size, _encode_frame)
        seeker = Chained(measure, lambda place: _decoded(stored, place))  # a new frame would make the table wrong
        seeker.learn(table)
        return seeker

    def encode(self, content: Source) -> Iterator[bytes]:
        """See ``Codec``.  Uses all processors.  Never raises ``ValueError``."""
        import zstandard

        stream = zstandard.ZstdCompressor(level=_LEVEL, threads=-1).compressobj(size=content.size)
        for piece in pieces(content):
            yield stream.compress(piece)
        yield stream.flush()


def _content_size(head: bytes) -> int | None:
    """Return the bytes of content that the header of a frame states; None if it states none, or is invalid."""
    import zstandard

    try:
        size = zstandard.frame_content_size(head)
    except zstandard.ZstdError:
        return None
    return None if size < 0 else int(size)


def _encode_frame(content: bytes, length: int, grain: int) -> bytes:
    """Return a frame of ``content``, behind a skippable frame that fills it up.  See ``Rewritable.encode_slot``."""
    import zstandard

    frame: bytes = zstandard.ZstdCompressor(level=_LEVEL).compress(content)
    if len(frame) == length:
        return frame
    filler = fitting(length, len(frame) + SKIPPABLE.size, grain) - len(frame)
    return SKIPPABLE.pack(SKIPPABLE_MAGIC, filler - SKIPPABLE.size) + bytes(filler - SKIPPABLE.size) + frame


def _decoded(stored: Source, place: int) -> Iterator[bytes]:
    """Yield the content of the frames from ``place`` of the stored bytes on."""
    import zstandard

    library = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
    stream = library.decompressobj(read_across_frames=True)

    def work(piece: bytes) -> bytes:
        try:
            return bytes(stream.decompress(piece))
        except zstandard.ZstdError as err:
            raise ValueError(str(err)) from err

    for piece in pieces(stored, place):
        for at in range(0, len(piece), _FED):
            yield work(piece[at : at + _FED])


PLUGIN = Zstd()
