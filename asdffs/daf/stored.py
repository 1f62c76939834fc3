"""What a file of a store holds, when it is an ndarray of a tree.

| the ndarray                                               | its file                                              |
|-----------------------------------------------------------|-------------------------------------------------------|
| little-endian, columns first (or one axis), in a block    | a window on the block: extents, and writes in place   |
| of another order of axes or bytes, strided                | computed where it is read                             |
| inline, or in another file                                | computed, or read there                               |

The caller holds the main lock.
"""

from __future__ import annotations

from asdffs.daf.eltypes import Eltype
from asdffs.document.arrays.array import Array
from asdffs.document.arrays.elements import BlockElements, Elements
from asdffs.document.document import Document
from asdffs.errors import InvalidArrayError, InvalidStoreError, StaleFileError
from asdffs.storage.backend import Extent, read_bytes
from asdffs.tree.events import Path
from asdffs.tree.ndarrays import Ndarray
from asdffs.tree.placement import array_errors, packed


class Stored:
    """The elements of one ndarray, as the file of a store has them."""

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
        """The number of the block in which these bytes are as they are, and the offset there; None without one."""
        elements = self._elements
        if self._swapped or self.stale or not isinstance(elements, BlockElements) or not elements.writable:
            return None
        return elements.placement.number, elements.placement.offset

    @property
    def stale(self) -> bool:
        """Whether they are in a file that was read again since: its blocks may be others."""
        return self._generation != self._document.generation

    @property
    def block(self) -> int | None:
        """The number of the block that has them."""
        known = isinstance(self._elements, BlockElements) and not self.stale
        return self._elements.placement.number if known and isinstance(self._elements, BlockElements) else None

    def is_same(self, other: Stored) -> bool:
        """Whether these are the same bytes of the same place."""
        ours, theirs = self._elements, other._elements
        if isinstance(ours, BlockElements) and isinstance(theirs, BlockElements):
            return ours.placement == theirs.placement and self._swapped == other._swapped
        return isinstance(ours, _Raw) and isinstance(theirs, _Raw) and ours.raw == theirs.raw

    def buffer(self) -> memoryview:
        """All of them, read-only; of a window a map, without a copy.  Raises ``AsdffsError``, ``OSError``."""
        if self.window is None:
            return memoryview(read_bytes(self.read(0, self.size)))
        number, offset = self.window
        return self._document.blocks[number].buffer()[offset : offset + self.size]

    def read(self, offset: int, length: int) -> bytes | Extent:
        """Bytes, fewer at the end.  Raises ``StaleFileError``, ``AsdffsError``, ``OSError``."""
        if self.stale:
            raise StaleFileError("another program changed the ASDF file, in which these bytes were")
        if not self._swapped:
            return self._elements.read(offset, length)
        size = self._eltype.size
        start, stop = offset // size * size, -(-(offset + length) // size) * size
        raw = _swapped(read_bytes(self._elements.read(start, stop - start)), size)
        return raw[offset - start : offset - start + length]


def stored_content(document: Document, path: Path, array: Ndarray, eltype: Eltype, axes: int) -> Stored:
    """What the file of ``array``, at ``path`` of the tree, holds; it is to have ``axes`` axes.

    Raises ``InvalidStoreError`` when it cannot be a file, ``InvalidArrayError``, ``AsdffsError``, ``OSError``.
    """
    with array_errors(array.line):
        if array.source is None or isinstance(array.source, str):
            return _made(document, path, array, eltype, axes)
        _check_axes(array.shape_in(0), axes)
        elements = BlockElements(document, _columns_first(array, eltype), rows_first=True)
    return Stored(document, elements, eltype, swapped=eltype.size > 1 and array.byteorder == "big")


def _check_axes(shape: tuple[int, ...] | None, axes: int) -> None:
    if shape is None or len(shape) != axes:
        raise InvalidStoreError(f"an array of {axes} axes is expected, and its shape is {list(shape or ())}")


def _columns_first(array: Ndarray, eltype: Eltype) -> Ndarray:
    """The same elements with the axes the other way round: rows first, these are columns first."""
    shape = array.shape or ()
    strides = array.strides if array.strides is not None else packed(shape, eltype.size)
    return array._replace(shape=shape[::-1], strides=strides[::-1])


def _made(document: Document, path: Path, array: Ndarray, eltype: Eltype, axes: int) -> Stored:
    """Of an array that is inline or in another file: what numpy makes of it."""
    import numpy as np

    elements = Array(document, document.linked_files.finder(document, path)).elements()
    if 0 not in elements.shape:  # what is written of an empty one need not say how many axes it has
        _check_axes(elements.shape, axes)
    raw = read_bytes(elements.read(0, elements.size))
    dtype = np.dtype(elements.descr)
    if dtype.newbyteorder("<") != np.dtype(eltype.descr):
        raise InvalidArrayError(f"its elements are {elements.descr}")
    found = np.frombuffer(raw, dtype).reshape(elements.shape, order="F" if elements.fortran else "C")
    shape = array.shape if array.shape is not None and 0 in array.shape else elements.shape
    made = _Raw(found.astype(eltype.descr).tobytes(order="F"), shape)
    return Stored(document, made, eltype, swapped=False)


class _Raw(Elements):
    """Bytes that are there."""

    def __init__(self, raw: bytes, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.raw = raw
        self.size = len(raw)

    def read(self, offset: int, length: int) -> bytes:
        """See ``Elements``."""
        return self.raw[offset : offset + length]


def _swapped(raw: bytes, size: int) -> bytes:
    """Each element of ``size`` bytes the other way round."""
    import numpy as np

    return np.frombuffer(raw, f">u{size}").astype(f"<u{size}").tobytes()
