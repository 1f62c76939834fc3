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
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

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
#: The largest gap over which ``requested_parts`` read, and their largest read, in bytes.
_NEAR: Final = 64 << 10
_REQUEST: Final = 1 << 20
#: Scattered parts of a remote array that are asked for at the same time.
_AT_ONCE: Final = 32
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
    """Elements in a block of ``file``.  ``placement``: their place there.

    ``elsewhere``: it is another file than the one with the tree, which names it, so they are read-only.
    """

    def __init__(self, file: FileState, array: Ndarray, *, rows_first: bool = False, elsewhere: bool = False) -> None:
        self.file = file
        self.elsewhere = elsewhere
        self.placement = place(file, array, rows_first=rows_first)
        self.descr = descr_of(array.datatype, array.byteorder)
        self.shape = self.placement.shape
        self.fortran = self.placement.fortran
        self.size = self.placement.size
        self.writable = self.placement.window and not elsewhere

    def read(self, offset: int, length: int) -> bytes | Extent:
        """Return bytes of the block, as in ``Elements``, or gather scattered elements from it."""
        where = self.placement
        length = max(0, min(length, self.size - offset))
        if where.window:
            return self.file.contents.read(where.number, where.offset + offset, length)
        if not length:
            return b""
        shape, strides, item = where.shape, where.strides, where.item
        if where.fortran:
            shape, strides = shape[::-1], strides[::-1]
        if item > _LARGE_ITEM:  # do not read elements as a whole: their bytes become one more axis
            shape, strides, item = (*shape, item), (*strides, 1), 1
        first, last = offset // item, -(-(offset + length) // item)
        with self.file.scheduler.waiting():  # there may be a read for each element
            gathered = gather(Strided(shape, strides, item, where.offset), (first, last), self._fetch)
        start = offset - first * item
        return gathered[start : start + length]

    def held(self) -> int:
        """See ``Elements``."""
        return self.file.contents.size(self.placement.number)

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        """Write into the block.  See ``Elements``."""
        if not self.writable:
            super().write(offset, payload)
        if offset + len(payload) > self.size:
            raise NotPermittedError("the array cannot grow by a write; edit its shape in the tree first")
        self.file.contents.write(self.placement.number, self.placement.offset + offset, payload)

    def parts(self, parts: Sequence[Strided]) -> Iterator[bytes]:
        """Yield the elements of ``parts``; the server of a remote file is asked for several parts at a time."""
        for number, part in enumerate(parts):
            if number % _AT_ONCE == 0:
                ahead = parts[number : number + 2 * _AT_ONCE]
                self.file.fetch_ahead(self.placement.number, [one.extent for one in ahead])
            yield part.read(self._fetch_here)

    def _fetch(self, offset: int, length: int) -> bytes:
        with self.file.scheduler.resumed():
            return self._fetch_here(offset, length)

    def _fetch_here(self, offset: int, length: int) -> bytes:
        return read_bytes(self.file.contents.read(self.placement.number, offset, length))


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


class Strided(NamedTuple):
    """Elements of ``item`` bytes in a block, the first one at ``offset``; ``strides`` are in bytes."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    item: int
    offset: int

    @property
    def extent(self) -> tuple[int, int]:
        """Offset and length of the bytes from the first to the last element."""
        steps = [(length - 1) * step for length, step in zip(self.shape, self.strides, strict=True)]
        low = self.offset + sum(step for step in steps if step < 0)
        return low, self.offset + sum(step for step in steps if step > 0) + self.item - low

    def read(self, fetch: Fetch) -> bytes:
        """Return the elements, rows first, by one read of ``fetch(offset, length)``.

        Raises ``InvalidArrayError`` if it returns fewer bytes, or as ``fetch``.
        """
        import numpy as np

        low, length = self.extent
        item, raw = np.dtype((np.void, self.item)), fetch(low, length)
        if len(raw) < length:  # the file became shorter; numpy does not look at an empty buffer
            raise InvalidArrayError("the file ends before the selected elements")
        return bytes(np.ndarray(self.shape, item, raw, self.offset - low, self.strides).tobytes())


def gather(whole: Strided, part: tuple[int, int], fetch: Fetch) -> bytes:
    """Return elements ``part[0]`` to ``part[1]`` (exclusive), rows first.

    ``fetch(offset, length)`` reads bytes of the block.  Raises as ``fetch``.
    """
    found = []
    for box in boxes(*part, whole.shape):
        offset = whole.offset + sum(start * step for (start, _), step in zip(box, whole.strides, strict=True))
        inside = whole._replace(shape=tuple(stop - start for start, stop in box), offset=offset)
        found += [dense.read(fetch) for dense in _dense_parts(inside)]
    return b"".join(found)


def _dense_parts(whole: Strided) -> Iterator[Strided]:
    """Yield the elements in parts for one read each: all of them if they are dense enough, otherwise row by row."""
    if 0 in whole.shape:
        return
    if not whole.shape or whole.extent[1] <= min(_SPAN, _WASTE * whole.item * math.prod(whole.shape)):
        yield whole
        return
    for number in range(whole.shape[0]):
        offset = whole.offset + number * whole.strides[0]
        yield from _dense_parts(Strided(whole.shape[1:], whole.strides[1:], whole.item, offset))


def requested_parts(whole: Strided) -> Iterator[Strided]:
    """Yield the elements in few parts for one read each, rows first, because each read may be a request.

    Elements with at most 64 KiB between them are read together, up to 1 MiB.
    """
    shape, strides = whole.shape, whole.strides
    if 0 in shape:
        return
    axis = next((number for number, length in enumerate(shape) if length > 1), None)
    near = all(abs(step) <= _NEAR for length, step in zip(shape, strides, strict=True) if length > 1)
    if axis is None or (near and whole.extent[1] <= _REQUEST):
        yield whole
        return
    count, step = shape[axis], strides[axis]
    rows = max(1, min(count - 1, _REQUEST // max(1, abs(step)))) if near else 1
    for row in range(0, count, rows):
        part = (*shape[:axis], min(rows, count - row), *shape[axis + 1 :])
        yield from requested_parts(whole._replace(shape=part, offset=whole.offset + row * step))
