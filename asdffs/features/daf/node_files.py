"""Makes the files of the properties of a tree: rendered descriptors, and contents in the layout of a store.

Numbers are read from their ndarray in any form: a block of its own, or as other programs write it (compressed,
inline, rows first, big-endian).

| the ndarray                                               | its file                                              |
|-----------------------------------------------------------|-------------------------------------------------------|
| little-endian, columns first (or one axis), in a block    | a window on the block: extents, and writes in place   |
| other order of axes or bytes, strided                     | computed on each read                                 |
| inline, or in another file                                | read or computed once, kept in memory                 |

The caller holds the main lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from asdffs.arrays.ndarrays import Ndarray, ndarray_of
from asdffs.arrays.placement import array_errors, packed
from asdffs.document.arrays.array import Array
from asdffs.document.arrays.elements import BlockElements
from asdffs.document.document import Document
from asdffs.errors import InvalidArrayError, InvalidStoreError, StaleFileError
from asdffs.features.daf.files import Bytes, Content, build_lines
from asdffs.features.daf.format import (
    DAF,
    ELTYPES,
    JSON,
    STRING,
    DafScalar,
    Descriptor,
    Eltype,
    Key,
    Number,
    Version,
    build_descriptor,
    build_scalar,
    eltype_of,
    eltype_of_datatype,
    parse_scalar,
)
from asdffs.storage.backend import Extent, read_bytes
from asdffs.tree.paths import Path
from asdffs.tree.tagged import Found
from asdffs.tree.values import ValueNode


class Numbers(NamedTuple):
    """The content of a file that is an ndarray in the tree.  ``shape``: of the array."""

    content: Content
    eltype: Eltype
    shape: tuple[int, ...]


class Stored:
    """The elements of one ndarray in a block, in the layout of a store's file: little-endian, columns first."""

    def __init__(self, document: Document, elements: BlockElements, eltype: Eltype, *, swapped: bool) -> None:
        self._document = document
        self._generation = document.generation
        self._elements = elements
        self._eltype = eltype
        self._swapped = swapped
        self.size = elements.size

    @property
    def window(self) -> tuple[int, int] | None:
        """The number of the block in which these bytes lie unchanged, and their offset there; None without one."""
        if self._swapped or self.stale or not self._elements.writable:
            return None
        return self._elements.placement.number, self._elements.placement.offset

    @property
    def stale(self) -> bool:
        """Whether the ASDF file was read again since, so that block numbers may mean other blocks."""
        return self._generation != self._document.generation

    @property
    def block(self) -> int | None:
        """The number of the block that has the elements, in any layout; None if it is not known any more."""
        return None if self.stale else self._elements.placement.number

    def is_same(self, other: Stored) -> bool:
        """Return whether both are the same bytes in the same place."""
        return self._elements.placement == other._elements.placement and self._swapped == other._swapped

    def buffer(self) -> memoryview:
        """See ``Mapped``; for a window this is an mmap without a copy."""
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


def _numbers_of(document: Document, path: Path, array: Ndarray, eltype: Eltype, axes: int) -> Numbers:
    """Return the numbers of ``array``, which is at ``path`` in the tree and must have ``axes`` axes.

    Raises ``InvalidStoreError`` for another number of axes, ``InvalidArrayError``, ``AsdffsError``, ``OSError``.
    """
    with array_errors(array.line):
        if array.source is None or isinstance(array.source, str):
            return _converted(document, path, array, eltype, axes)
        _check_axes(array.shape_in(0), axes)
        elements = BlockElements(document, _columns_first(array, eltype), rows_first=True)
    stored = Stored(document, elements, eltype, swapped=eltype.size > 1 and array.byteorder == "big")
    return Numbers(stored, eltype, elements.shape[::-1])


def _check_axes(shape: tuple[int, ...] | None, axes: int) -> None:
    if shape is None or len(shape) != axes:
        raise InvalidStoreError(f"an array of {axes} axes is expected, but its shape is {list(shape or ())}")


def _columns_first(array: Ndarray, eltype: Eltype) -> Ndarray:
    """Return the array with its axes reversed: read rows first, it gives the elements columns first."""
    shape = array.shape or ()
    strides = array.strides if array.strides is not None else packed(shape, eltype.size)
    return array._replace(shape=shape[::-1], strides=strides[::-1])


