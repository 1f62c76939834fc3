"""The elements of an array of tiles (``core/chunked-ndarray`` of ASDF.jl), put together when they are read.

Each tile is an ndarray of the tree, in a block, inline or in another file, and has a place in the array.  Where two
tiles have the same element, the later one counts; an element that no tile has is 0.  A read takes whole rows of the
tiles that it needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from asdffs.arrays.branch import Branch
from asdffs.arrays.chunked import Tiled
from asdffs.arrays.datatypes import descr_of
from asdffs.document.arrays.chunks import GatheredElements, Ranges
from asdffs.document.arrays.elements import Elements, import_numpy
from asdffs.document.state import FileState
from asdffs.errors import InvalidArrayError
from asdffs.storage.backend import read_bytes

_CHUNKS: Final = "chunks"
_NDARRAY: Final = "ndarray"


class TiledElements(GatheredElements):
    """The elements of the array of tiles at ``branch``; ``find(file, tile)`` returns those of one, rows first."""

    def __init__(self, file: FileState, branch: Branch, find: Callable[[FileState, Branch], Elements]) -> None:
        """Raises ``InvalidArrayError`` if a tile does not fit the array."""
        import_numpy(file.scheduler)
        import numpy as np

        array = branch.array
        if array is None or not isinstance(array.pieces, Tiled) or array.shape is None or array.odd:
            raise InvalidArrayError(array.odd if array is not None and array.odd else "its shape is not valid")
        self._file, self._find = file, find
        self.dtype = np.dtype(descr_of(array.datatype, array.byteorder))
        self.descr = np.lib.format.dtype_to_descr(self.dtype)
        self.shape = array.shape
        self.size = self.size_of(array.shape)
        self._tiles = [self._tile(branch, number, start) for number, start in enumerate(array.pieces.starts)]
        self._starts = np.array(array.pieces.starts, np.int64).reshape(len(self._tiles), len(self.shape))
        lengths = [tile.array.shape for tile in self._tiles if tile.array is not None]
        self._stops = self._starts + np.array(lengths, np.int64).reshape(self._starts.shape)
        self.chunk = lengths[0] if lengths else None

    def _tile(self, branch: Branch, number: int, start: tuple[int, ...]) -> Branch:
        """Return the ndarray of a tile, after a check that it fits the array."""
        tiles = branch.children.get(_CHUNKS)
        holder = tiles.children.get(number) if tiles is not None else None
        found = holder.children.get(_NDARRAY) if holder is not None else None
        if found is None or found.array is None or branch.array is None:
            raise InvalidArrayError(f"its chunk {number} has no ndarray")
        tile = found.array
        if tile.datatype != branch.array.datatype:
            raise InvalidArrayError(f"its chunk {number} has the datatype {str(tile.datatype)[:40]}")
        if tile.shape is None or len(tile.shape) != len(self.shape):
            raise InvalidArrayError(f"its chunk {number} has not {len(self.shape)} axes")
        if any(at + length > most for at, length, most in zip(start, tile.shape, self.shape, strict=True)):
            raise InvalidArrayError(f"its chunk {number} reaches beyond its shape")
        return found

    def held(self) -> int:
        """See ``Elements``.  Tiles in one block count once."""
        count = len(self._file.table)
        arrays = [tile.array for tile in self._tiles if tile.array is not None]
        numbers = {array.block_in(count) for array in arrays} - {None}
        inline: int = sum(math.prod(array.shape or ()) for array in arrays if array.inline) * self.dtype.itemsize
        return inline + sum(self._file.contents.size(number) for number in numbers if number is not None)

    def at(self, ranges: Ranges) -> Any:
        """See ``GatheredElements``."""
        import numpy as np

        shape = tuple(map(len, ranges))
        self._file.budget.check(math.prod(shape) * self.dtype.itemsize, "its elements", self.held)
        found = np.zeros(shape, self.dtype)
        if not found.size:
            return found
        low, high = [one[0] for one in ranges], [one[-1] for one in ranges]
        for number in np.flatnonzero(((self._starts <= high) & (self._stops > low)).all(axis=1)):
            parts = [_part(*one) for one in zip(ranges, self._starts[number], self._stops[number], strict=True)]
            if all(len(inside) for inside, _ in parts):
                outside = tuple(outside for _, outside in parts)
                found[outside] = self._read(int(number), [inside for inside, _ in parts])
        return found

    def _read(self, number: int, inside: list[range]) -> Any:
        """Return the elements of a tile at positions in it."""
        import numpy as np

        elements = self._find(self._file, self._tiles[number])
        dtype, shape = np.dtype(elements.descr), elements.shape
        if not shape:
            return np.frombuffer(read_bytes(elements.read(0, elements.size)), dtype).reshape(())
        row, first, last = elements.size // shape[0], inside[0][0], inside[0][-1]
        raw = read_bytes(elements.read(first * row, (last + 1 - first) * row))
        rows = np.frombuffer(raw, dtype).reshape(last + 1 - first, *shape[1:])
        rest = tuple(slice(one[0], one[-1] + 1, one.step) for one in inside[1:])
        return rows[(slice(None, None, inside[0].step), *rest)]


def _part(positions: range, start: int, stop: int) -> tuple[range, slice]:
    """Return which of ``positions`` are from ``start`` to ``stop``: as positions from there on, and as a slice."""
    first = max(0, -(-(start - positions.start) // positions.step))
    last = min(len(positions), -(-(stop - positions.start) // positions.step))
    here = positions[first : max(first, last)]
    return range(here.start - start, here.stop - start, here.step), slice(first, max(first, last))
