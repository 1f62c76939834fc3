"""Parses the ndarrays of a tree: the place of each in the tree, its block, and its bytes there.

Implements ``source``, ``shape``, ``datatype``, ``offset`` and ``strides`` of section Tree in-depth and the schema
core/ndarray, as far as sizes are concerned.  Pure functions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from asdffs.arrays.chunked import Chunked, described, is_chunked, parse_chunked
from asdffs.dialects.base import Dialect
from asdffs.errors import InvalidArrayError
from asdffs.tree.paths import Path
from asdffs.tree.tagged import Found

_ITEM_SIZES = {
    **{f"{kind}int{bits}": bits // 8 for kind in ("", "u") for bits in (8, 16, 32, 64)},
    "float16": 2,
    "float32": 4,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
    "bool8": 1,
}
_STATED = ("offset", "strides", "shape")
#: Offsets and sizes of blocks have 64 bits; larger numbers are not valid.
_LARGEST = 1 << 63


class Ndarray(NamedTuple):
    """One ndarray of the tree.

    * ``source``: block number (negative: from the last), URI, or None for inline data
    * ``shape``: lengths; None if the first is ``*`` or the shape is not valid
    * ``row``: the lengths after ``*``; None without ``*``
    * ``offset``, ``strides``: in bytes, in the block
    * ``line``: from 1
    * ``odd``: an invalid offset, strides or shape as text (``offset is -1``), else empty
    * ``inline``: whether its values are in the tree
    * ``chunked``: the description of an array of asdf-zarr, which has no ``source``; otherwise None
    """

    path: Path
    source: int | str | None
    shape: tuple[int, ...] | None
    datatype: Any
    byteorder: str | None
    offset: int
    strides: tuple[int, ...] | None
    line: int
    row: tuple[int, ...] | None = None
    odd: str = ""
    inline: bool = False
    chunked: Chunked | None = None

    def shape_in(self, size: int) -> tuple[int, ...] | None:
        """Return the shape in a block of ``size`` bytes; ``*`` is as many rows as fit.  None if it is not known."""
        if self.row is None:
            return self.shape
        item = item_size(self.datatype)
        length = item * math.prod(self.row) if item else 0
        if self.strides:
            length = self.strides[0]
        return (max(0, size - self.offset) // length, *self.row) if length > 0 else None

    def block_in(self, count: int) -> int | None:
        """Return the block number in a file of ``count`` blocks; None if the source is not one of them.

        A negative source counts from the end.
        """
        if not isinstance(self.source, int) or not -count <= self.source < count:
            return None
        return self.source % count

    @property
    def name(self) -> str:
        """The path for messages, such as ``roman/data``."""
        return "/".join(map(str, self.path))


def item_size(datatype: Any) -> int | None:
    """Return the bytes of one element of ``datatype`` (a name, ``[ascii|ucs4, n]``, or a record); None if unknown."""
    if isinstance(datatype, str):
        return _ITEM_SIZES.get(datatype)
    if isinstance(datatype, list) and len(datatype) == 2 and datatype[0] in ("ascii", "ucs4"):
        return datatype[1] * (1 if datatype[0] == "ascii" else 4) if _is_length(datatype[1]) else None
    if isinstance(datatype, list) and datatype:
        sizes = [_field_size(field) for field in datatype]
        return None if None in sizes else sum(size or 0 for size in sizes)
    return None


def _field_size(field: Any) -> int | None:
    if not isinstance(field, dict):
        return item_size(field)
    size = item_size(field.get("datatype"))
    shape = _integers(field.get("shape", []))
    return size * math.prod(shape) if size is not None and shape is not None else None


def float_orders(array: Ndarray) -> list[str | None]:
    """Return the byteorders of the floats in an array: its own, or those of the fields of a record."""
    return list(_float_orders(array.datatype, array.byteorder))


def _float_orders(datatype: Any, order: str | None) -> Iterator[str | None]:
    if datatype in ("float32", "float64"):
        yield order
    for field in datatype if isinstance(datatype, list) else ():
        if isinstance(field, dict):
            yield from _float_orders(field.get("datatype"), field.get("byteorder") or order)
        elif isinstance(field, str):
            yield from _float_orders(field, order)


def ndarray_of(found: Found, dialect: Dialect) -> Ndarray:
    """Return the ndarray that a mapping describes; invalid parts are None or defaults, see ``odd``."""
    value = dialect.ndarray(found.value) if isinstance(found.value, dict) else {}
    source = value.get("source")
    offset = value.get("offset", 0)
    return Ndarray(
        path=found.path,
        source=source if isinstance(source, (int, str)) else None,
        shape=_integers(value.get("shape")),
        datatype=value.get("datatype"),
        byteorder=value.get("byteorder"),
        offset=offset if _is_length(offset) else 0,
        strides=_integers(value.get("strides")),
        line=found.line,
        row=_row(value.get("shape")),
        inline="data" in value or not isinstance(found.value, dict),
        odd=next(
            (f"{name} is {value[name]!r}"[:80] for name in _STATED if name in value and not _is_right(name, value)),
            "",
        ),
    )


def chunked_of(found: Found) -> Ndarray | None:
    """Return the array of asdf-zarr that a mapping describes; None if it is none, or has no chunks in the file."""
    if not is_chunked(found.tag) or not isinstance(found.value, dict):
        return None
    try:
        chunked = parse_chunked(found.value)
    except InvalidArrayError:
        return None
    datatype, byteorder = described(chunked)
    return Ndarray(found.path, None, chunked.shape, datatype, byteorder, 0, None, found.line, chunked=chunked)


def _is_right(name: str, value: dict[str, Any]) -> bool:
    stated = value[name]
    if name == "offset":
        return _is_length(stated) and stated >= 0
    return _integers(stated) is not None or (name == "shape" and _row(stated) is not None)


def _row(shape: Any) -> tuple[int, ...] | None:
    """Return the lengths after ``*`` (schema core/ndarray: only the first length may be ``*``)."""
    return _integers(shape[1:]) if isinstance(shape, list) and shape[:1] == ["*"] else None


def _integers(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, Sequence) and not isinstance(value, str) and all(_is_length(n) for n in value):
        return tuple(value)
    return None


def _is_length(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST
