"""Places where a decoder of a zlib stream can start again, found while it decodes.

A zlib stream has no independent pieces (RFC 1950).  A point between two blocks of deflate needs the 32 KiB of content
before it (``inflater``).  Points can be kept for later: they are bytes that belong to the stored bytes of one block.

The library isal decodes twice to three times as fast as libz, but tells no points.  So it decodes for a reader that
begins at the beginning, and libz for one that reads far inside and may come back.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, Final

from asdffs.codecs.base import PIECE, Source, check_ended, is_installed
from asdffs.codecs.seeking.inflater import Inflater, Point, libz

#: The least bytes of content between two points, and the most points of a block.
_APART: Final = 8 << 20
_MOST_POINTS: Final = 256
#: Stored bytes that a decoder gets at a time.
_FED: Final = 1 << 16
_MARK: Final = b"asdffs zlib points 1\n"
#: A kept point: start, place, bits, and the length of its compressed window.
_KEPT: Final = struct.Struct("<QQBI")
_DIGEST: Final = 32


class ZlibPoints:
    """The seeker of the zlib stream ``stored`` with ``size`` bytes of content: a ``Remembering``."""

    def __init__(self, stored: Source, size: int) -> None:
        self._stored = stored
        self._size = size
        self._apart = max(_APART, size // _MOST_POINTS)
        self._points: list[Point] = []
        self._recalled = 0
        self._far = False

    def start_before(self, offset: int) -> int:
        """See ``Seeker``."""
        found = self._at(offset)
        start = found.start if found is not None else 0
        self._far = offset - start >= self._apart
        return start

    def _at(self, offset: int) -> Point | None:
        place = bisect_right(self._points, offset, key=lambda point: point.start)
        return self._points[place - 1] if place else None

    def decode_from(self, start: int) -> Iterator[bytes]:
        """See ``Seeker``.  Remembers points on the way."""
        point = self._at(start)
        if libz() is not None and (point is not None or self._far):
            return self._with_points(point)
        return self._in_order()

    def _with_points(self, point: Point | None) -> Iterator[bytes]:
        before = self._stored.read_at(point.place - 1, 1)[:1] if point is not None and point.bits else b""
        restart = point._replace(window=zlib.decompress(point.window)) if point is not None else None
        decoder = Inflater(restart, before[0] if before else 0)
        try:
            place, rest = decoder.used, b""
            while not decoder.ended:
                if not rest:
                    rest = self._stored.read_at(place, _FED)
                    place += len(rest)
                given = len(rest)
                piece, rest = decoder.decode(rest, to_boundary=self._is_due(decoder))
                yield piece
                if not piece and not given:
                    break
                if self._is_due(decoder):
                    self._note(decoder.point())
            check_ended(ended=decoder.ended, size=self._size)
        finally:
            decoder.close()

    def _is_due(self, decoder: Inflater) -> bool:
        last = self._points[-1].start if self._points else 0
        return decoder.done - last >= self._apart

    def _note(self, point: Point | None) -> None:
        if point is not None:
            self._points.append(point._replace(window=zlib.compress(point.window, 1)))

    def _in_order(self) -> Iterator[bytes]:
        stream, error = _quick_stream()
        place = 0
        try:
            while not stream.eof:
                rest = stream.unconsumed_tail
                if not rest:
                    rest = self._stored.read_at(place, _FED)
                    place += len(rest)
                piece = stream.decompress(rest, PIECE)
                if not rest and not piece:
                    break
                yield piece
        except error as err:
            raise ValueError("the zlib stream is not valid") from err
        check_ended(ended=stream.eof, size=self._size)

    # -- points of another time -------------------------------------------

    def remembered(self) -> bytes:
        """See ``Remembering``."""
        if len(self._points) <= self._recalled:
            return b""
        kept = b"".join(_KEPT.pack(*point[:3], len(point.window)) + point.window for point in self._points)
        content = _MARK + struct.pack("<QQ", self._stored.size, self._size) + kept
        return content + hashlib.sha256(content).digest()

    def recall(self, kept: bytes) -> None:
        """See ``Remembering``."""
        content = kept[:-_DIGEST]
        head = _MARK + struct.pack("<QQ", self._stored.size, self._size)
        if not content.startswith(head) or hashlib.sha256(content).digest() != kept[-_DIGEST:]:
            return
        points, place = [], len(head)
        while place < len(content):
            start, used, bits, length = _KEPT.unpack_from(content, place)
            place += _KEPT.size + length
            points.append(Point(start, used, bits, content[place - length : place]))
        self._points, self._recalled = points, len(points)


def _quick_stream() -> tuple[Any, type[Exception]]:
    """Return a new decoder, of isal if it is installed, and the class of its errors."""
    if not is_installed("isal"):
        return zlib.decompressobj(), zlib.error
    from isal import igzip_lib, isal_zlib

    error: Any = igzip_lib.IsalError  # its annotations say that it is an instance
    return isal_zlib.decompressobj(), error
