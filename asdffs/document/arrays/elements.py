"""The elements of an array, in the order in which numpy's files have them, wherever they are in the ASDF file.

| the array is                                             | its elements                                           |
|----------------------------------------------------------|--------------------------------------------------------|
| contiguous, rows first or columns first, in a block      | a window on the decoded block: extents, and writes     |
| strided in a block (views, slices, negative strides)     | gathered when they are read; read-only                 |
| in the tree (inline data, a mask by value)               | made by numpy once per array; read-only                |
| in another file, by a URI as source                      | as of an array there; read-only                        |

Implements the schema core/ndarray: source, shape, strides, offset, datatype, data, mask.  What an array needs is
looked at anew at each use, because blocks change; numpy is imported where elements are computed.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import yaml

from asdffs.document.changes import BLOCKS, Subject, content
from asdffs.document.state import FileState
from asdffs.errors import InvalidArrayError, NotPermittedError
from asdffs.relief import Relief
from asdffs.storage.store import Extent, read_bytes
from asdffs.tree.branch import Branch, Scalar
from asdffs.tree.datatypes import Descr, descr_of
from asdffs.tree.inline import inline_array
from asdffs.tree.ndarrays import Ndarray, item_size

#: How much of a block is read to gather what is scattered in it, in bytes, before rows are taken one by one.
_SPAN: Final = 4 << 20
#: Unwanted bytes that are read along, per wanted one.
_WASTE: Final = 16
#: Sizes of files have 63 bits, header included.
_LARGEST: Final = 1 << 62
#: numpy's limit.
_MOST_AXES: Final = 64

Fetch = Callable[[int, int], bytes]


class Placement(NamedTuple):
    """Where the elements of an array are now.

    ``offset``, ``strides``: in bytes, of block ``number``; ``item``: bytes of an element.  ``fortran``: they are
    written columns first.  ``window``: they lie in the block as they are written.
    """

    number: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    item: int
    fortran: bool
    window: bool

    @property
    def size(self) -> int:
        """Bytes of all elements."""
        return self.item * math.prod(self.shape)


def block_of(file: FileState, array: Ndarray) -> int:
    """Number of the block that has the array.  Raises ``InvalidArrayError``."""
    count = len(file.table)
    number = array.block_in(count)
    if number is not None:
        return number
    if array.source is None:
        raise InvalidArrayError("it states neither a source nor data")
    if isinstance(array.source, str):
        raise InvalidArrayError(f"its source is {array.source[:60]!r}, which is no block of this file")
    raise InvalidArrayError(f"its source is {str(array.source)[:20]}, and the file has {count} blocks")


def place(file: FileState, array: Ndarray, *, rows_first: bool = False) -> Placement:
    """Where the elements are; ``rows_first``: written in C order even if they lie columns first.

    Raises ``InvalidArrayError`` when the array cannot be, ``DamagedBlockError``.
    """
    number, item = block_of(file, array), item_size(array.datatype)
    obstacle = file.contents.obstacle(number)
    if array.odd or obstacle:
        raise InvalidArrayError(f"its {array.odd}, which means nothing" if array.odd else obstacle)
    if item is None:
        descr_of(array.datatype, array.byteorder)  # says what is wrong with it
        raise InvalidArrayError("its datatype is not known")
    size = file.contents.size(number)
    shape = array.shape_in(size)
    if shape is None or len(shape) > _MOST_AXES or min(shape, default=0) < 0:
        raise InvalidArrayError("its shape is not one that an array can have")
    if item * math.prod(shape) > _LARGEST:
        raise InvalidArrayError("it has more bytes than a file can have")
    strides = array.strides if array.strides is not None else packed(shape, item)
    if len(strides) != len(shape):
        raise InvalidArrayError(f"it has {len(shape)} axes and {len(strides)} strides")
    placement = Placement(
        number, array.offset, shape, strides, item, *_order(shape, strides, item, rows_first=rows_first)
    )
    _check_inside(placement, size)
    return placement


def packed(shape: tuple[int, ...], item: int) -> tuple[int, ...]:
    """The strides of a contiguous array, rows first."""
    strides, step = [], item
    for length in reversed(shape):
        strides.append(step)
        step *= max(1, length)
    return tuple(reversed(strides))


def _order(shape: tuple[int, ...], strides: tuple[int, ...], item: int, *, rows_first: bool) -> tuple[bool, bool]:
    """Whether elements are written columns first, and whether they lie as they are written."""
    if _lies(shape, strides, packed(shape, item)):
        return False, True
    columns = _lies(shape, strides, tuple(reversed(packed(tuple(reversed(shape)), item))))
    if rows_first:
        return False, False
    steps = [abs(step) for length, step in zip(shape, strides, strict=True) if length > 1]
    return columns or (len(steps) > 1 and steps == sorted(steps)), columns


def _lies(shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether an array of ``strides`` is one of the ``wanted`` ones; axes of one element step nowhere."""
    steps = zip(shape, strides, wanted, strict=True)
    return 0 in shape or all(length == 1 or have == want for length, have, want in steps)


