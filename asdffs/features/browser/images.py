"""Arrays as the page shows them: facts, tiles of numbers, the elements below the pointer, statistics of a region.

The browser asks for the tiles that it shows, as fine as it shows them, and colours them itself: a tile is ``SIDE``
elements wide and high, of every ``step``-th element.  No answer reads more than its tile, except from a compressed
block.  What is black and white comes from a coarse look at all of the image, so that tiles fit together.

Of flags, such as ``dq``, none may be lost: of each square of ``step`` elements, the tile has the greatest.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from asdffs.allocator import give_back
from asdffs.document.arrays.array import Array
from asdffs.errors import UsageError
from asdffs.features.browser.looking import WHOLE, broadcast_at, look_at
from asdffs.features.browser.pictures import complete, first_plane, histogram_of, lengths, limits_of, real
from asdffs.features.browser.session import Session

SIDE: Final = 512
#: Elements of a side of the look that chooses black and white, and bars of the histogram.
_LOOK: Final = 256
_BARS: Final = 120
#: JavaScript has no larger integers.
_EXACT: Final = 1 << 53
#: Arrays of unsigned integers or booleans with such a word in their names are flags.
_FLAGS: Final = re.compile(r"dq|flag|mask", re.IGNORECASE)
#: Bytes of flags that are read at a time.
_BAND: Final = 8 << 20
#: How many results are kept: limits of black and white.
_KEPT_LIMITS: Final = 256
#: The most elements to each side of the pointer whose values are told, and values of an array of texts.
_AROUND: Final = 8
_TEXTS: Final = 1000


class Tile(NamedTuple):
    """Which tile: ``row`` and ``column``, counted in tiles of elements ``step`` apart."""

    step: int
    row: int
    column: int


class Region(NamedTuple):
    """Some elements of a plane: the first ``row`` and ``column``, and how many ``rows`` and ``columns``."""

    row: int
    column: int
    rows: int
    columns: int


class Images:
    """The arrays of ``session``."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known_limits = functools.lru_cache(_KEPT_LIMITS)(self._limits_of)

    def facts(self, name: str, index: Sequence[int]) -> dict[str, Any]:
        """Return what is known of an array without reading all of it.

        ``index``: the positions along the first axes.  ``limits``: what is black and white, by the name of a rule.
        Raises as ``look_at``, ``MissingValueError``.
        """
        version = self._session.version()
        with self._session.entered() as document:
            array = self._session.array(name)
            shape, dtype = array.shape, array.dtype
            stored = array.branch.array
            number = None if stored is None else stored.block_in(len(document.table))
            found = {
                "shape": shape,
                "dtype": str(dtype.newbyteorder("=")),
                "kind": dtype.kind,
                "bytes": array.nbytes,
                "unit": array.units.get("", ""),
                "side": SIDE,
                "block": number,
                "compression": "" if number is None else document.contents.codecs.name(number),
                "masked": array.mask is not None,
                "greatest": _has_flags(array, name),
                "version": version,
            }
            plane = self._asked(array, index)
        found["plane"] = lengths(plane, shape)
        if dtype.kind in "biufc" and shape:
            found["limits"] = self._known_limits(name, tuple(index), version)
        else:
            found["values"] = self._texts(name, index)
        return {key: _plain(value) for key, value in found.items()}

    def statistics(self, name: str, index: Sequence[int], region: Region | None) -> dict[str, Any]:
        """Return statistics and a histogram of a plane or a line, or of a ``region`` of a plane.

        The histogram goes from ``low`` to ``high``, three times as far as from black to white: a few very bright
        elements would leave only one bar.  ``read``: of how many elements they are.  Raises as ``facts``.
        """
        version = self._session.version()
        with self._session.entered():
            array = self._session.array(name)
            if array.dtype.kind not in "biufc":
                raise UsageError(f"{name}: its elements are not numbers")
            limits = self._known_limits(name, tuple(index), version)
            low, high = limits.get("zscale") or list(limits.values())[-1]
            asked: tuple[Any, ...] = (*index, ...)
            if region is not None:
                rows, columns = (region.row, region.rows), (region.column, region.columns)
                places = iter(slice(start, start + count) for start, count in (rows, columns))
                asked = tuple(next(places) if isinstance(key, slice) else key for key in self._plane(array, index))
            look = look_at(array, asked, _LOOK, _LOOK, array.mask, whole=0 if array.is_remote else WHOLE)
        found = look.statistics().facts() | {"elements": look.total, "low": 0.0, "high": 0.0}
        if found["min"] is not None and found["min"] != found["max"]:
            found |= {"low": float(found["min"]), "high": float(found["max"])}
        if found["min"] is not None and (spread := high - low) > 0 and math.isfinite(found["max"] - found["min"]):
            ends = max(float(found["min"]), low - spread), min(float(found["max"]), high + spread)
            if ends[0] < ends[1]:
                bars = histogram_of(real(look.values), look.mask, ends, _BARS)
                found |= {"histogram": bars, "low": ends[0], "high": ends[1]}
        del look
        give_back()
        return {key: _plain(value) for key, value in found.items()}

    def tile(self, name: str, index: Sequence[int], tile: Tile) -> np.ndarray[Any, Any]:
        """Return the numbers of a tile, as floats; NaN where masked.

        Raises ``UsageError`` for a tile that does not exist, or as ``facts``.
        """
        if tile.step < 1 or min(tile.row, tile.column) < 0:
            raise UsageError("there is no such tile")
        with self._session.entered():
            array = self._session.array(name)
            plane, mask = self._plane(array, index), array.mask
            read = self._greatest if tile.step > 1 and _has_flags(array, name) else self._read
            values = as_floats(read(array, array.shape, plane, tile))
            hidden = None if mask is None else self._read(mask, array.shape, plane, tile)
        if hidden is not None:
            values = np.where(hidden, np.nan, values)
        return values

    def elements(self, name: str, index: Sequence[int], row: int, column: int, around: int) -> dict[str, Any]:
        """Return the values ``around`` an element as texts, all digits of them, and the first ``row`` and ``column``.

        Raises ``UsageError`` if it does not exist.
        """
        with self._session.entered():
            array = self._session.array(name)
            plane = self._plane(array, index)
            ends = zip((row, column), lengths(plane, array.shape), strict=True)
            if not all(0 <= place < count for place, count in ends):
                raise UsageError(f"[{row}, {column}]: the image has no such element")
            around = min(around, _AROUND)
            first = max(0, row - around), max(0, column - around)
            places = iter((slice(first[0], row + around + 1), slice(first[1], column + around + 1)))
            part = tuple(next(places) if isinstance(key, slice) else key for key in plane)
            values, mask = np.asarray(array[part]), array.mask
            hidden = None if mask is None else broadcast_at(mask, part, array.shape)
        texts = [
            ["--" if hidden is not None and hidden[line, place] else str(value) for place, value in enumerate(cells)]
            for line, cells in enumerate(values)
        ]
        return {"row": first[0], "column": first[1], "values": texts}

    def _texts(self, name: str, index: Sequence[int]) -> list[str]:
        """Return the first elements of what has no picture: texts, records, a single number."""
        with self._session.entered():
            array = self._session.array(name)
            part, left = list(self._asked(array, index)), _TEXTS
            for axis, key in reversed(list(enumerate(part))):
                if isinstance(key, slice):
                    part[axis] = slice(0, min(array.shape[axis], max(1, left)))
                    left //= max(1, array.shape[axis])
            values, mask = np.asarray(array[tuple(part)]), array.mask
            hidden = None if mask is None else broadcast_at(mask, tuple(part), array.shape).ravel()
        texts = [str(value) for value in values.ravel()[:_TEXTS].tolist()]
        return texts if hidden is None else ["--" if one else text for text, one in zip(texts, hidden, strict=False)]

    @staticmethod
    def _asked(array: Array, index: Sequence[int]) -> tuple[Any, ...]:
        try:
            return first_plane(complete((*index, ...), array.shape), array.shape)
        except IndexError as err:
            raise UsageError(str(err)) from err

    def _plane(self, array: Array, index: Sequence[int]) -> tuple[Any, ...]:
        """Return the complete index of the plane.  Raises ``UsageError`` if it has not two axes."""
        plane = self._asked(array, index)
        if sum(isinstance(key, slice) for key in plane) != 2 or array.dtype.kind not in "biufc":
            raise UsageError("it is no image: it has not two axes of numbers")
        return plane

    @staticmethod
    def _read(array: Array, shape: tuple[int, ...], plane: tuple[Any, ...], tile: Tile) -> np.ndarray[Any, Any]:
        """Return the elements of a tile of ``array``, which is one of ``shape``, or its mask."""
        starts = iter((tile.row * SIDE * tile.step, tile.column * SIDE * tile.step))
        counts = iter(lengths(plane, shape))
        part = []
        for key in plane:
            if not isinstance(key, slice):
                part.append(key)
                continue
            start, count = next(starts), next(counts)
            if start >= count:
                raise UsageError("there is no such tile")
            part.append(slice(start, min(count, start + SIDE * tile.step), tile.step))
        return broadcast_at(array, tuple(part), shape)

    @staticmethod
    def _greatest(array: Array, shape: tuple[int, ...], plane: tuple[Any, ...], tile: Tile) -> np.ndarray[Any, Any]:
        """Return the greatest element of each square of ``tile.step`` elements of a tile of ``array``."""
        step, (rows, columns) = tile.step, lengths(plane, shape)
        top, left = tile.row * SIDE * step, tile.column * SIDE * step
        if top >= rows or left >= columns:
            raise UsageError("there is no such tile")
        bottom, right = min(rows, top + SIDE * step), min(columns, left + SIDE * step)
        band = max(1, _BAND // ((right - left) * array.dtype.itemsize * step)) * step
        found = []
        for first in range(top, bottom, band):
            places = iter((slice(first, min(bottom, first + band)), slice(left, right)))
            values = np.asarray(array[tuple(next(places) if isinstance(key, slice) else key for key in plane)])
            high = np.maximum.reduceat(values, range(0, values.shape[0], step), axis=0)
            found.append(np.maximum.reduceat(high, range(0, values.shape[1], step), axis=1))
        return np.concatenate(found)

    def _limits_of(self, name: str, index: tuple[int, ...], version: str) -> dict[str, tuple[float, float]]:
        """Return what is black and white in all tiles of an image, by rule, the usual first."""
        with self._session.entered():
            array = self._session.array(name)
            flags = _has_flags(array, name)
            look = look_at(array, (*index, ...), _LOOK, _LOOK, array.mask, whole=WHOLE if flags else 0)
        ends = "all" if look.step == 1 else "all of a sample"
        if flags:  # the greatest may be a thousand million times the least
            return {"any flag": (0, 1), ends: (0, max(1, int(look.values.max(initial=0))))}
        pixels = look.pixels(_LOOK, _LOOK, peak=False) if look.values.ndim == 2 else as_floats(look.values)
        limits = {"zscale": limits_of(pixels, "zscale"), "1 to 99.9 %": limits_of(pixels, "log")}
        return limits | {ends: _ends(as_floats(look.values))}


def as_floats(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return numbers as float32 where these have all of their digits, else as float64, in this machine's order."""
    numbers = real(values)
    exact = numbers.dtype.itemsize <= (4 if numbers.dtype.kind == "f" else 2)
    return np.ascontiguousarray(numbers, "f4" if exact else "f8")


def _has_flags(array: Array, name: str) -> bool:
    """Return whether an array has flags, of which all are read.

    Not one on a server, of which that is too much, and not one that itself has a mask.
    """
    named = array.dtype.kind in "bu" and _FLAGS.search(name.rpartition("/")[2]) is not None
    return named and not array.is_remote and array.mask is None


def _ends(pixels: np.ndarray[Any, Any]) -> tuple[float, float]:
    finite = pixels[np.isfinite(pixels)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)


def _plain(value: Any) -> Any:
    """Return a value for the JSON of the page: NaN, other objects, and integers too large for JavaScript are text."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and abs(value) > _EXACT:
        return str(value)
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
