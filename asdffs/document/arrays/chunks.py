"""The elements of arrays of asdf-zarr: chunks in blocks, put together when they are read; read-only.

A read decodes the chunks that it needs, and keeps them as long as there is room (``document/outlines``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, Final

from asdffs.arrays.chunked import ENTRY, NULLS, Chunked, boxes
from asdffs.document.arrays.base_elements import Elements, import_numpy
from asdffs.document.arrays.chunk_codecs import check_libraries, decode_chunk, largest_stored
from asdffs.document.changes import content
from asdffs.document.state import FileState
from asdffs.errors import InvalidArrayError, NotPermittedError
from asdffs.storage.backend import read_bytes

#: Entries of the table are native integers of the machine that wrote it; asdf-zarr says nothing else.
_BYTEORDER: Final = "little"
_SPECIAL: Final = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}

Ranges = tuple[range, ...]


class ChunkedElements(Elements):
    """The elements of the array that ``about`` describes, in chunks in blocks of ``file``."""

    def __init__(self, file: FileState, about: Chunked) -> None:
        """Raises ``InvalidArrayError`` if the description is wrong or a library is missing."""
        check_libraries(about)
        import_numpy(file.scheduler)
        import numpy as np

        self._file = file
        self._about = about
        self._dtype = _dtype(about.dtype)
        self._chunk_size: int = self._dtype.itemsize * math.prod(about.chunk)
        file.budget.check(self._chunk_size, "a chunk")
        self._fill = _fill(about.fill, self._dtype)
        self._key = repr(about._replace(table=0))
        self._check_table()
        self.descr = np.lib.format.dtype_to_descr(self._dtype)
        self.shape = about.shape
        self.size = self._dtype.itemsize * math.prod(about.shape)

    def read(self, offset: int, length: int) -> bytes:
        """See ``Elements``."""
        item = self._dtype.itemsize
        length = max(0, min(length, self.size - offset))
        if not length:
            return b""
        first, last = offset // item, -(-(offset + length) // item)
        parts = [self.at(tuple(range(*ends) for ends in box)).tobytes() for box in boxes(first, last, self.shape)]
        start = offset - first * item
        return b"".join(parts)[start : start + length]

    def held(self) -> int:
        """Return the bytes of the chunks that were written: the others have one value, which the tree states."""
        size = self._file.contents.size(self._about.table)
        table = read_bytes(self._file.contents.read(self._about.table, 0, size))
        return len({table[at : at + ENTRY] for at in range(0, size, ENTRY)} - {b"\xff" * ENTRY}) * self._chunk_size

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        """Raise ``NotPermittedError``."""
        raise NotPermittedError("an array of asdf-zarr is read-only here; change it by asdf-zarr")

    def at(self, ranges: Ranges) -> Any:
        """Return a copy of the elements at ``ranges``, positions along each axis with a positive step, as an ndarray.

        Chunks without any of them are not decoded.  Raises ``InvalidArrayError`` if a chunk cannot be decoded or
        there are too many elements, ``DamagedBlockError``, ``OSError``.
        """
        import numpy as np

        shape = tuple(map(len, ranges))
        self._file.budget.check(math.prod(shape) * self._dtype.itemsize, "its elements", self.held)
        found = np.empty(shape, self._dtype)
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
        if size > largest_stored(about, self._chunk_size, budget):
            raise InvalidArrayError(f"block {number} has {size} bytes, and a chunk has {self._chunk_size}")
        stored = read_bytes(contents.read(number, 0, size))
        with self._file.scheduler.waiting():
            raw = decode_chunk(about, stored, self._chunk_size, budget)
        return np.frombuffer(raw, self._dtype).reshape(about.chunk, order=about.order)  # type: ignore[call-overload]

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
        obstacle = self._file.contents.obstacle(number)
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
