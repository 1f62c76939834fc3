"""The layout of ``repack --profile cloud``: which blocks come first, and how each is stored.

A reader over a network pays for each request and for each byte.  So what many programs need comes first, behind the
tree: blocks of small arrays, such as a WCS.  Integers, which compress well, are stored in pieces of whole rows, so a
part of an image needs few of them.  Floats, which compress badly, are stored as they are, so any byte can be read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

from asdffs.arrays.datatypes import item_size
from asdffs.arrays.ndarrays import Ndarray, find_arrays
from asdffs.document.document import Document
from asdffs.workflows.assembling import RoomPolicy

#: Blocks with fewer bytes come first, and are not compressed: a request costs more than they do.
_SMALL: Final = 1 << 16
#: Bytes of a piece by default, and the most that a row may have to decide it.
PIECE: Final = 1 << 20
_LARGEST_ROW: Final = 1 << 26
#: A block that is not smaller than this when it is compressed is stored as it is.
_WORTH: Final = 0.9
_PAGE: Final = 4096
_INTEGERS: Final = frozenset({"bool8", *(f"{kind}int{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64))})
_FLOATS: Final = frozenset({"float16", "float32", "float64", "complex64", "complex128"})

#: Contents begin at pages, so a program can map them; small ones begin anywhere.
ROOM: Final = RoomPolicy(align=_PAGE, least=_SMALL)


class Storing(NamedTuple):
    """How a block is stored.

    ``compression``: ``keep``, ``none`` or the name of a codec.  ``piece``: bytes of content in a piece; 0: as the
    codec does by default.  ``most``: the most bytes that it may take for one byte of content; if it takes more, it is
    not compressed.
    """

    compression: str
    piece: int = 0
    most: float = math.inf


def cloud_order(document: Document, count: int) -> list[int]:
    """Return the numbers of the first ``count`` blocks in a new order: small ones first, a streamed one last."""
    headers = [document.blocks[number].header for number in range(count)]
    return sorted(range(count), key=lambda n: (headers[n].streamed, headers[n].used_size >= _SMALL))


def cloud_storing(document: Document, text: bytes, count: int, piece: int) -> dict[int, Storing]:
    """Return how the first ``count`` blocks are stored; those that are not there stay as they are.

    ``text``: the tree, whose arrays decide.  ``piece``: about how many bytes a piece should have.
    """
    arrays: dict[int, list[Ndarray]] = {}
    for array in find_arrays(text, document.dialect):
        number = array.block_in(count)
        if number is not None:
            arrays.setdefault(number, []).append(array)
    found = {number: _storing(document, number, of, piece) for number, of in arrays.items()}
    return {number: storing for number, storing in found.items() if storing is not None}


def _storing(document: Document, number: int, arrays: Iterable[Ndarray], piece: int) -> Storing | None:
    size = document.contents.stated_size(number)
    kinds = {array.datatype if isinstance(array.datatype, str) else "" for array in arrays}
    if size is None:
        return None
    if kinds <= _INTEGERS and size >= _SMALL:
        return Storing("lz4", _piece_of_rows([_row(array, size) for array in arrays], piece), most=_WORTH)
    return Storing("none") if kinds <= _INTEGERS | _FLOATS else None


def _row(array: Ndarray, size: int) -> int:
    """Return the bytes of a row: what lies behind each other along the last axis; 1 if that is not known."""
    shape = array.shape_in(size)
    if not shape or len(shape) < 2 or array.strides is not None or array.offset:
        return 1
    return max(1, shape[-1] * (item_size(array.datatype) or 1))


def _piece_of_rows(rows: list[int], piece: int) -> int:
    """Return the multiple of the longest row that is next to ``piece`` bytes from below, or one row."""
    row = max((row for row in rows if row <= _LARGEST_ROW), default=1)
    return max(row, piece // row * row)
