"""The content of a store's file that is an ndarray in the tree.

| the ndarray                                               | its file                                              |
|-----------------------------------------------------------|-------------------------------------------------------|
| little-endian, columns first (or one axis), in a block    | a window on the block: extents, and writes in place   |
| other order of axes or bytes, strided                     | computed on each read                                 |
| inline, or in another file                                | read or computed once, kept in memory                 |

The caller holds the main lock.
"""

from __future__ import annotations

from asdffs.arrays.ndarrays import Ndarray
from asdffs.arrays.placement import array_errors, packed
from asdffs.document.arrays.array import Array
from asdffs.document.arrays.base_elements import Elements
from asdffs.document.arrays.elements import BlockElements
from asdffs.document.document import Document
from asdffs.errors import InvalidArrayError, InvalidStoreError, StaleFileError
from asdffs.features.daf.eltypes import Eltype
from asdffs.storage.backend import Extent, read_bytes
from asdffs.tree.paths import Path


class Stored:
    """The elements of one ndarray in the layout of a store's file: little-endian, columns first."""

    def __init__(self, document: Document, elements: Elements, eltype: Eltype, *, swapped: bool) -> None:
        self._document = document
        self._generation = document.generation
        self._elements = elements
        self._eltype = eltype
        self._swapped = swapped
        self.size = elements.size
        self.shape = elements.shape[::-1] if isinstance(elements, BlockElements) else elements.shape

    @property
    def window(self) -> tuple[int, int] | None:
        """The number of the block in which these bytes lie unchanged, and their offset there; None without one."""
        elements = self._elements
        if self._swapped or self.stale or not isinstance(elements, BlockElements) or not elements.writable:
            return None
        return elements.placement.number, elements.placement.offset

    @property
    def stale(self) -> bool:
        """Whether the ASDF file was read again since, so that block numbers may mean other blocks."""
        return self._generation != self._document.generation

    @property
    def block(self) -> int | None:
        """The number of the block that has the elements, in any layout; None without one."""
        known = isinstance(self._elements, BlockElements) and not self.stale
        return self._elements.placement.number if known and isinstance(self._elements, BlockElements) else None

    def is_same(self, other: Stored) -> bool:
        """Return whether both are the same bytes in the same place."""
        ours, theirs = self._elements, other._elements
        if isinstance(ours, BlockElements) and isinstance(theirs, BlockElements):
            return ours.placement == theirs.placement and self._swapped == other._swapped
        return isinstance(ours, _Raw) and isinstance(theirs, _Raw) and ours.raw == theirs.raw

    def buffer(self) -> memoryview:
        """Return all bytes, read-only; for a window this is an mmap without a copy.

        Raises ``AsdffsError``, ``OSError``.
        """
        if self.window is None:
            return memoryview(read_bytes(self.read(0, self.size)))
        number, offset = self.window
        return self._document.blocks[number].buffer()[offset : offset + self.size]

    def read(self, offset: int, length: int) -> bytes | Extent:
        """Return bytes (fewer at the end), or an extent.  Raises ``StaleFileError``, ``AsdffsError``, ``OSError``."""
        if self.stale:
            raise StaleFileError("another program changed the ASDF file that had these bytes; open the file again")
        if not self._swapped:
            return self._elements.read(offset, length)
        size = self._eltype.size
        start, stop = offset // size * size, -(-(offset + length) // size) * size
        raw = _swapped(read_bytes(self._elements.read(start, stop - start)), size)
        return raw[offset - start : offset - start + length]


def stored_content(document: Document, path: Path, array: Ndarray, eltype: Eltype, axes: int) -> Stored:
    """Return the content of the file of ``array``, which is at ``path`` in the tree and must have ``axes`` axes.

    Raises ``InvalidStoreError`` for another number of axes, ``InvalidArrayError``, ``AsdffsError``, ``OSError``.
    """
    with array_errors(array.line):
        if array.source is None or isinstance(array.source, str):
            return _made(document, path, array, eltype, axes)
        _check_axes(array.shape_in(0), axes)
        elements = BlockElements(document, _columns_first(array, eltype), rows_first=True)
    return Stored(document, elements, eltype, swapped=eltype.size > 1 and array.byteorder == "big")


def _check_axes(shape: tuple[int, ...] | None, axes: int) -> None:
    if shape is None or len(shape) != axes:
        raise InvalidStoreError(f"an array of {axes} axes is expected, but its shape is {list(shape or ())}")


def _columns_first(array: Ndarray, eltype: Eltype) -> Ndarray:
    """Return the array with its axes reversed: read rows first, it gives the elements columns first."""
    shape = array.shape or ()
    strides = array.strides if array.strides is not None else packed(shape, eltype.size)
    return array._replace(shape=shape[::-1], strides=strides[::-1])


def _made(document: Document, path: Path, array: Ndarray, eltype: Eltype, axes: int) -> Stored:
    """Return the content of an array that is inline or in another file, converted by numpy."""
    import numpy as np

    elements = Array(document, document.linked_files.finder(document, path)).elements()
    if 0 not in elements.shape:  # inline data without elements need not show all axes
        _check_axes(elements.shape, axes)
    raw = read_bytes(elements.read(0, elements.size))
    dtype = np.dtype(elements.descr)
    if dtype.newbyteorder("<") != np.dtype(eltype.descr):
        raise InvalidArrayError(f"its elements are {elements.descr}, which is not its datatype")
    found = np.frombuffer(raw, dtype).reshape(elements.shape, order="F" if elements.fortran else "C")
    shape = array.shape if array.shape is not None and 0 in array.shape else elements.shape
    made = _Raw(found.astype(eltype.descr).tobytes(order="F"), shape)
    return Stored(document, made, eltype, swapped=False)


class _Raw(Elements):
    """Elements in memory."""

    def __init__(self, raw: bytes, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.raw = raw
        self.size = len(raw)

    def read(self, offset: int, length: int) -> bytes:
        """See ``Elements``."""
        return self.raw[offset : offset + length]


def _swapped(raw: bytes, size: int) -> bytes:
    """Return the bytes with the byte order of each element of ``size`` bytes reversed."""
    import numpy as np

    return np.frombuffer(raw, f">u{size}").astype(f"<u{size}").tobytes()
