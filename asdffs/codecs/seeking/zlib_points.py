"""Places where a decoder of a zlib stream can start again: copies of its state, made while it decodes.

A zlib stream has no independent pieces (RFC 1950).  A copy of a decoder has its window of 32 KiB, and the stored
bytes that it was given and has not used yet.

The library isal decodes twice to three times as fast as libz, but its decoders cannot be copied.  So it decodes for a
reader that begins at the beginning, and libz for one that reads far inside and may come back.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from asdffs.codecs.base import PIECE, Source, check_ended, is_installed

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
        self._far = False

    def start_before(self, offset: int) -> int:
        """See ``Seeker``."""
        found = self._at(offset)
        self._far = offset - found.start >= self._apart
        return found.start

    def _at(self, offset: int) -> _Point:
        return self._points[bisect_right(self._points, offset, key=lambda point: point.start) - 1]

    def decode_from(self, start: int) -> Iterator[bytes]:
        """See ``Seeker``.  Remembers points on the way."""
        point = self._at(start)
        error: type[Exception] = zlib.error
        if point.stream is not None:
            stream = point.stream.copy()
        elif self._far or not is_installed("isal"):
            stream = zlib.decompressobj()
        else:
            stream, error = _quick_stream()
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
        except error as err:
            raise ValueError("the zlib stream is not valid") from err
        check_ended(ended=stream.eof, size=self._size)

    def _note(self, done: int, place: int, stream: Any) -> None:
        """Remember a point after ``done`` bytes of content if the last one is far enough before."""
        if done - self._points[-1].start >= self._apart and not stream.eof and hasattr(stream, "copy"):
            self._points.append(_Point(done, place, stream.copy()))


def _quick_stream() -> tuple[Any, type[Exception]]:
    """Return a new decoder of isal, and the class of its errors."""
    from isal import igzip_lib, isal_zlib

    error: Any = igzip_lib.IsalError  # its annotations say that it is an instance
    return isal_zlib.decompressobj(), error