def _check_inside(where: Placement, size: int) -> None:
    if 0 in where.shape:
        return
    steps = [(length - 1) * step for length, step in zip(where.shape, where.strides, strict=True)]
    first = where.offset + sum(step for step in steps if step < 0)
    last = where.offset + sum(step for step in steps if step > 0) + where.item
    if first < 0 or last > size:
        raise InvalidArrayError(f"it needs bytes {first} to {last} of block {where.number}, which has {size}")


@contextlib.contextmanager
def understood(line: int) -> Iterator[None]:
    """What a tree states may be anything: where numpy, YAML or astropy refuse it, say so, with the line.

    Raises ``InvalidArrayError``.
    """
    try:
        yield
    except InvalidArrayError as err:
        err.line = err.line or line
        raise
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, MemoryError, yaml.YAMLError) as err:
        reason = str(err).partition("\n")[0][:200] or type(err).__name__
        raise InvalidArrayError(f"it cannot be shown: {reason}", line=line) from err


def import_numpy(relief: Relief) -> None:
    """It takes a tenth of a second the first time, and others are served meanwhile."""
    if "numpy" not in sys.modules:
        with relief.waiting():
            importlib.import_module("numpy")


class Elements:
    """The elements of one array.  This base is a read-only one.  Offsets in bytes of what numpy's file has."""

    descr: Descr
    shape: tuple[int, ...]
    fortran = False
    size: int
    writable = False

    def read(self, offset: int, length: int) -> bytes | Extent:
        """Bytes, fewer at the end.  Raises ``AsdffsError``, ``OSError``."""
        raise NotImplementedError

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        """Write within the array.  Raises ``NotPermittedError``, or as ``Block.write_at``."""
        raise NotPermittedError("the elements of this array have no single place; write its block or edit the tree")


class BlockElements(Elements):
    """Elements in a block."""

    def __init__(self, file: FileState, array: Ndarray, *, rows_first: bool = False) -> None:
        self._file = file
        self.placement = place(file, array, rows_first=rows_first)
        self.descr = descr_of(array.datatype, array.byteorder)
        self.shape = self.placement.shape
        self.fortran = self.placement.fortran
        self.size = self.placement.size
        self.writable = self.placement.window

    def read(self, offset: int, length: int) -> bytes | Extent:
        """A part of the block, or what is gathered from it."""
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
        with self._file.relief.waiting():  # there may be a read for each element
            gathered = gather(shape, strides, where.item, where.offset, (first, last), self._fetch)
        start = offset - first * where.item
        return gathered[start : start + length]

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        """Into the block."""
        if not self.writable:
            super().write(offset, payload)
        if offset + len(payload) > self.size:
            raise NotPermittedError("the array ends there; its shape is in the tree")
        self._file.contents.write(self.placement.number, self.placement.offset + offset, payload)

    def _fetch(self, offset: int, length: int) -> bytes:
        with self._file.relief.resumed():
            return read_bytes(self._file.contents.read(self.placement.number, offset, length))


class OtherElements(Elements):
    """Elements in the first block of another file, which a source that is a URI leads to; read-only."""

    def __init__(self, other: FileState, array: Ndarray, *, rows_first: bool = False) -> None:
        self._inner = BlockElements(other, array._replace(source=0), rows_first=rows_first)
        self.descr, self.shape = self._inner.descr, self._inner.shape
        self.fortran, self.size = self._inner.fortran, self._inner.size

    def read(self, offset: int, length: int) -> bytes | Extent:
        """As of an array in a block."""
        return self._inner.read(offset, length)


