"""The ``zstd`` compression of the asdf-compression package: one Zstandard frame (RFC 8878, section 3.1).

Several frames in a row, as other programs write them, are read as well.  A decoder can start at each of them.  A
frame says in its header how much content it has, if the writer knew that.  Where it ends is in its blocks: three
bytes before each say how long it is.  A table of the frames at the end, in the "seekable format" of the zstd project,
is read first; it is only believed where it agrees with the sizes of the block.
"""

from __future__ import annotations

import functools
import itertools
import struct
import time
from collections.abc import Iterator
from typing import Final

from asdffs.codecs.base import IN_WORK, PIECE, Codec, Source, in_parallel, pieces, small_reads
from asdffs.codecs.seeking import Chained, RewritableChain, fitting

#: The magic of the first kind of skippable frames; its header has this and the number of bytes that follow it.
_SKIPPABLE_MAGIC: Final = 0x184D2A50
_SKIPPABLE: Final = struct.Struct("<II")
_SKIPPABLE_MASK: Final = 0xFFFFFFF0
#: The table of the seekable format is in a skippable frame with this magic, and ends with the other one.
_TABLE: Final = 0x184D2A5E
_TABLE_END: Final = 0x8F92EAB1
_FOOT: Final = struct.Struct("<IBI")
_MOST_FRAMES: Final = 1 << 20
_BLOCK_HEADER: Final = 3
#: So many of them are read while the main lock is held, and for so many seconds: others wait for it.
_MOST_HELD: Final = 64
_LONGEST_HOLD: Final = 0.001
_HEADER: Final = 18  # ZSTD_FRAMEHEADERSIZE_MAX
_RAW, _RUN, _COMPRESSED = range(3)
_LEVEL: Final = 3  # the level that asdf-compression uses
#: Input bytes at a time.  128 KiB of content may take only 4 stored bytes, so a larger input would need much memory.
_FED: Final = 1 << 10
#: The most bytes of a frame, and of its content, that is decoded as a whole.
_SMALL: Final = 8 << 20
_LARGEST_WINDOW: Final = 1 << 27  # the limit of the zstd program


class Zstd(Codec):
    """The codec ``zstd``: Zstandard frames."""

    id = b"zstd"
    library = "zstandard"
    extra = "zstd"
    ratio = 1 << 15

    def memory(self, stored: Source) -> int:
        """Return the window size in the frame header plus one piece; for small frames, what ``in_parallel`` uses.

        0 if the header cannot be read.
        """
        import zstandard

        try:
            first = zstandard.get_frame_parameters(stored.read_at(0, _HEADER))
        except zstandard.ZstdError:
            return 0
        if first.content_size <= _SMALL < stored.size:
            return IN_WORK
        return min(int(first.window_size), _LARGEST_WINDOW) + PIECE

    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """See ``Codec``."""
        return _decoded(stored, 0)

    def seeker(self, stored: Source, size: int) -> Chained | None:
        """Return a seeker of the frames; None if the first one has all of the content, or does not say how much."""
        first = _content_size(stored.read_at(0, _HEADER))
        if first is None or first >= size:
            return None

        measure, decode = functools.partial(_measured, stored), functools.partial(_decoded, stored)
        table = _read_table(stored, size)
        if table is None:
            return RewritableChain(measure, decode, size, _encode_frame)
        seeker = Chained(measure, decode)  # a new frame would make the table wrong
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
    filler = fitting(length, len(frame) + _SKIPPABLE.size, grain) - len(frame)
    return _SKIPPABLE.pack(_SKIPPABLE_MAGIC, filler - _SKIPPABLE.size) + bytes(filler - _SKIPPABLE.size) + frame


def _decoded(stored: Source, place: int) -> Iterator[bytes]:
    """Yield the content of the frames from ``place`` of the stored bytes on: small ones in parallel."""
    behind = [place]

    def small_frames() -> Iterator[tuple[int, bytes]]:
        while (found := _small_frame(stored, behind[0])) is not None:
            behind[0] += len(found[1])
            yield found

    yield from in_parallel(_decoded_frame, small_frames(), lambda frame: frame[0] + len(frame[1]), 1)
    yield from _streamed(stored, behind[0])


