"""The elements of arrays of asdf-zarr: chunks in blocks, put together when they are read; read-only.

A read decodes the chunks that it needs, and keeps them as long as there is room (``document/outlines``).

| compressor             | decoded by                                                       |
|------------------------|------------------------------------------------------------------|
| none                   |                                                                  |
| zlib, gzip, bz2, lzma  | modules of Python                                                |
| blosc, zstd            | the codecs ``blsc`` and ``zstd``, which read the same bytes      |
| lz4                    | the library lz4                                                  |

Filters are decoded by numcodecs, and only those of a list: numcodecs also knows ``pickle``, which runs code that a
file contains.  A chunk that decodes to more bytes than it may have, or than its budget between two filters, is
refused before memory is used for it.
"""

from __future__ import annotations

import bz2
import itertools
import lzma
import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from asdffs import registry
from asdffs.arrays.chunked import ENTRY, LARGEST, NULLS, Chunked
from asdffs.codecs.base import Readable, is_installed
from asdffs.document.arrays.elements import Elements, boxes, import_numpy
from asdffs.document.changes import content
from asdffs.document.state import FileState
from asdffs.errors import InvalidArrayError, NotPermittedError
from asdffs.limits import FILTERS, Budget
from asdffs.storage.backend import read_bytes

#: Entries of the table are native integers of the machine that wrote it; asdf-zarr says nothing else.
_BYTEORDER: Final = "little"
_SPECIAL: Final = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}
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
#: What libraries raise for damaged bytes and for configurations that make no sense.
_DAMAGED: Final = (
    *(ValueError, TypeError, LookupError, SyntaxError, RuntimeError, MemoryError, EOFError, OSError),
    *(lzma.LZMAError, zlib.error),
)
#: Compressors, with the Python packages that decode them.
_LIBRARIES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("zlib", "gzip", "bz2", "lzma"), ""),
    "blosc": "blosc",
    "lz4": "lz4",
    "zstd": "zstandard",
}
_GZIP: Final = 31  # wbits: a gzip header, and the largest window

Ranges = tuple[range, ...]


class GatheredElements(Elements):
    """The elements of an array in several pieces of ``file``, put together when they are read; read-only.

    ``dtype``: of an element, as of numpy; ``chunk``: the shape of a piece.
    """

    dtype: Any
    chunk: tuple[int, ...] | None

    def size_of(self, shape: tuple[int, ...]) -> int:
        """Return the bytes of an array of ``shape``.  Raises ``InvalidArrayError`` if no file can be so large."""
        size: int = self.dtype.itemsize * math.prod(shape)
        if size > LARGEST:
            raise InvalidArrayError("its shape is too large")
        return size

    def read(self, offset: int, length: int) -> bytes:
        """See ``Elements``."""
        item = self.dtype.itemsize
        length = max(0, min(length, self.size - offset))
        if not length:
            return b""
        first, last = offset // item, -(-(offset + length) // item)
        parts = [
            self.for_bytes(tuple(range(*ends) for ends in box)).tobytes() for box in boxes(first, last, self.shape)
        ]
        start = offset - first * item
        return b"".join(parts)[start : start + length]

    def at(self, ranges: Ranges) -> Any:
        """Return a copy of the elements at ``ranges``: positions along each axis, with a positive step.

        Pieces without any of them are not read.  Raises ``InvalidArrayError`` if a piece cannot be decoded or there
        are too many elements, ``DamagedBlockError``, ``OSError``.
        """
        raise NotImplementedError

    def for_bytes(self, ranges: Ranges) -> Any:
        """Return elements as ``at``, for a read of bytes, whose neighbours are probably read next."""
        return self.at(ranges)

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        """Raise ``NotPermittedError``."""
        raise NotPermittedError(
            "an array in several pieces is read-only here; change it by the program that wrote it"
        )


