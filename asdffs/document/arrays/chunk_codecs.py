"""Decodes chunks of asdf-zarr arrays: the compressors and filters of numcodecs, as ``.zarray`` states them.

| compressor             | decoded by                                                       |
|------------------------|------------------------------------------------------------------|
| none                   |                                                                  |
| zlib, gzip, bz2, lzma  | modules of Python                                                |
| blosc, zstd            | the codecs ``blsc`` and ``zstd``, which read the same bytes      |
| lz4                    | the library lz4                                                  |

Filters are decoded by numcodecs, and only those of the list below: numcodecs also knows ``pickle``, which runs code
that a file contains.  A chunk that decodes to more bytes than it may have, or than its budget between two filters, is
refused before memory is used for it.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from asdffs import registry
from asdffs.arrays.chunked import Chunked
from asdffs.codecs.base import is_installed
from asdffs.errors import InvalidArrayError
from asdffs.limits import FILTERS, Budget

#: Checksums and headers that filters add, in bytes.
_ADDED: Final = 1 << 12
#: Filters of numcodecs that compute with numbers and do nothing else.
_FILTERS: Final = frozenset(
    {
        *("delta", "fixedscaleoffset", "quantize", "bitround", "packbits", "astype", "shuffle"),
        *("crc32", "adler32", "fletcher32"),
    }
)
#: Of filters that change the dtype of elements: what states it before and after decoding, and the bytes of an element
#: while they compute.
_CHANGES: Final[Mapping[str, tuple[str, str, int]]] = {
    "delta": ("astype", "dtype", 1),
    "fixedscaleoffset": ("astype", "dtype", 8),
    "quantize": ("astype", "dtype", 1),
    "astype": ("encode_dtype", "decode_dtype", 1),
}
#: Compressors, with the Python packages that decode them.
_LIBRARIES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("zlib", "gzip", "bz2", "lzma"), ""),
    "blosc": "blosc",
    "lz4": "lz4",
    "zstd": "zstandard",
}
_FORMAT: Final = "format"
_GZIP: Final = 31  # wbits: a gzip header, and the largest window


def missing_library(about: Chunked) -> str:
    """Return the Python package that is needed and not installed; empty if there is none.

    Raises ``InvalidArrayError`` for a compressor or filter that asdffs does not know.
    """
    needed = []
    if about.compressor is not None:
        name = about.compressor["id"]
        if name not in _LIBRARIES:
            raise InvalidArrayError(f"its compressor is {name[:40]!r}, which asdffs does not read")
        needed.append(_LIBRARIES[name])
    if len(about.filters) > FILTERS:
        raise InvalidArrayError(f"its chunks have {len(about.filters)} filters, and at most {FILTERS} are decoded")
    for one in about.filters:
        if one["id"] not in _FILTERS:
            raise InvalidArrayError(f"its chunks have the filter {one['id'][:40]!r}, which asdffs does not read")
        needed.append("numcodecs")
    return next((library for library in needed if library and not is_installed(library)), "")


def check_libraries(about: Chunked) -> None:
    """Raise ``InvalidArrayError`` if chunks cannot be decoded here, with the command that installs a library."""
    library = missing_library(about)
    if library:
        raise InvalidArrayError(f"its chunks need {library}, which is not installed: pip install 'asdffs[zarr]'")


def largest_stored(about: Chunked, size: int, budget: Budget) -> int:
    """Return the most bytes that a block with a chunk of ``size`` decoded bytes can have."""
    return _before_filters(about, size, budget) * 2 + _ADDED


def decode_chunk(about: Chunked, stored: bytes, size: int, budget: Budget) -> bytes:
    """Return the elements of a chunk, ``size`` bytes.

    Raises ``InvalidArrayError`` if they are not that many, or need more than ``budget`` between the filters.
    """
    import numpy as np

    limit = _before_filters(about, size, budget)
    try:
        content: Any = stored if about.compressor is None else _decompress(about.compressor, stored, limit)
        for one in reversed(about.filters):
            budget.check(_filtered_size(one, content), "a chunk before its filters")
            content = _filter_codec(one).decode(content)
    except (
        ValueError,
        TypeError,
        LookupError,
        SyntaxError,
        RuntimeError,
        MemoryError,
        EOFError,
        lzma.LZMAError,
        OSError,
        zlib.error,
    ) as err:
        raise InvalidArrayError(f"a chunk cannot be decoded: {str(err)[:100]}") from err
    found = content if isinstance(content, bytes) else bytes(np.asarray(content).tobytes())
    if len(found) != size:
        raise InvalidArrayError(f"a chunk has {len(found)} bytes; the tree says {size}")
    return found


def _before_filters(about: Chunked, size: int, budget: Budget) -> int:
    """Return the most bytes that a compressor may decode to; filters change the size of elements."""
    return max(size, budget.memory) + _ADDED if about.filters else size


def _filtered_size(config: dict[str, Any], content: Any) -> int:
    """Return about the bytes of memory that a filter takes for its result."""
    import numpy as np

    size = memoryview(content).nbytes
    if config["id"] not in _CHANGES:
        return size * 8 if config["id"] == "packbits" else size
    before, after, least = _CHANGES[config["id"]]
    decoded = np.dtype(config[after])
    encoded = np.dtype(config.get(before) or decoded)
    if decoded.hasobject or encoded.hasobject:
        raise ValueError("a filter has elements that are no numbers")
    return int(size // max(1, encoded.itemsize) * max(least, decoded.itemsize))


def _decompress(config: dict[str, Any], stored: bytes, limit: int) -> bytes:
    name = config["id"]
    if name == "lz4":
        return _lz4(stored, limit)
    if name == "blosc":
        return _by_codec("blsc", stored, _checked(int.from_bytes(stored[4:8], "little"), limit), limit)
    if name == "zstd":
        return _by_codec("zstd", stored, limit, limit)
    make = _STREAMS[name]
    found: bytes = make(config).decompress(stored, limit + 1)
    _checked(len(found), limit)
    return found


def _lzma(config: dict[str, Any]) -> Any:
    raw = config.get(_FORMAT) == lzma.FORMAT_RAW
    if raw:
        raise ValueError("raw LZMA streams are not read")
    return lzma.LZMADecompressor()


_STREAMS: Final[Mapping[str, Callable[[dict[str, Any]], Any]]] = {
    "zlib": lambda _: zlib.decompressobj(),
    "gzip": lambda _: zlib.decompressobj(_GZIP),
    "bz2": lambda _: bz2.BZ2Decompressor(),
    "lzma": _lzma,
}


def _lz4(stored: bytes, limit: int) -> bytes:
    """Decode 4 bytes with the size, little-endian, and an LZ4 block."""
    import lz4.block

    _checked(int.from_bytes(stored[:4], "little"), limit)
    try:
        return bytes(lz4.block.decompress(stored))
    except lz4.block.LZ4BlockError as err:
        raise ValueError(str(err)) from err


class _Stored:
    """Bytes in memory, as the ``Source`` of a codec."""

    def __init__(self, stored: bytes) -> None:
        self._stored = stored
        self.size = len(stored)

    def read_at(self, offset: int, length: int) -> bytes:
        """See ``Source``."""
        return self._stored[offset : offset + length]


def _by_codec(name: str, stored: bytes, size: int, limit: int) -> bytes:
    found = bytearray()
    for piece in registry.find("codecs", name).decode(_Stored(stored), size):
        found += piece
        _checked(len(found), limit)
    return bytes(found)


def _checked(size: int, limit: int) -> int:
    if size > limit:
        raise ValueError(f"it has {size} bytes or more; a chunk has at most {limit}")
    return size


def _filter_codec(config: dict[str, Any]) -> Any:
    import numcodecs

    return numcodecs.get_codec(dict(config))
