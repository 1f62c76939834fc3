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

import importlib
import sys
from typing import Any, Final

from asdffs.document.arrays.gathering import gather
from asdffs.document.changes import BLOCKS, Subject, content
from asdffs.document.state import FileState
from asdffs.errors import InvalidArrayError, NotPermittedError
from asdffs.scheduling import Scheduler
from asdffs.storage.backend import Extent, read_bytes
from asdffs.tree.branch import Branch
from asdffs.tree.datatypes import Descr, descr_of
from asdffs.tree.inline import inline_array
from asdffs.tree.ndarrays import Ndarray
from asdffs.tree.placement import Placement, block_of, place_in

#: Bytes of an element that is not gathered as a whole.
_LARGE_ITEM: Final = 1 << 12


def import_numpy(scheduler: Scheduler) -> None:
    """It takes a tenth of a second the first time, and others are served meanwhile."""
    if "numpy" not in sys.modules:
        with scheduler.waiting():
            importlib.import_module("numpy")


def place(file: FileState, array: Ndarray, *, rows_first: bool = False) -> Placement:
    """Where the elements are; ``rows_first``: written in C order even if they lie columns first.

    Raises ``InvalidArrayError`` when the array cannot be, ``DamagedBlockError``.
    """
    number = block_of(len(file.table), array)
    obstacle = file.contents.obstacle(number)
    if obstacle:
        raise InvalidArrayError(obstacle)
    return place_in(array, number, file.contents.size(number), rows_first=rows_first)


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
        if where.item > _LARGE_ITEM:  # not whole: byte by byte along an axis of its own
            with self._file.scheduler.waiting():
                part = (offset, offset + length)
                return gather((*shape, where.item), (*strides, 1), 1, where.offset, part, self._fetch)
        with self._file.scheduler.waiting():  # there may be a read for each element
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
        with self._file.scheduler.resumed():
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


def elements_of(file: FileState, branch: Branch, *, rows_first: bool = False) -> Elements:
    """The elements of an ndarray, wherever they are.

    Raises ``InvalidArrayError`` when it cannot be, ``AsdffsError``, ``OSError``.
    """
    array = branch.array
    if branch.inline is not None or array is None:
        outline = file.outlines.outline()
        with file.scheduler.waiting():
            return MadeElements(inline_array(outline, branch))
    if isinstance(array.source, str):
        return OtherElements(file.linked_files.find(array.source, file), array, rows_first=rows_first)
    return BlockElements(file, array, rows_first=rows_first)


def subjects_of(file: FileState, branch: Branch) -> tuple[Subject, ...]:
    """What the elements of an array depend on besides the tree."""
    array = branch.array
    if array is None or branch.inline is not None or not isinstance(array.source, int):
        return ()
    if array.source >= 0:
        return (content(array.source),)
    return (content(array.source + len(file.table)), BLOCKS)
