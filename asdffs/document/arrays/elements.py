"""The elements of an array as bytes, in the order in which an ``.npy`` file has them.  ``finding`` says which it has.

| the elements                                             | are                                                    |
|----------------------------------------------------------|--------------------------------------------------------|
| contiguous, rows first or columns first, in a block      | a window on the decoded block: extents, and writes     |
| strided in a block (views, slices, negative strides)     | gathered when they are read; read-only                 |
| in another file, by a URI as source                      | read as those of an array there; read-only             |
| in the tree (inline data, a mask by value)               | made by numpy once per array; read-only                |

The block of an array is looked up at each use, because blocks change.  numpy is imported only where elements are
computed.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

from asdffs.arrays.datatypes import Descr, descr_of
from asdffs.arrays.ndarrays import Ndarray
from asdffs.arrays.placement import Placement, block_of, place_in
from asdffs.document.state import FileState
from asdffs.errors import InvalidArrayError, NotPermittedError
from asdffs.scheduling import Scheduler
from asdffs.storage.backend import Extent, read_bytes

#: A larger element, in bytes, is not gathered as a whole.
_LARGE_ITEM: Final = 1 << 12
#: The largest range of a block that one read covers to gather scattered elements, in bytes.  If the elements lie
#: further apart, rows are read one by one.
_SPAN: Final = 4 << 20
#: The largest ratio of bytes that are read to bytes that are wanted.
_WASTE: Final = 16
#: The largest gap over which ``gather_by_requests`` reads, and its largest read, in bytes.
_NEAR: Final = 64 << 10
_REQUEST: Final = 1 << 20
Fetch = Callable[[int, int], bytes]


def import_numpy(scheduler: Scheduler) -> None:
    """Import numpy.  The first import takes a tenth of a second, and other requests are served meanwhile."""
    if "numpy" not in sys.modules:
        with scheduler.waiting():
            importlib.import_module("numpy")


class Elements:
    """The elements of one array; the base class is read-only.

    ``size`` and offsets are in bytes of the elements as an ``.npy`` file has them, without its header.  ``descr``:
    the numpy description of the dtype; ``fortran``: columns first; ``writable``: ``write`` works.
    """

    descr: Descr
    shape: tuple[int, ...]
    fortran = False
    size: int
    writable = False

    def read(self, offset: int, length: int) -> bytes | Extent:
        """Return ``length`` bytes from ``offset``, or their place; fewer at the end.

        Raises ``AsdffsError``, ``OSError``.
        """
        raise NotImplementedError

    def held(self) -> int:
        """Return the bytes that the file has for the elements; fewer than ``size`` if elements share them."""
        return self.size

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        """Write ``payload`` within the array.  Raises ``NotPermittedError``, or as ``Block.write_at``."""
        raise NotPermittedError("the elements of this array have no single place; write its block or edit the tree")


class MadeElements(Elements):
    """Elements that numpy made, of inline data or a mask.  ``array``: an ndarray in any memory order."""

    def __init__(self, array: Any) -> None:
        import numpy as np

        self.descr = np.lib.format.dtype_to_descr(array.dtype)
        self.shape = array.shape
        self.size = array.nbytes
        self._raw: bytes = array.tobytes()

    def read(self, offset: int, length: int) -> bytes:
        """See ``Elements``."""
        return self._raw[offset : offset + length]


def place(file: FileState, array: Ndarray, *, rows_first: bool = False) -> Placement:
    """Return the place of the elements of ``array`` in their block.

    ``rows_first``: they are shown in C order, even if they lie columns first.  Raises ``InvalidArrayError`` if the
    description of the array is wrong or its block cannot be decoded, ``DamagedBlockError``.
    """
    number = block_of(len(file.table), array)
    obstacle = file.contents.codecs.obstacle(number)
    if obstacle:
        raise InvalidArrayError(obstacle)
    return place_in(array, number, file.contents.size(number), rows_first=rows_first)


class BlockElements(Elements):
    """Elements in a block of the file.  ``placement``: their place there."""

    def __init__(self, file: FileState, array: Ndarray, *, rows_first: bool = False) -> None:
        self._file = file
        self.placement = place(file, array, rows_first=rows_first)
        self.descr = descr_of(array.datatype, array.byteorder)
        self.shape = self.placement.shape
        self.fortran = self.placement.fortran
        self.size = self.placement.size
        self.writable = self.placement.window

    def read(self, offset: int, length: int) -> bytes | Extent:
        """Return bytes of the block, as in ``Elements``, or gather scattered elements from it."""
        where = self.placement
        length = max(0, min(length, self.size - offset))
        if where.window:
            return self._file.contents.read(where.number, where.offset + offset, length)
        if not length:
            return b""
        first, last = offset // where.item, -(-(offset + length) // where.item)
        shape, strides = where.shape, where.strides
        if where.fortran:
            shape, strides = shape[::-1], strides[::-1]
        if where.item > _LARGE_ITEM:  # do not read elements as a whole: their bytes become one more axis
            with self._file.scheduler.waiting():
                part = (offset, offset + length)
                return gather((*shape, where.item), (*strides, 1), 1, where.offset, part, self._fetch)
        with self._file.scheduler.waiting():  # there may be a read for each element
            gathered = gather(shape, strides, where.item, where.offset, (first, last), self._fetch)
        start = offset - first * where.item
        return gathered[start : start + length]

    def held(self) -> int:
        """See ``Elements``."""
        return self._file.contents.size(self.placement.number)

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        """Write into the block.  See ``Elements``."""
        if not self.writable:
            super().write(offset, payload)
        if offset + len(payload) > self.size:
            raise NotPermittedError("the array cannot grow by a write; edit its shape in the tree first")
        self._file.contents.write(self.placement.number, self.placement.offset + offset, payload)

    def _fetch(self, offset: int, length: int) -> bytes:
        with self._file.scheduler.resumed():
            return read_bytes(self._file.contents.read(self.placement.number, offset, length))


class OtherElements(Elements):
    """Elements in the first block of another file, to which the source, a URI, refers; read-only."""

    def __init__(self, other: FileState, array: Ndarray, *, rows_first: bool = False) -> None:
        self._inner = BlockElements(other, array._replace(source=0), rows_first=rows_first)
        self.descr, self.shape = self._inner.descr, self._inner.shape
        self.fortran, self.size = self._inner.fortran, self._inner.size

    def read(self, offset: int, length: int) -> bytes | Extent:
        """See ``Elements``."""
        return self._inner.read(offset, length)

    def held(self) -> int:
        """See ``Elements``."""
        return self._inner.held()


def boxes(
    first: int, last: int, shape: tuple[int, ...], before: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, int], ...]]:
    """Yield the boxes of the elements ``first`` to ``last`` (exclusive), counted rows first, in their order.

    A box has a start and a stop for each axis.  ``before``: indices of the axes before those of ``shape``.
    """
    fixed = tuple((index, index + 1) for index in before)
    if first >= last:
        return
    if not shape:
        yield fixed
        return
    row = math.prod(shape[1:])
    below, above = -(-first // row), last // row
    if below > above:  # within one row
        start = (below - 1) * row
        yield from boxes(first - start, last - start, shape[1:], (*before, below - 1))
        return
    yield from boxes(row - (below * row - first), row, shape[1:], (*before, below - 1))
    if below < above:
        yield (*fixed, (below, above), *((0, length) for length in shape[1:]))
    yield from boxes(0, last - above * row, shape[1:], (*before, above))


def gather(
    shape: tuple[int, ...], strides: tuple[int, ...], item: int, offset: int, part: tuple[int, int], fetch: Fetch
) -> bytes:
    """Return elements ``part[0]`` to ``part[1]`` (exclusive) of a strided array, rows first.

    ``strides``, ``item`` (the size of an element) and ``offset`` (that of the first element) are in bytes.
    ``fetch(offset, length)`` reads bytes of the block.  Raises as ``fetch``.
    """
    return b"".join(
        _whole_rows(
            tuple(stop - start for start, stop in box),
            strides,
            item,
            offset + sum(start * step for (start, _), step in zip(box, strides, strict=True)),
            fetch,
        )
        for box in boxes(*part, shape)
    )


def gather_by_requests(
    shape: tuple[int, ...], strides: tuple[int, ...], item: int, offset: int, fetch: Fetch
) -> bytes:
    """Return all elements of a strided array, rows first, with few reads, because each read may be a request.

    Elements with at most 64 KiB between them are read together, up to 1 MiB.  Arguments as of ``gather``.
    """
    if 0 in shape:
        return b""
    steps = [(length - 1) * step for length, step in zip(shape, strides, strict=True)]
    low, high = sum(step for step in steps if step < 0), sum(step for step in steps if step > 0) + item
    near = all(abs(step) <= _NEAR for length, step in zip(shape, strides, strict=True) if length > 1)
    if near and high - low <= _REQUEST:
        return _picked(shape, strides, item, fetch(offset + low, high - low), -low)
    axis = next(number for number, length in enumerate(shape) if length > 1)  # those before it have one element
    count, step = shape[axis], strides[axis]
    rows = max(1, min(count - 1, _REQUEST // max(1, abs(step)))) if near else 1
    parts = (
        gather_by_requests(
            (*shape[:axis], min(rows, count - row), *shape[axis + 1 :]), strides, item, offset + row * step, fetch
        )
        for row in range(0, count, rows)
    )
    return b"".join(parts)


def requests_for(shape: tuple[int, ...], strides: tuple[int, ...], item: int, offset: int) -> list[tuple[int, int]]:
    """Return the offset and the length of each read that ``gather_by_requests`` makes."""
    found = list[tuple[int, int]]()

    def note(start: int, length: int) -> bytes:
        found.append((start, length))
        return bytes(length)

    gather_by_requests(shape, strides, item, offset, note)
    return found


def _whole_rows(shape: tuple[int, ...], strides: tuple[int, ...], item: int, offset: int, fetch: Fetch) -> bytes:
    """Return all elements of an array: by one read if they are dense enough, otherwise row by row."""
    if 0 in shape:
        return b""
    if not shape:
        return fetch(offset, item)
    steps = [(length - 1) * step for length, step in zip(shape, strides, strict=True)]
    low, high = sum(step for step in steps if step < 0), sum(step for step in steps if step > 0) + item
    if high - low <= min(_SPAN, _WASTE * item * math.prod(shape)):
        return _picked(shape, strides, item, fetch(offset + low, high - low), -low)
    parts = (_whole_rows(shape[1:], strides[1:], item, offset + n * strides[0], fetch) for n in range(shape[0]))
    return b"".join(parts)


def _picked(shape: tuple[int, ...], strides: tuple[int, ...], item: int, raw: bytes, offset: int) -> bytes:
    import numpy as np

    return bytes(np.ndarray(shape, np.dtype((np.void, item)), raw, offset, strides).tobytes())