def _small_frame(stored: Source, place: int) -> tuple[int, bytes] | None:
    """Return the bytes of content of the frame at ``place``, and the frame.

    None if it is large or damaged, and at the end.
    """
    head = stored.read_at(place, _HEADER + _BLOCK_HEADER)
    stated = 0 if _is_skippable(head) else _content_size(head)
    if stated is None or stated > _SMALL:  # the end of a large frame is far away, and each of its parts is on the way
        return None
    try:
        found = _measured(stored, place, head)
    except ValueError:
        return None
    if found is None or found[1] - place > _SMALL:
        return None
    frame = stored.read_at(place, found[1] - place)
    return (found[0], frame) if len(frame) == found[1] - place else None


def _decoded_frame(frame: tuple[int, bytes]) -> bytes:
    """Return the content of a frame; empty for a skippable one."""
    import zstandard

    if _is_skippable(frame[1]):
        return b""
    try:
        return bytes(zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW).decompress(frame[1]))
    except zstandard.ZstdError as err:
        raise ValueError(str(err)) from err


def _streamed(stored: Source, place: int) -> Iterator[bytes]:
    """Yield the content of the frames from ``place`` on, of any size."""
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


def _measured(stored: Source, place: int, head: bytes | None = None) -> tuple[int, int] | None:
    """Return the bytes of content of the frame at ``place``, and where the next one begins; None at the end.

    ``head``: its first bytes, with the header of its first block, if they were read.  Raises ``ValueError`` if
    the frame is damaged or states no size.
    """
    head = stored.read_at(place, _HEADER + _BLOCK_HEADER) if head is None else head
    if not head:
        return None
    if _is_skippable(head):
        return 0, place + _SKIPPABLE.size + _SKIPPABLE.unpack_from(head)[1]
    size = _content_size(head)
    if size is None:
        raise ValueError("a frame does not say how much it decodes to")
    return size, _end_of_frame(stored, place, head)


def _is_skippable(head: bytes) -> bool:
    return len(head) >= _SKIPPABLE.size and _SKIPPABLE.unpack_from(head)[0] & _SKIPPABLE_MASK == _SKIPPABLE_MAGIC


def _end_of_frame(stored: Source, place: int, head: bytes) -> int:
    """Return where the frame at ``place`` with the header ``head`` ends, by the lengths of its blocks."""
    descriptor = head[4]
    single, checksum = descriptor >> 5 & 1, descriptor >> 2 & 1
    content_size = (single, 2, 4, 8)[descriptor >> 6]
    at = 5 + (not single) + (0, 1, 2, 4)[descriptor & 3] + content_size
    last, place = _behind(head[at : at + _BLOCK_HEADER], place + at, stored.size)
    while not last:
        with small_reads(stored) as read:
            until = time.monotonic() + _LONGEST_HOLD
            for _ in range(_MOST_HELD):
                last, place = _behind(read(place, _BLOCK_HEADER), place, stored.size)
                if last or time.monotonic() > until:
                    break
    return place + 4 * checksum


def _behind(header: bytes, place: int, size: int) -> tuple[int, int]:
    """Return whether the block at ``place`` with this header is the last one of its frame, and where it ends."""
    field = int.from_bytes(header.ljust(_BLOCK_HEADER, b"\xff"), "little")
    last, kind, length = field & 1, field >> 1 & 3, field >> 3
    if kind > _COMPRESSED or place >= size:
        raise ValueError("a frame has an invalid block")
    return last, place + _BLOCK_HEADER + (1 if kind == _RUN else length)


def _read_table(stored: Source, size: int) -> list[tuple[int, int]] | None:
    """Return where each frame begins, in the content and in the stored bytes, by the table at the end.

    None if there is no table, or if it contradicts ``size``, the bytes of content, or the stored bytes.
    """
    foot = stored.read_at(max(0, stored.size - _FOOT.size), _FOOT.size)
    if len(foot) < _FOOT.size:
        return None
    count, descriptor, magic = _FOOT.unpack(foot)
    entry = struct.Struct("<II4x" if descriptor & 0x80 else "<II")
    length = entry.size * count + _FOOT.size
    start = stored.size - length - _SKIPPABLE.size
    if magic != _TABLE_END or not 0 < count <= _MOST_FRAMES or start < 0:
        return None
    if stored.read_at(start, _SKIPPABLE.size) != _SKIPPABLE.pack(_TABLE, length):
        return None
    entries = list(entry.iter_unpack(stored.read_at(start + _SKIPPABLE.size, entry.size * count)))
    if sum(one for one, _ in entries) != start or sum(one for _, one in entries) != size:
        return None
    places = itertools.accumulate((one for one, _ in entries), initial=0)
    return list(zip(itertools.accumulate((one for _, one in entries), initial=0), places, strict=True))


PLUGIN = Zstd()