def gather(
    shape: tuple[int, ...], strides: tuple[int, ...], item: int, offset: int, part: tuple[int, int], fetch: Fetch
) -> bytes:
    """Elements ``part[0]`` to ``part[1]`` of a strided array, rows first, each of ``item`` bytes.

    ``fetch(offset, length)`` reads of where the array lies; ``offset`` is that of its first element.
    """
    first, last = part
    if first >= last:
        return b""
    if not shape:
        return fetch(offset, item)
    row = math.prod(shape[1:])
    below, above = -(-first // row), last // row
    if below > above:  # within one row
        at, start = offset + (below - 1) * strides[0], (below - 1) * row
        return gather(shape[1:], strides[1:], item, at, (first - start, last - start), fetch)
    inner = shape[1:], strides[1:], item
    head = gather(*inner, offset + (below - 1) * strides[0], (row - (below * row - first), row), fetch)
    tail = gather(*inner, offset + above * strides[0], (0, last - above * row), fetch)
    return head + _whole_rows((above - below, *shape[1:]), strides, item, offset + below * strides[0], fetch) + tail


def _whole_rows(shape: tuple[int, ...], strides: tuple[int, ...], item: int, offset: int, fetch: Fetch) -> bytes:
    """All of an array: by one read where it is dense enough, else row by row."""
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


class MadeElements(Elements):
    """Elements that numpy made: inline data, or a mask by value.  ``array``: of any order."""

    def __init__(self, array: Any) -> None:
        import numpy as np

        self.descr = np.lib.format.dtype_to_descr(array.dtype)
        self.shape = array.shape
        self.size = array.nbytes
        self._raw: bytes = array.tobytes()

    def read(self, offset: int, length: int) -> bytes:
        """Bytes of the array."""
        return self._raw[offset : offset + length]


class ValueMask(Elements):
    """A bool for each of ``data``'s elements: whether it is the ``value`` that means "masked"."""

    descr = "|b1"

    def __init__(self, data: Elements, value: Scalar) -> None:
        self._data = data
        self._value = yaml.safe_load(value.text) if value.plain else value.text
        self.shape = data.shape
        self.fortran = data.fortran
        self.size = math.prod(data.shape)

    def read(self, offset: int, length: int) -> bytes:
        """Compared as numpy's ``masked_values`` does; with NaN, where it is not a number."""
        import numpy as np

        dtype = np.dtype(self._data.descr)
        length = max(0, min(length, self.size - offset))
        raw = read_bytes(self._data.read(offset * dtype.itemsize, length * dtype.itemsize))
        try:
            return bytes(_masked(np, np.frombuffer(raw, dtype), self._value).tobytes())
        except (TypeError, ValueError) as err:
            raise InvalidArrayError(f"its elements cannot be compared with the mask {self._value!r}") from err


def _masked(np: Any, data: Any, value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return np.isnan(data)
    return np.ma.getmaskarray(np.ma.masked_values(data, value))


def elements_of(file: FileState, branch: Branch, *, rows_first: bool = False) -> Elements:
    """The elements of an ndarray, wherever they are.

    Raises ``InvalidArrayError`` when it cannot be, ``AsdffsError``, ``OSError``.
    """
    array = branch.array
    if branch.inline is not None or array is None:
        outline = file.outlines.outline()
        with file.relief.waiting():
            return MadeElements(inline_array(outline, branch))
    if isinstance(array.source, str):
        return OtherElements(file.neighbours.find(array.source, file), array, rows_first=rows_first)
    return BlockElements(file, array, rows_first=rows_first)


def subjects_of(file: FileState, branch: Branch) -> tuple[Subject, ...]:
    """What the elements of an array depend on besides the tree."""
    array = branch.array
    if array is None or branch.inline is not None or not isinstance(array.source, int):
        return ()
    if array.source >= 0:
        return (content(array.source),)
    return (content(array.source + len(file.table)), BLOCKS)
