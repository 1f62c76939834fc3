"""Describes arrays in pieces.  Those of asdf-zarr are blocks, called chunks; those of ASDF.jl are ndarrays: tiles.

Of an array of asdf-zarr, the tree has the metadata of Zarr version 2 (``.zarray``) and the number of a block with a
table: an int32 for each chunk, rows first, with the number of the chunk's block, or -1 for a chunk that was never
written.

``core/chunked-ndarray`` of ASDF.jl and CHORD has ``shape``, ``datatype`` and ``chunks``: mappings with ``start``, the
place of an element in the array, and ``ndarray``, the elements from there on.

Arrays of DKIST, whose pieces are FITS files, are known by their tag here, and described by ``stacked``.  Pure
functions.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final, NamedTuple

from asdffs.errors import InvalidArrayError

#: Beginnings of the tags: those of asdf-zarr 0.0.4, and of versions before it was published.
TAGS: Final = ("asdf://asdf-format.org/zarr/tags/zarr-", "asdf://stsci.edu/asdf-zarr/tags/zarr-")
METADATA: Final = ".zarray"
TABLE: Final = "chunk_block_map"
#: Bytes of a number in the table.
ENTRY: Final = 4
#: Null, as a value or as the text of a plain scalar.
NULLS: Final = (None, "", "~", "null", "Null", "NULL")
_TILED: Final = re.compile(r".*[:/]core/chunked-ndarray-[\d.]+")
_TILE: Final = re.compile(r".*[:/]core/ndarray-chunk-[\d.]+")
_STACKED: Final = re.compile(
    r"(asdf://dkist\.nso\.edu/tags/file_manager|tag:dkist\.nso\.edu:dkist/array_container|.*[:/]core/externalarray)-[\d.]+"
)
#: The longest type string of numpy for a number or a text, in characters.
_LONGEST_DTYPE: Final = 12
_MOST_AXES: Final = 64
#: The largest number of elements.
LARGEST: Final = 1 << 62
_KINDS: Final = {"i": "int", "u": "uint", "f": "float", "c": "complex"}
_ORDERS: Final = {"<": "little", ">": "big"}


def is_chunked(tag: str) -> bool:
    """Return whether ``tag`` is the tag of an array of asdf-zarr."""
    return tag.startswith(TAGS)


def is_tiled(tag: str) -> bool:
    """Return whether ``tag`` is that of an array of tiles, as ASDF.jl writes them."""
    return _TILED.fullmatch(tag) is not None


def is_tile(tag: str) -> bool:
    """Return whether ``tag`` is that of a tile in such an array."""
    return _TILE.fullmatch(tag) is not None


def is_stacked(tag: str) -> bool:
    """Return whether ``tag`` is that of an array with its elements in FITS files."""
    return _STACKED.fullmatch(tag) is not None


class Chunked(NamedTuple):
    """The description of a chunked array.

    ``shape``, ``chunk``: lengths of the axes of the array and of a chunk.  ``dtype``: as in ``.zarray``, a numpy type
    string or a list of fields.  ``order``: ``C`` (rows first) or ``F``, in each chunk.  ``fill``: the value of
    elements that were never written, as in ``.zarray``.  ``compressor``, ``filters``: configurations as of numcodecs.
    ``table``: the number of the block with the table.
    """

    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    dtype: Any
    order: str
    fill: Any
    compressor: dict[str, Any] | None
    filters: tuple[dict[str, Any], ...]
    table: int

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of chunks along each axis."""
        return tuple(-(-length // step) for length, step in zip(self.shape, self.chunk, strict=True))

    def place(self, where: tuple[int, ...]) -> int:
        """Return the place of the chunk ``where`` in the table, counted in entries."""
        place = 0
        for index, count in zip(where, self.counts, strict=True):
            place = place * count + index
        return place


class Tiled(NamedTuple):
    """The description of an array of tiles.  ``starts``: the place of the first element of each tile in the array."""

    starts: tuple[tuple[int, ...], ...]


def parse_chunked(value: dict[str, Any]) -> Chunked:
    """Return the description in the mapping of the array.  Raises ``InvalidArrayError`` with the reason."""
    metadata, table = value.get(METADATA), value.get(TABLE)
    if not isinstance(metadata, dict) or not isinstance(table, int) or not is_count(table):
        raise InvalidArrayError("its chunks are in a store outside of this file, which asdffs does not read")
    if metadata.get("zarr_format", 2) != 2:
        raise InvalidArrayError(f"its Zarr version is {str(metadata['zarr_format'])[:20]}; asdffs reads version 2")
    shape, chunk = _lengths(metadata, "shape", 0), _lengths(metadata, "chunks", 1)
    if len(shape) != len(chunk) or len(shape) > _MOST_AXES:
        raise InvalidArrayError(f"it has {len(shape)} axes, and its chunks have {len(chunk)}")
    if max(math.prod(shape), math.prod(chunk)) > LARGEST:
        raise InvalidArrayError("its shape or that of its chunks is too large")
    order = metadata.get("order", "C")
    if order not in ("C", "F"):
        raise InvalidArrayError(f"its order is {str(order)[:20]!r}; it must be C or F")
    compressor, filters = (
        None if value in NULLS else value for value in map(metadata.get, ("compressor", "filters"))
    )
    filters = [] if filters is None else filters
    if not isinstance(filters, list) or not all(_is_codec(one) for one in (*filters, compressor or {"id": ""})):
        raise InvalidArrayError("its compressor or its filters have no id")
    return Chunked(
        shape, chunk, metadata.get("dtype"), order, metadata.get("fill_value"), compressor, tuple(filters), table
    )


def starts_of(value: dict[str, Any]) -> tuple[tuple[int, ...], ...]:
    """Return the place of each tile of an array of tiles.  Raises ``InvalidArrayError`` with the reason."""
    shape, tiles = value.get("shape"), value.get("chunks")
    if not isinstance(shape, list) or not all(map(is_count, shape)) or not isinstance(tiles, list):
        raise InvalidArrayError("its shape or its chunks are missing or not valid")
    starts = [tile.get("start") if isinstance(tile, dict) else None for tile in tiles]
    for number, start in enumerate(starts):
        if not isinstance(start, list) or len(start) != len(shape) or not all(map(is_count, start)):
            raise InvalidArrayError(f"its chunk {number} has no start with {len(shape)} numbers")
    return tuple(map(tuple, starts))  # type: ignore[arg-type]


def described(dtype: Any) -> tuple[Any, str | None]:
    """Return the datatype of the schema core/ndarray and the byteorder of elements; None for other types."""
    if isinstance(dtype, list):
        return _record(dtype), "big"
    if not isinstance(dtype, str) or len(dtype) > _LONGEST_DTYPE or not dtype[2:].isdecimal():
        return None, None
    order, kind, size = _ORDERS.get(dtype[0], "big"), dtype[1], int(dtype[2:])
    if kind in _KINDS:
        return f"{_KINDS[kind]}{8 * size}", order
    if kind in "SU":
        return ["ascii" if kind == "S" else "ucs4", size], order
    return ("bool8" if kind == "b" else None), order


def _record(fields: list[Any]) -> list[Any] | None:
    found = []
    for field in fields:
        if not isinstance(field, list) or not 2 <= len(field) <= 3:
            return None
        datatype, byteorder = described(field[1])
        if datatype is None:
            return None
        shape = {"shape": field[2]} if len(field) == 3 else {}
        found.append({"name": field[0], "datatype": datatype, "byteorder": byteorder, **shape})
    return found


def _lengths(metadata: dict[str, Any], name: str, least: int) -> tuple[int, ...]:
    found = metadata.get(name)
    if not isinstance(found, list) or not all(is_count(length) and length >= least for length in found):
        raise InvalidArrayError(f"its {name} is missing or not valid")
    return tuple(found)


def _is_codec(stated: Any) -> bool:
    return isinstance(stated, dict) and isinstance(stated.get("id"), str)


def is_count(value: Any) -> bool:
    """Return whether ``value`` is a number of elements, or a position among them."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST
