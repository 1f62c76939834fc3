"""Reads and writes the elements of an array as bytes, in the order in which an ``.npy`` file has them.

| the array is                                             | its elements                                           |
|----------------------------------------------------------|--------------------------------------------------------|
| contiguous, rows first or columns first, in a block      | a window on the decoded block: extents, and writes     |
| strided in a block (views, slices, negative strides)     | gathered when they are read; read-only                 |
| in the tree (inline data, a mask by value)               | made by numpy once per array; read-only                |
| in another file, by a URI as source                      | read as those of an array there; read-only             |

Implements the schema core/ndarray: source, shape, strides, offset, datatype, data, mask.  The block of an array is
looked up at each use, because blocks change.  numpy is imported only where elements are computed.
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

#: A larger element, in bytes, is not gathered as a whole.
_LARGE_ITEM: Final = 1 << 12


def import_numpy(scheduler: Scheduler) -> None:
    """Import numpy.  The first import takes a tenth of a second, and other requests are served meanwhile."""
    if "numpy" not in sys.modules:
        with scheduler.waiting():
            importlib.import_module("numpy")


def place(file: FileState, array: Ndarray, *, rows_first: bool = False) -> Placement:
    """Return the place of the elements of ``array`` in their block.

    ``rows_first``: they are shown in C order, even if they lie columns first.  Raises ``InvalidArrayError`` if the
    description of the array is wrong or its block cannot be decoded, ``DamagedBlockError``.
    """
    number = block_of(len(file.table), array)
    obstacle = file.contents.obstacle(number)
    if obstacle:
        raise InvalidArrayError(obstacle)
    return place_in(array, number, file.contents.size(number), rows_first=rows_first)


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

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        """Write ``payload`` within the array.  Raises ``NotPermittedError``, or as ``Block.write_at``."""
        raise NotPermittedError("the elements of this array have no single place; write its block or edit the tree")


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


def elements_of(file: FileState, branch: Branch, *, rows_first: bool = False) -> Elements:
    """Return the elements of the ndarray at ``branch``, by the table above.

    ``rows_first``: they are shown in C order, even if they lie columns first.  Raises ``InvalidArrayError`` if the
    array cannot be shown, another ``AsdffsError``, or ``OSError``.
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
    """Return the subjects, besides the tree, whose changes may change the elements of an array."""
    array = branch.array
    if array is None or branch.inline is not None or not isinstance(array.source, int):
        return ()
    if array.source >= 0:
        return (content(array.source),)
    return (content(array.source + len(file.table)), BLOCKS)