def _converted(document: Document, path: Path, array: Ndarray, eltype: Eltype, axes: int) -> Numbers:
    """Return the numbers of an array that is inline or in another file, converted by numpy."""
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
    return Numbers(Bytes(found.astype(eltype.descr).tobytes(order="F")), eltype, shape)


def _swapped(raw: bytes, size: int) -> bytes:
    """Return the bytes with the byte order of each element of ``size`` bytes reversed."""
    import numpy as np

    return np.frombuffer(raw, f">u{size}").astype(f"<u{size}").tobytes()


# -- nodes of the tree; one of an unexpected type gives nothing where the reader can go on without it --

#: The deepest nesting, and the longest list, in the description of an ndarray.
_DEEPEST: Final = 3
_MOST: Final = 64


def child_of(node: ValueNode | None, name: str) -> ValueNode | None:
    """Return the node at a key of a mapping; None if there is none."""
    if node is None or not isinstance(node.value, dict):
        return None
    found: ValueNode | None = node.value.get(name)
    return found


def entries_of(node: ValueNode | None) -> Iterator[tuple[str, ValueNode]]:
    """Yield the entries of a mapping, nothing for another node."""
    if node is not None and isinstance(node.value, dict):
        yield from node.value.items()


def items_of(node: ValueNode | None) -> list[ValueNode]:
    """Return the items of a list, an empty list for another node."""
    return node.value if node is not None and isinstance(node.value, list) else []


def value_of(node: ValueNode | None, name: str) -> Any:
    """Return the value at a key of a mapping; None if there is none."""
    child = child_of(node, name)
    return None if child is None else child.value


def text_of(node: ValueNode) -> str:
    """Return the text of a scalar, even if YAML reads it as another type than a string.

    Raises ``InvalidStoreError`` for a mapping, a list or null.
    """
    if isinstance(node.value, (dict, list)) or node.value is None:
        raise InvalidStoreError("a string is expected")
    return node.text


def plain(node: ValueNode, depth: int = 0) -> Any:
    """Convert the description of an ndarray to dicts, lists and scalars; the value of ``data`` becomes None.

    Raises ``InvalidStoreError`` if it is nested too deeply or a list is too long.
    """
    if depth > _DEEPEST:
        raise InvalidStoreError("an ndarray is nested too deeply")
    if isinstance(node.value, dict):
        return {name: None if name == "data" else plain(child, depth + 1) for name, child in node.value.items()}
    if isinstance(node.value, list):
        if len(node.value) > _MOST:
            raise InvalidStoreError("an ndarray has too many axes")
        return [plain(child, depth + 1) for child in node.value]
    return node.value


def line_of(node: ValueNode) -> str:
    """Return the line of a node as part of a sentence, empty if it is not known."""
    return f", line {node.line}" if node.line else ""


# -- the files of a property --

#: JSON's names of the numbers that Python writes differently.
_CONSTANTS: Final = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}