class ChunkedElements(GatheredElements):
    """The elements of the array that ``about`` describes, in chunks in blocks of ``file``."""

    def __init__(self, file: FileState, about: Chunked) -> None:
        """Raises ``InvalidArrayError`` if the description is wrong or a library is missing."""
        check_libraries(about)
        import_numpy(file.scheduler)
        import numpy as np

        self._file = file
        self._about = about
        self.dtype = _dtype(about.dtype)
        self._chunk_size: int = self.dtype.itemsize * math.prod(about.chunk)
        file.budget.check(self._chunk_size, "a chunk")
        self._fill = _fill(about.fill, self.dtype)
        self._key = repr(about._replace(table=0))
        self._check_table()
        self.descr = np.lib.format.dtype_to_descr(self.dtype)
        self.shape = about.shape
        self.chunk = about.chunk
        self.size = self.size_of(about.shape)

    def held(self) -> int:
        """Return the bytes of the chunks that were written: the others have one value, which the tree states."""
        size = self._file.contents.size(self._about.table)
        table = read_bytes(self._file.contents.read(self._about.table, 0, size))
        return len({table[at : at + ENTRY] for at in range(0, size, ENTRY)} - {b"\xff" * ENTRY}) * self._chunk_size

    def at(self, ranges: Ranges) -> Any:
        """See ``GatheredElements``."""
        import numpy as np

        shape = tuple(map(len, ranges))
        self._file.budget.check(math.prod(shape) * self.dtype.itemsize, "its elements", self.held)
        found = np.empty(shape, self.dtype)
        for parts in itertools.product(*map(_parts, ranges, self._about.chunk)):
            chunk = self._chunk(tuple(number for number, _, _ in parts))
            inside = tuple(inside for _, inside, _ in parts)
            found[tuple(outside for _, _, outside in parts)] = self._fill if chunk is None else chunk[inside]
        return found

    def _chunk(self, where: tuple[int, ...]) -> Any:
        """Return the elements of the chunk ``where``, as an ndarray; None if it was never written."""
        number = self._number(where)
        if number == -1:
            return None
        made = self._file.made
        key = (self._key, number, self._file.changes.stamp(content(number)), self._file.generation)
        found = made.get(key)
        if found is None:
            found = self._decoded(number)
            made.put(key, found)
        return found

    def _decoded(self, number: int) -> Any:
        import numpy as np

        contents, about = self._file.contents, self._about
        size = contents.size(number)
        budget = self._file.budget
        if size > _largest_stored(about, self._chunk_size, budget):
            raise InvalidArrayError(f"block {number} has {size} bytes, and a chunk has {self._chunk_size}")
        stored = read_bytes(contents.read(number, 0, size))
        with self._file.scheduler.waiting():
            raw = decode_chunk(about, stored, self._chunk_size, budget)
        return np.frombuffer(raw, self.dtype).reshape(about.chunk, order=about.order)  # type: ignore[call-overload]

    def _number(self, where: tuple[int, ...]) -> int:
        """Return the number of the block with the chunk ``where``; -1 if it was never written."""
        place = self._about.place(where) * ENTRY
        entry = read_bytes(self._file.contents.read(self._about.table, place, ENTRY))
        number = int.from_bytes(entry, _BYTEORDER, signed=True)
        if len(entry) < ENTRY or not -1 <= number < len(self._file.table):
            raise InvalidArrayError(f"the table of its chunks leads to block {number}, which the file does not have")
        return number

    def _check_table(self) -> None:
        number, count = self._about.table, len(self._file.table)
        if number >= count:
            raise InvalidArrayError(f"the table of its chunks is block {number}, and the file has {count} blocks")
        obstacle = self._file.contents.codecs.obstacle(number)
        if obstacle:
            raise InvalidArrayError(obstacle)
        size, wanted = self._file.contents.size(number), ENTRY * math.prod(self._about.counts)
        if size != wanted:
            raise InvalidArrayError(f"the table of its chunks has {size} bytes; {wanted} are needed")


def _parts(positions: range, length: int) -> Iterator[tuple[int, slice, slice]]:
    """Yield the chunks of ``length`` that have ``positions`` along an axis: number, slice of it, slice of these."""
    first = 0
    while first < len(positions):
        number = positions[first] // length
        here = positions[first:]
        here = here[: -(-((number + 1) * length - here.start) // here.step)]
        start = here.start - number * length
        yield number, slice(start, here[-1] - number * length + 1, here.step), slice(first, first + len(here))
        first += len(here)


def _dtype(stated: Any) -> Any:
    """Return the numpy dtype that ``.zarray`` states.  Raises ``InvalidArrayError``."""
    import numpy as np

    try:
        found = np.dtype(_fields(stated))
    except (TypeError, ValueError, SyntaxError) as err:
        raise InvalidArrayError(f"its dtype {str(stated)[:60]} is not known") from err
    if found.hasobject or not found.itemsize:
        raise InvalidArrayError(f"its dtype {str(stated)[:60]} has no elements of a fixed size")
    return found


def _fields(stated: Any) -> Any:
    """Return a dtype of JSON as numpy takes it: fields are tuples."""
    if isinstance(stated, str):
        return stated
    if not isinstance(stated, list):
        raise TypeError("neither a string nor a list of fields")
    return [(str(field[0]), _fields(field[1]), *[tuple(shape) for shape in field[2:3]]) for field in stated]


def _fill(stated: Any, dtype: Any) -> Any:
    """Return the value of elements that were never written, as a scalar of ``dtype``; zero if none is stated.

    Raises ``InvalidArrayError``.
    """
    import base64

    import numpy as np

    try:
        if stated in NULLS:
            return np.zeros((), dtype)
        if dtype.kind in "SV":
            return np.frombuffer(base64.b64decode(stated).ljust(dtype.itemsize, b"\0"), dtype, 1)[0]
        if dtype.kind == "b":
            return np.bool_(str(stated).lower() in ("true", "1"))
        if isinstance(stated, list):
            real, imaginary = (float(_SPECIAL.get(str(part), str(part))) for part in stated)
            return np.array(complex(real, imaginary), dtype)
        return np.array(_SPECIAL.get(stated, stated)).astype(dtype)
    except (ValueError, TypeError, OverflowError) as err:
        raise InvalidArrayError(f"its fill_value {str(stated)[:40]!r} does not fit its dtype") from err


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


def _largest_stored(about: Chunked, size: int, budget: Budget) -> int:
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
            import numcodecs

            budget.check(_filtered_size(one, content), "a chunk before its filters")
            content = numcodecs.get_codec(dict(one)).decode(content)
    except _DAMAGED as err:
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
    if config.get("format") == lzma.FORMAT_RAW:
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


def _by_codec(name: str, stored: bytes, size: int, limit: int) -> bytes:
    found = bytearray()
    for piece in registry.find("codecs", name).decode(Readable.of(stored), size):
        found += piece
        _checked(len(found), limit)
    return bytes(found)


def _checked(size: int, limit: int) -> int:
    if size > limit:
        raise ValueError(f"it has {size} bytes or more; a chunk has at most {limit}")
    return size
