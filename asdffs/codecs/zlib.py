"""The ``zlib`` compression of the standard (section Compression): one zlib stream.  A decoder can start inside it.

A zlib stream has no independent pieces (RFC 1950).  A decoder can start at a ``Point`` between two blocks of deflate
if it has the 32 KiB of content before it, and knows how many bits of the last byte are used (RFC 1951).  Python's
zlib module tells neither, so ``Inflater`` calls libz by ctypes (zlib.h, ``inflatePrime``).  Points are found while a
block is decoded, and can be kept for later: they are bytes that belong to the stored bytes of one block.

The library isal decodes twice to three times as fast as libz, but tells no points.  So it decodes for a reader that
begins at the beginning, and libz for one that reads far inside and may come back.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from asdffs.codecs.base import PIECE, Codec, Source, check_ended, is_installed, pieces

_NAMES: Final = ("libz.so.1", "libz.so")
_VERSION: Final = b"1.2.0"  # only its first character is compared
_ZLIB_WINDOW: Final = 15
_RAW_WINDOW: Final = -15
_WINDOW: Final = 1 << 15
#: Values of zlib.h.
_NO_FLUSH, _BLOCK = 0, 5
_OK, _END, _NO_PROGRESS, _NO_MEMORY = 0, 1, -5, -4
_AT_BOUNDARY, _IN_LAST, _BITS = 128, 64, 7
#: The least bytes of content between two points, and the most points of a block.
_APART: Final = 8 << 20
_MOST_POINTS: Final = 256
#: Stored bytes that a decoder gets at a time.
_FED: Final = 1 << 16
_MARK: Final = b"asdffs zlib points 1\n"
#: A kept point: start, place, bits, and the length of its compressed window.
_KEPT: Final = struct.Struct("<QQBI")
_DIGEST: Final = 32


class Point(NamedTuple):
    """A place between two blocks of deflate, after ``start`` bytes of content.

    ``place``: how many stored bytes are used before it; ``bits``: how many bits of the last of these are not.
    ``window``: the content before it, 32 KiB at most.
    """

    start: int
    place: int
    bits: int
    window: bytes


class _Stream(ctypes.Structure):
    """``z_stream`` of zlib.h."""

    _fields_ = (
        ("next_in", ctypes.c_void_p),
        ("avail_in", ctypes.c_uint),
        ("total_in", ctypes.c_ulong),
        ("next_out", ctypes.c_void_p),
        ("avail_out", ctypes.c_uint),
        ("total_out", ctypes.c_ulong),
        ("msg", ctypes.c_char_p),
        ("state", ctypes.c_void_p),
        ("zalloc", ctypes.c_void_p),
        ("zfree", ctypes.c_void_p),
        ("opaque", ctypes.c_void_p),
        ("data_type", ctypes.c_int),
        ("adler", ctypes.c_ulong),
        ("reserved", ctypes.c_ulong),
    )


@functools.cache
def libz() -> Any:
    """Return the library; None if this system has none that can do this."""
    for name in _NAMES:
        try:
            library = ctypes.CDLL(name)
            for function in ("inflateInit2_", "inflate", "inflateEnd", "inflatePrime", "inflateSetDictionary"):
                getattr(library, function)
            library.inflateGetDictionary  # noqa: B018 - libz has it since 1.2.8
        except (OSError, AttributeError):
            continue
        return library
    return None


class Inflater:
    """A decoder of one stream, from its beginning or from ``point``.  One thread at a time.

    ``before``: the last stored byte before the point, if the point is inside it.  ``done``: bytes of content so far;
    ``used``: stored bytes so far.  Both count from the beginning of the stream.  ``ended``: the end was decoded.
    """

    def __init__(self, point: Point | None = None, before: int = 0) -> None:
        self._library = libz()
        self._stream = _Stream()
        self._ready = False
        self.ended = False
        self._start, self._place = (point.start, point.place) if point is not None else (0, 0)
        self._output = ctypes.create_string_buffer(PIECE)
        window = _ZLIB_WINDOW if point is None else _RAW_WINDOW
        self._check(self._call("inflateInit2_", window, _VERSION, ctypes.sizeof(_Stream)))
        self._ready = True
        if point is not None:
            if point.bits:
                self._check(self._call("inflatePrime", point.bits, before >> (8 - point.bits)))
            self._check(self._call("inflateSetDictionary", point.window, len(point.window)))

    @property
    def done(self) -> int:
        """Bytes of content before the next one."""
        return self._start + int(self._stream.total_out)

    @property
    def used(self) -> int:
        """Stored bytes before the next one."""
        return self._place + int(self._stream.total_in)

    def decode(self, stored: bytes, *, to_boundary: bool) -> tuple[bytes, bytes]:
        """Decode ``stored``; return up to 1 MiB of content, and the stored bytes that are not used yet.

        ``to_boundary``: stop where a block of deflate ends.  Raises ``ValueError`` if the bytes are damaged.
        """
        stream = self._stream
        given = ctypes.c_char_p(stored)
        stream.next_in, stream.avail_in = ctypes.cast(given, ctypes.c_void_p), len(stored)
        stream.next_out, stream.avail_out = ctypes.addressof(self._output), PIECE
        code = self._call("inflate", _BLOCK if to_boundary else _NO_FLUSH)
        self.ended = code == _END
        self._check(code)
        return ctypes.string_at(self._output, PIECE - stream.avail_out), stored[len(stored) - stream.avail_in :]

    def point(self) -> Point | None:
        """Return the point at which the decoder is; None if a block of deflate does not end here, or is the last."""
        kind = int(self._stream.data_type)
        if self.ended or not kind & _AT_BOUNDARY or kind & _IN_LAST:
            return None
        window, length = ctypes.create_string_buffer(_WINDOW), ctypes.c_uint()
        self._check(self._call("inflateGetDictionary", window, ctypes.byref(length)))
        return Point(self.done, self.used, kind & _BITS, window.raw[: length.value])

    def close(self) -> None:
        """Free the memory of the decoder."""
        if self._ready:
            self._ready = False
            self._call("inflateEnd")

    __del__ = close

    def _call(self, function: str, *arguments: Any) -> int:
        return int(getattr(self._library, function)(ctypes.byref(self._stream), *arguments))

    def _check(self, code: int) -> None:
        """Raise ``ValueError`` or ``MemoryError`` unless libz returned that all is well."""
        if code == _NO_MEMORY:
            raise MemoryError
        if code not in (_OK, _END, _NO_PROGRESS):
            raise ValueError("the zlib stream is not valid")


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


class Zlib(Codec):
    """The codec ``zlib``: one zlib stream."""

    id = b"zlib"
    ratio = 1032

    def memory(self, stored: Source) -> int:
        """Return the size of the window plus one piece of input."""
        return 2 * PIECE

    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """See ``Codec``."""
        return ZlibPoints(stored, size).decode_from(0)

    def seeker(self, stored: Source, size: int) -> ZlibPoints:
        """Return a seeker that remembers states of the decoder."""
        return ZlibPoints(stored, size)

    def encode(self, content: Source) -> Iterator[bytes]:
        """See ``Codec``.  Never raises ``ValueError``."""
        stream = zlib.compressobj()
        for piece in pieces(content):
            yield stream.compress(piece)
        yield stream.flush()


PLUGIN = Zlib()
