"""A decoder of zlib streams that can start inside one: libz by ctypes (zlib.h, ``inflatePrime``).

Python's zlib module does not tell where a block of deflate ends, nor the bits of a byte that are used there
(RFC 1951).  A program that knows both, and the 32 KiB of content before, can decode from there on.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Final, NamedTuple

from asdffs.codecs.base import PIECE

_NAMES: Final = ("libz.so.1", "libz.so")
_VERSION: Final = b"1.2.0"  # only its first character is compared
_ZLIB_WINDOW: Final = 15
_RAW_WINDOW: Final = -15
_WINDOW: Final = 1 << 15
#: Values of zlib.h.
_NO_FLUSH, _BLOCK = 0, 5
_OK, _END, _NO_PROGRESS, _NO_MEMORY = 0, 1, -5, -4
_AT_BOUNDARY, _IN_LAST, _BITS = 128, 64, 7


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
