"""Pictures of arrays in tiles: the browser asks for the parts that it shows, as fine as it shows them.

A tile is ``SIDE`` pixels wide and high, of every ``step``-th element.  No answer reads more than its tile, except
from a compressed block.  Black and white are chosen once for an array and a stretch, from a coarse look at all of it.
"""

from __future__ import annotations

import json
import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from asdffs.document.arrays.array import Array
from asdffs.errors import MissingValueError, UsageError
from asdffs.features.browser.looking import look_at, picture, real
from asdffs.features.browser.pictures.colours import GREY, coloured
from asdffs.features.browser.pictures.png import png
from asdffs.features.browser.pictures.sampling import complete, first_plane, lengths
from asdffs.features.browser.pictures.stretch import STRETCHES, grey_levels, limits_of
from asdffs.features.browser.session import Session

if TYPE_CHECKING:
    import numpy as np

SIDE: Final = 256
#: Pixels of a side of the look that chooses black and white, and of a curve.
_LOOK: Final = 256
_CURVE: Final = (256, 1024)
#: The most limits that are remembered.
_MOST: Final = 256


class Tile(NamedTuple):
    """Which tile: ``row`` and ``column``, counted in tiles of elements ``step`` apart."""

    step: int
    row: int
    column: int


class Images:
    """The pictures of the arrays of ``session``."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._limits: OrderedDict[Any, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def facts(self, name: str, index: Sequence[int]) -> dict[str, Any]:
        """Return what the page shows beside a picture: shape, datatype, statistics of a coarse look.

        ``index``: the positions along the first axes.  Raises as ``look_at``, ``MissingValueError``.
        """
        with self._session.entered():
            array = self._array(name)
            look = look_at(array, (*index, ...), _LOOK, _LOOK)
            found: dict[str, Any] = {"shape": array.shape, "dtype": str(array.dtype), "bytes": array.nbytes}
            plane = lengths(look.asked, array.shape)
        found |= {"plane": plane, "read": look.values.size, "elements": look.total, "side": SIDE}
        if look.is_numeric:
            found |= look.statistics()._asdict()
        else:
            found["values"] = [str(value) for value in look.values.ravel()[:100].tolist()]
        return {key: _plain(value) for key, value in found.items()}

    def tile(self, name: str, index: Sequence[int], tile: Tile, stretch: str, cmap: str) -> bytes:
        """Return a tile as PNG.  The first row of the array is at the bottom.

        Raises ``UsageError`` for a tile that is not there, or as ``facts``.
        """
        if stretch not in STRETCHES or tile.step < 1 or min(tile.row, tile.column) < 0:
            raise UsageError("there is no such tile or stretch")
        with self._session.entered():
            array = self._array(name)
            plane = self._plane(array, index)
            values = self._read(array, plane, tile)
        limits = self._limits_of(name, index, stretch)
        return png(coloured(grey_levels(values, limits, stretch)[::-1], cmap))

    def curve(self, name: str, index: Sequence[int]) -> bytes:
        """Return the curve of an array of one axis, or of one line of it, as PNG."""
        with self._session.entered():
            look = look_at(self._array(name), (*index, ...), *_CURVE)
        if look.values.ndim != 1:
            raise UsageError("it has not one axis")
        return png(255 - picture(look, *_CURVE, "linear", GREY))

    def pixel(self, name: str, index: Sequence[int], row: int, column: int) -> dict[str, Any]:
        """Return the value of one element.  Raises ``UsageError`` if it is not there."""
        with self._session.entered():
            array = self._array(name)
            place = iter((row, column))
            where = tuple(next(place) if isinstance(key, slice) else key for key in self._plane(array, index))
            try:
                return {"value": _plain(array[where])}
            except IndexError as err:
                raise UsageError(str(err)) from err

    def _array(self, name: str) -> Array:
        try:
            return self._session.document.arrays[name]
        except KeyError as err:
            raise MissingValueError(f"{name}: there is no such array") from err

    @staticmethod
    def _plane(array: Array, index: Sequence[int]) -> tuple[Any, ...]:
        """Return the complete index of the plane.  Raises ``UsageError`` if it has not two axes."""
        try:
            plane = first_plane(complete((*index, ...), array.shape), array.shape)
        except IndexError as err:
            raise UsageError(str(err)) from err
        if sum(isinstance(key, slice) for key in plane) != 2 or array.dtype.kind not in "biufc":
            raise UsageError("it is no image: it has not two axes of numbers")
        return plane

    @staticmethod
    def _read(array: Array, plane: tuple[Any, ...], tile: Tile) -> np.ndarray[Any, Any]:
        import numpy as np

        starts = iter((tile.row * SIDE * tile.step, tile.column * SIDE * tile.step))
        counts = iter(lengths(plane, array.shape))
        part = []
        for key in plane:
            if not isinstance(key, slice):
                part.append(key)
                continue
            start, count = next(starts), next(counts)
            if start >= count:
                raise UsageError("there is no such tile")
            part.append(slice(start, min(count, start + SIDE * tile.step), tile.step))
        return real(np.asarray(array[tuple(part)]))

    def _limits_of(self, name: str, index: Sequence[int], stretch: str) -> tuple[float, float]:
        """Return what is black and white in all tiles of an image."""
        _, version = self._session.text()
        key = name, tuple(index), stretch, version
        with self._lock:
            if key in self._limits:
                return self._limits[key]
        with self._session.entered():
            values = look_at(self._array(name), (*index, ...), _LOOK, _LOOK).values
        found = limits_of(real(values), stretch)
        with self._lock:
            self._limits[key] = found
            while len(self._limits) > _MOST:
                self._limits.popitem(last=False)
        return found


def _plain(value: Any) -> Any:
    """Return a value as JSON can have it: NaN and what is not a number as text."""
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def as_json(value: Any) -> bytes:
    """Return an answer of the page."""
    return json.dumps(value, allow_nan=False).encode()
