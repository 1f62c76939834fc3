"""Places where a decoder of a zlib stream can start again: copies of its state, made while it decodes.

A zlib stream has no independent pieces (RFC 1950).  A copy of a decoder has its window of 32 KiB, and the stored
bytes that it was given and has not used yet.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from asdffs.codecs.base import PIECE, Source, check_ended

#: The least bytes of content between two points, and the most points of a block.
_APART: Final = 8 << 20
_MOST_POINTS: Final = 256
#: Stored bytes that a decoder gets at a time.  A copy keeps as many at most.
_FED: Final = 1 << 16


class _Point(NamedTuple):
    """A decoder after ``start`` bytes of content; ``place`` is how many stored bytes it was given.

    ``stream`` is None for a new decoder, at the beginning.
    """

    start: int
    place: int
    stream: Any


class ZlibPoints:
    """The seeker of the zlib stream ``stored`` with ``size`` bytes of content.  See ``Seeker``."""

    def __init__(self, stored: Source, size: int) -> None:
        self._stored = stored
        self._size = size
        self._apart = max(_APART, size // _MOST_POINTS)
        self._points = [_Point(0, 0, None)]

    def start_before(self, offset: int) -> int:
        """See ``Seeker``."""
        return self._at(offset).start

    def _at(self, offset: int) -> _Point:
        return self._points[bisect_right(self._points, offset, key=lambda point: point.start) - 1]

    def decode_from(self, start: int) -> Iterator[bytes]:
        """See ``Seeker``.  Remembers points on the way."""
        point = self._at(start)
        stream: Any = zlib.decompressobj() if point.stream is None else point.stream.copy()
        done, place = point.start, point.place
        try:
            yield (piece := stream.decompress(stream.unconsumed_tail, PIECE))
            done += len(piece)
            while not stream.eof:
                rest = stream.unconsumed_tail
                if not rest:
                    rest = self._stored.read_at(place, _FED)
                    place += len(rest)
                piece = stream.decompress(rest, PIECE)
                if not rest and not piece:
                    break
                yield piece
                done += len(piece)
                self._note(done, place, stream)
        except zlib.error as err:
            raise ValueError(str(err)) from err
        check_ended(ended=stream.eof, size=self._size)

    def _note(self, done: int, place: int, stream: Any) -> None:
        """Remember a point after ``done`` bytes of content if the last one is far enough before."""
        if done - self._points[-1].start >= self._apart and not stream.eof:
            self._points.append(_Point(done, place, stream.copy()))
