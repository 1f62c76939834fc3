"""Makes the files of one property of the tree: its rendered descriptor, and its payloads.

Numbers are read from their ndarray in any form: a block of its own, or as other programs write it (compressed,
inline, rows first, big-endian).  All methods raise ``InvalidStoreError`` for a node that FilesDaf cannot represent,
``AsdffsError``, ``OSError``.  The caller holds the main lock.
"""

from __future__ import annotations

from typing import Final

from asdffs.arrays.ndarrays import Ndarray, ndarray_of
from asdffs.document.document import Document
from asdffs.errors import InvalidStoreError
from asdffs.features.daf.descriptors import (
    DafScalar,
    Descriptor,
    Number,
    Version,
    build_descriptor,
    build_scalar,
    parse_scalar,
)
from asdffs.features.daf.eltypes import ELTYPES, STRING, Eltype, eltype_of, eltype_of_datatype
from asdffs.features.daf.entries import child_of, items_of, plain, text_of, value_of
from asdffs.features.daf.files import Bytes, Content
from asdffs.features.daf.lines import build_lines
from asdffs.features.daf.places import DAF, JSON, Key
from asdffs.features.daf.stored import Stored, stored_content
from asdffs.tree.tagged import Found
from asdffs.tree.values import ValueNode

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
            value = Number(value)
        raw = build_scalar(DafScalar(eltype, value))
        parse_scalar(raw)
        return {key.path(JSON): Bytes(raw)}

    def axis(self, key: Key, node: ValueNode) -> dict[str, Content]:
        """Return the file of an axis."""
        return {key.path("txt"): self._lines(node, ("axes", key.name))}

    def array(self, key: Key, node: ValueNode) -> dict[str, Content]:
        """Return the files of a vector or matrix, by path."""
        path = ("vectors" if key.kind == "vector" else "matrices", *key.axes, key.name)
        if self._document.dialect.is_ndarray(node.tag):
            content, eltype = self._numbers(node, path, len(key.axes))
            self.shapes[key] = content.shape
            return {key.path(JSON): self._descriptor(Descriptor("dense", eltype), {}), key.path("data"): content}
        if value_of(node, "format") == "sparse":
            return self._sparse(key, node, path)
        text = self._lines(node, path)
        return {key.path(JSON): self._descriptor(Descriptor("dense", ELTYPES[STRING]), {}), key.path("txt"): text}

    def _sparse(self, key: Key, node: ValueNode, path: tuple[str, ...]) -> dict[str, Content]:
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
                content, found = self._numbers(child, (*path, part), 1)
                if part == "nzval" and found != eltype:
                    raise InvalidStoreError(f"its eltype is {eltype.name}, but the type of its nzval is {found.name}")
                contents[key.path(part)], counts[part] = content, content.size // found.size
                indtype = indtype if part == "nzval" else found
        text = child_of(node, "nztxt")
        if text is not None:
            contents[key.path("nztxt")] = self._lines(text, (*path, "nztxt"))
            counts["nzval"] = counts[indices[-1]]
        shape = [item.value for item in items_of(child_of(node, "shape"))]
        if all(isinstance(length, int) for length in shape) and shape:
            self.shapes[key] = tuple(shape)
        self.counts[key.path(JSON)] = counts
        return {key.path(JSON): self._descriptor(Descriptor("sparse", eltype, indtype), counts), **contents}

    def _descriptor(self, descriptor: Descriptor, counts: dict[str, int]) -> Bytes:
        return Bytes(build_descriptor(descriptor, self.version, counts=counts))

    def _numbers(self, node: ValueNode, path: tuple[str, ...], axes: int) -> tuple[Stored, Eltype]:
        """Return the elements of an ndarray, columns first, and their type."""
        if not self._document.dialect.is_ndarray(node.tag):
            raise InvalidStoreError(f"{path[-1]} must be an ndarray")
        array = self._ndarray(node, path)
        eltype = eltype_of_datatype(array.datatype)
        if eltype is None:
            raise InvalidStoreError(f"FilesDaf has no elements of the datatype {str(array.datatype)[:60]}")
        return stored_content(self._document, (DAF, *path), array, eltype, axes), eltype

    def _ndarray(self, node: ValueNode, path: tuple[str, ...]) -> Ndarray:
        return ndarray_of(Found((DAF, *path), node.tag, plain(node), node.line), self._document.dialect)

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

    def _raw(self, node: ValueNode, path: tuple[str, ...]) -> Stored:
        content, eltype = self._numbers(node, path, 1)
        if eltype.size != 1:
            raise InvalidStoreError(f"{path[-1]} must be an array of bytes")
        return content

    def kept(self, node: ValueNode, path: tuple[str, ...]) -> Content:
        """Return a file that is kept as a file; its node is at ``path`` below ``daf``."""
        if self._document.dialect.is_ndarray(node.tag):
            return self._raw(node, path)
        return Bytes(text_of(node).encode())