class NodeFiles:
    """Reads properties of ``document``.  ``version``: of the store, which decides how descriptors are rendered.

    ``shapes``: shape of each array that was read.  ``counts``: numbers of elements of the parts of each sparse array,
    by the path of its descriptor.
    """

    def __init__(self, document: Document) -> None:
        self.version: Version = (1, 0)
        self.shapes: dict[Key, tuple[int, ...]] = {}
        self.counts: dict[str, dict[str, int]] = {}
        self._document = document

    def scalar(self, key: Key, node: ValueNode) -> dict[str, Content]:
        """Return the file of a scalar."""
        eltype, value = eltype_of(value_of(node, "type")), value_of(node, "value")
        if eltype is None:
            raise InvalidStoreError("a scalar must be {type: T, value: V}")
        if eltype.name == STRING:
            value = text_of(child_of(node, "value") or node)
        elif isinstance(value, float):
            value = Number(_CONSTANTS.get(str(value), repr(value)))
        elif not isinstance(value, bool):
            value = Number(f"{value}.0" if isinstance(value, int) and eltype.descr[1] == "f" else value)
        raw = build_scalar(DafScalar(eltype, value))
        parse_scalar(raw)
        return {key.path(JSON): Bytes(raw)}

    def axis(self, key: Key, node: ValueNode) -> dict[str, Content]:
        """Return the file of an axis."""
        return {key.path("txt"): self._lines(node, key.keys)}

    def array(self, key: Key, node: ValueNode) -> dict[str, Content]:
        """Return the files of a vector or matrix, by path."""
        if self._document.dialect.is_ndarray(node.tag):
            content, eltype, self.shapes[key] = self._numbers(node, key.keys, len(key.axes))
            return {key.path(JSON): self._descriptor(Descriptor("dense", eltype), {}), key.path("data"): content}
        if value_of(node, "format") == "sparse":
            return self._sparse(key, node)
        text = self._lines(node, key.keys)
        return {key.path(JSON): self._descriptor(Descriptor("dense", ELTYPES[STRING]), {}), key.path("txt"): text}

    def _sparse(self, key: Key, node: ValueNode) -> dict[str, Content]:
        eltype = eltype_of(value_of(node, "eltype"))
        indices = ("colptr", "rowval") if key.kind == "matrix" else ("nzind",)
        if eltype is None:
            raise InvalidStoreError("a sparse property needs an eltype")
        contents, counts, indtype = dict[str, Content](), dict[str, int](), None
        for part in (*indices, "nzval"):
            child = child_of(node, part)
            if child is None and part != "nzval":
                raise InvalidStoreError(f"a sparse property needs {part}")
            if child is not None:
                content, found, _ = self._numbers(child, (*key.keys, part), 1)
                if part == "nzval" and found != eltype:
                    raise InvalidStoreError(f"its eltype is {eltype.name}, but the type of its nzval is {found.name}")
                contents[key.path(part)], counts[part] = content, content.size // found.size
                indtype = indtype if part == "nzval" else found
        text = child_of(node, "nztxt")
        if text is not None:
            contents[key.path("nztxt")] = self._lines(text, (*key.keys, "nztxt"))
            counts["nzval"] = counts[indices[-1]]
        shape = [item.value for item in items_of(child_of(node, "shape"))]
        if all(isinstance(length, int) for length in shape) and shape:
            self.shapes[key] = tuple(shape)
        self.counts[key.path(JSON)] = counts
        return {key.path(JSON): self._descriptor(Descriptor("sparse", eltype, indtype), counts), **contents}

    def _descriptor(self, descriptor: Descriptor, counts: dict[str, int]) -> Bytes:
        return Bytes(build_descriptor(descriptor, self.version, counts=counts))

    def _numbers(self, node: ValueNode, path: tuple[str, ...], axes: int) -> Numbers:
        if not self._document.dialect.is_ndarray(node.tag):
            raise InvalidStoreError(f"{path[-1]} must be an ndarray")
        found = Found((DAF, *path), node.tag, plain(node), node.line)
        array = ndarray_of(found, self._document.dialect)
        eltype = eltype_of_datatype(array.datatype)
        if eltype is None:
            raise InvalidStoreError(f"FilesDaf has no elements of the datatype {str(array.datatype)[:60]}")
        return _numbers_of(self._document, (DAF, *path), array, eltype, axes)

    def _lines(self, node: ValueNode, path: tuple[str, ...]) -> Content:
        """Return the file of strings, which the tree has as a list or as the bytes of the file."""
        if value_of(node, "format") == "lines":
            child, key = child_of(node, "utf8"), "utf8"
            if child is None:
                child, key = child_of(node, "values"), "values"
            if child is None:
                raise InvalidStoreError("lines need utf8 or values")
            return self._lines(child, (*path, key))
        if self._document.dialect.is_ndarray(node.tag):
            return self._raw(node, path)
        if not isinstance(node.value, list):
            raise InvalidStoreError("strings must be a list, or {format: lines}")
        lines = [text_of(item) for item in node.value]
        if any("\n" in line for line in lines):
            raise InvalidStoreError("a string has a newline, which a file of lines cannot hold")
        return Bytes(build_lines(lines))

    def _raw(self, node: ValueNode, path: tuple[str, ...]) -> Content:
        content, eltype, _ = self._numbers(node, path, 1)
        if eltype.size != 1:
            raise InvalidStoreError(f"{path[-1]} must be an array of bytes")
        return content

    def kept(self, node: ValueNode, path: tuple[str, ...]) -> Content:
        """Return a file that is kept as a file; its node is at ``path`` below ``daf``."""
        if self._document.dialect.is_ndarray(node.tag):
            return self._raw(node, path)
        return Bytes(text_of(node).encode())
