"""Reads and writes the elements of an array as bytes, in the order in which an ``.npy`` file has them.

| the array is                                             | its elements                                           |
|----------------------------------------------------------|--------------------------------------------------------|
| contiguous, rows first or columns first, in a block      | a window on the decoded block: extents, and writes     |
| strided in a block (views, slices, negative strides)     | gathered when they are read; read-only                 |
| in the tree (inline data, a mask by value)               | made by numpy once per array; read-only                |
| in another file, by a URI as source                      | read as those of an array there; read-only             |
| in the FITS file that the ASDF file is inside of         | ``contained``                                          |
| in chunks in blocks (asdf-zarr)                          | ``chunks``                                             |

Implements the schema core/ndarray: source, shape, strides, offset, datatype, data, mask.  The block of an array is
looked up at each use, because blocks change.  numpy is imported only where elements are computed.
"""

from __future__ import annotations

from typing import Final

from asdffs.arrays.branch import Branch
from asdffs.arrays.datatypes import descr_of
from asdffs.arrays.inline import inline_array
from asdffs.arrays.ndarrays import Ndarray
from asdffs.arrays.placement import Placement, block_of, place_in
from asdffs.document.arrays.base_elements import Elements, MadeElements
from asdffs.document.arrays.chunks import ChunkedElements
from asdffs.document.arrays.contained import contained_elements
from asdffs.document.arrays.gathering import gather
from asdffs.document.changes import BLOCKS, CONTENTS, Subject, content
from asdffs.document.state import FileState
from asdffs.errors import InvalidArrayError, NotPermittedError
from asdffs.storage.backend import Extent, read_bytes

#: A larger element, in bytes, is not gathered as a whole.
_LARGE_ITEM: Final = 1 << 12


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


def elements_of(file: FileState, branch: Branch, *, rows_first: bool = False) -> Elements:
    """Return the elements of the ndarray at ``branch``, by the table above.

    ``rows_first``: they are shown in C order, even if they lie columns first.  Raises ``InvalidArrayError`` if the
    array cannot be shown, another ``AsdffsError``, or ``OSError``.
    """
    array = branch.array
    if array is not None and array.chunked is not None:
        return ChunkedElements(file, array.chunked)
    if branch.inline is not None or array is None:
        outline = file.outlines.outline()
        with file.scheduler.waiting():
            return MadeElements(inline_array(outline, branch, file.budget))
    region = file.region(array.source)
    if region is not None:
        return contained_elements(file, array, region)
    if isinstance(array.source, str):
        return OtherElements(file.linked_files.find(array.source, file), array, rows_first=rows_first)
    return BlockElements(file, array, rows_first=rows_first)


def subjects_of(file: FileState, branch: Branch) -> tuple[Subject, ...]:
    """Return the subjects, besides the tree, whose changes may change the elements of an array."""
    array = branch.array
    if array is not None and array.chunked is not None:
        return (CONTENTS, BLOCKS)
    if array is None or branch.inline is not None or not isinstance(array.source, int):
        return ()
    if array.source >= 0:
        return (content(array.source),)
    return (content(array.source + len(file.table)), BLOCKS)
