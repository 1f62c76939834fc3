"""Parses the ndarrays of a tree: the place of each in the tree, its block, and its bytes there.

Implements ``source``, ``shape``, ``datatype``, ``offset`` and ``strides`` of section Tree in-depth and the schema
core/ndarray, as far as sizes are concerned.  Pure functions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from asdffs.arrays.chunked import (
    Chunked,
    Tiled,
    described,
    is_chunked,
    is_stacked,
    is_tiled,
    parse_chunked,
    starts_of,
)
from asdffs.arrays.datatypes import integers, is_length, item_size
from asdffs.dialects.base import Dialect
from asdffs.errors import InvalidArrayError
from asdffs.tree.paths import Path
from asdffs.tree.rules import check_tree
from asdffs.tree.tagged import Found, find_tagged
from asdffs.tree.tape import Tape

if TYPE_CHECKING:
    from asdffs.arrays.stacked import Stacked

_SKIP: Final = frozenset({"data"})
_STATED: Final = ("offset", "strides", "shape")


class Ndarray(NamedTuple):
    """One ndarray of the tree.

    * ``source``: block number (negative: from the last), URI, or None for inline data
    * ``shape``: lengths; None if the first is ``*`` or the shape is not valid
    * ``row``: the lengths after ``*``; None without ``*``
    * ``offset``, ``strides``: in bytes, in the block
    * ``line``: from 1
    * ``odd``: an invalid offset, strides or shape as text (``offset is -1``), else empty
    * ``inline``: whether its values are in the tree
    * ``pieces``: the description of an array in several pieces, which has no ``source``; otherwise None
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
    pieces: Chunked | Tiled | Stacked | None = None

    @property
    def in_files(self) -> bool:
        """True if its elements are in FITS files beside the ASDF file (``arrays/stacked``)."""
        return self.pieces is not None and not isinstance(self.pieces, (Chunked, Tiled))

    @property
    def has_records(self) -> bool:
        """True if its elements are records, each with fields."""
        kind = self.datatype
        return isinstance(kind, (list, tuple)) and bool(kind) and kind[0] not in ("ascii", "ucs4")

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


def ndarray_of(found: Found, dialect: Dialect) -> Ndarray:
    """Return the ndarray that a mapping describes; invalid parts are None or defaults, see ``odd``."""
    value = dialect.ndarray(found.value) if isinstance(found.value, dict) else {}
    source = value.get("source")
    offset = value.get("offset", 0)
    return Ndarray(
        path=found.path,
        source=source if isinstance(source, (int, str)) else None,
        shape=integers(value.get("shape")),
        datatype=value.get("datatype"),
        byteorder=value.get("byteorder"),
        offset=offset if is_length(offset) else 0,
        strides=integers(value.get("strides")),
        line=found.line,
        row=_row(value.get("shape")),
        inline="data" in value or not isinstance(found.value, dict),
        odd=next(
            (f"{name} is {value[name]!r}"[:80] for name in _STATED if name in value and not _is_right(name, value)),
            "",
        ),
    )


def is_in_pieces(tag: str) -> bool:
    """Return whether ``tag`` is that of an array in several pieces: of asdf-zarr, of tiles, or in FITS files."""
    return is_chunked(tag) or is_tiled(tag) or is_stacked(tag)


def gathered_of(found: Found) -> Ndarray | None:
    """Return the array of asdf-zarr, or in FITS files, that a mapping describes; None if it cannot be read so."""
    pieces: Chunked | Stacked
    try:
        if is_stacked(found.tag):
            from asdffs.arrays.stacked import parse_stacked  # few trees have such arrays

            pieces = parse_stacked(found.value)
            datatype, byteorder = pieces.datatype, pieces.byteorder
        else:
            pieces = parse_chunked(found.value)
            datatype, byteorder = described(pieces.dtype)
    except InvalidArrayError:
        return None
    return Ndarray(found.path, None, pieces.shape, datatype, byteorder, 0, None, found.line, pieces=pieces)


def tiled_of(found: Found) -> Ndarray:
    """Return the array of tiles that a mapping describes; ``odd`` says what is wrong with it."""
    odd, starts, value = "", tuple[tuple[int, ...], ...](), found.value
    try:
        starts = starts_of(value)
    except InvalidArrayError as err:
        odd = err.sentence
    shape = integers(value.get("shape"))
    return Ndarray(
        found.path, None, shape, value.get("datatype"), "little", 0, None, found.line, odd=odd, pieces=Tiled(starts)
    )


def _is_right(name: str, value: dict[str, Any]) -> bool:
    stated = value[name]
    if name == "offset":
        return is_length(stated) and stated >= 0
    return integers(stated) is not None or (name == "shape" and _row(stated) is not None)


def _row(shape: Any) -> tuple[int, ...] | None:
    """Return the lengths after ``*`` (schema core/ndarray: only the first length may be ``*``)."""
    return integers(shape[1:]) if isinstance(shape, list) and shape[:1] == ["*"] else None


def find_arrays(text: bytes, dialect: Dialect) -> tuple[Ndarray, ...]:
    """Return all ndarrays of the tree in ``text``, after a check of the whole tree (``check_tree``).

    Equal keys are not looked for.  Raises as ``Tape``.
    """
    tape = Tape(text)
    check_tree(tape, unique=False)
    return tuple(arrays_of(tape, dialect))


def arrays_of(tape: Tape, dialect: Dialect) -> Iterator[Ndarray]:
    """Yield all ndarrays of a tree, one at a time: there may be a million.  Raises ``InvalidTreeError``."""
    return (ndarray_of(found, dialect) for found in find_tagged(tape, dialect.is_ndarray, _SKIP))
