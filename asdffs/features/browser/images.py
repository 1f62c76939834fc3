"""Pictures of arrays in tiles, and the sky coordinates of their pixels.

The browser asks for the tiles that it shows, as fine as it shows them: a tile is ``SIDE`` pixels wide and high, of
every ``step``-th element.  No answer reads more than its tile, except from a compressed block.  Black and white are
chosen once for an array and a stretch, from a coarse look at all of it.  Sky coordinates are those in the header of
the .fits file of the array, by astropy's WCS.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from asdffs.document.arrays.array import Array
from asdffs.errors import AsdffsError, UsageError
from asdffs.features.browser import STRETCHES
from asdffs.features.browser.contents import view_of
from asdffs.features.browser.looking import WHOLE, broadcast_at, look_at, picture
from asdffs.features.browser.pictures import (
    GREY,
    coloured,
    complete,
    first_plane,
    grey_levels,
    lengths,
    limits_of,
    png,
    real,
)
from asdffs.features.browser.session import Session
from asdffs.storage.backend import read_bytes

SIDE: Final = 256
#: Pixels of a side of the look that chooses black and white, and of a curve.
_EXACT: Final = 1 << 53  # JavaScript has no larger integers
_LOOK: Final = 256
_CURVE: Final = (256, 1024)
#: How many results are kept: limits of black and white, WCS of arrays.
_KEPT_LIMITS: Final = 256
_KEPT_WCS: Final = 64
#: Bytes of a FITS record, and records of the longest header that is read.
_RECORD: Final = 2880
_LONGEST: Final = 64


class Tile(NamedTuple):
    """Which tile: ``row`` and ``column``, counted in tiles of elements ``step`` apart."""

    step: int
    row: int
    column: int


class Images:
    """The pictures of the arrays of ``session``, and where their pixels are on the sky."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known_limits = functools.lru_cache(_KEPT_LIMITS)(self._limits_of)
        self._known_wcs = functools.lru_cache(_KEPT_WCS)(self._wcs_of)

    def facts(self, name: str, index: Sequence[int]) -> dict[str, Any]:
        """Return what the page shows beside a picture: shape, datatype, unit, statistics.

        ``index``: the positions along the first axes.  Raises as ``look_at``, ``MissingValueError``.
        """
        with self._session.entered():
            array = self._session.array(name)
            whole = 0 if array.is_remote else WHOLE
            look = look_at(array, (*index, ...), _LOOK, _LOOK, array.mask, whole=whole)
            found: dict[str, Any] = {"shape": array.shape, "dtype": str(array.dtype), "bytes": array.nbytes}
            found["unit"] = array.units.get("", "")
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
            array = self._session.array(name)
            plane, mask = self._plane(array, index), array.mask
            values = real(self._read(array, array.shape, plane, tile))
            hidden = None if mask is None else self._read(mask, array.shape, plane, tile)
        if hidden is not None:
            values = np.where(hidden, np.nan, values)
        limits = self._known_limits(name, tuple(index), stretch, self._session.text()[1])
        return png(coloured(grey_levels(values, limits, stretch)[::-1], cmap))

    def curve(self, name: str, index: Sequence[int]) -> bytes:
        """Return the curve of an array of one axis, or of one line of it, as PNG."""
        with self._session.entered():
            array = self._session.array(name)
            look = look_at(array, (*index, ...), *_CURVE, array.mask)
        if look.values.ndim != 1:
            raise UsageError("it has not one axis")
        return png(255 - picture(look, *_CURVE, "linear", GREY))

    def pixel(self, name: str, index: Sequence[int], row: int, column: int) -> dict[str, Any]:
        """Return the value of one element.  Raises ``UsageError`` if it is not there."""
        with self._session.entered():
            array = self._session.array(name)
            place = iter((row, column))
            where = tuple(next(place) if isinstance(key, slice) else key for key in self._plane(array, index))
            try:
                return {"value": _plain(array[where])}
            except IndexError as err:
                raise UsageError(str(err)) from err

    def sky(self, name: str, row: int, column: int) -> dict[str, Any]:
        """Return ``longitude`` and ``latitude`` in degrees and ``frame`` of a pixel; nothing if it has none.

        The first question about an array may take seconds, because gwcs computes its WCS.
        """
        wcs = self._known_wcs(name, self._session.text()[1])
        if wcs is None:
            return {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # astropy's about a header that is not as it would write it
            longitude, latitude = (float(value) for value in wcs.celestial.pixel_to_world_values(column, row))
        return {"longitude": round(longitude, 7), "latitude": round(latitude, 7), "frame": wcs.wcs.radesys or "ICRS"}

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

    def _limits_of(self, name: str, index: tuple[int, ...], stretch: str, version: str) -> tuple[float, float]:
        """Return what is black and white in all tiles of an image; ``version`` of the text."""
        with self._session.entered():
            array = self._session.array(name)
            look = look_at(array, (*index, ...), _LOOK, _LOOK, array.mask)
        return limits_of(look.pixels(_LOOK, _LOOK, peak=False), stretch)

    def _wcs_of(self, name: str, version: str) -> Any:
        """Return the WCS of an array; None if it has none, or astropy is not installed.  ``version`` of the text."""
        try:
            from astropy.io.fits import Header
            from astropy.wcs import WCS

            view = view_of(self._session, "fits", name)
            with self._session.entered(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                header = _image_header(lambda offset: read_bytes(view.read(offset, _RECORD)), Header)
                wcs = None if header is None else WCS(header)
        except (AsdffsError, ImportError, OSError, ValueError):  # it has no .fits file, or none that says where it is
            return None
        return wcs if wcs is not None and wcs.has_celestial else None


def _plain(value: Any) -> Any:
    """Return a value for the JSON of the page: NaN, other objects, and integers too large for JavaScript are text."""
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and abs(value) > _EXACT:
        return str(value)
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _image_header(read: Callable[[int], bytes], parse: Any) -> Any:
    """Return the first header with an image; None without one.  ``read(offset)`` returns a record."""
    place = 0
    while place < _LONGEST * _RECORD:
        raw = b""
        while b"END" + b" " * 77 not in raw:
            piece = read(place)
            if len(piece) < _RECORD:
                return None
            raw, place = raw + piece, place + _RECORD
        header = parse.fromstring(raw)
        if header.get("NAXIS", 0) >= 2:
            return header
        if header.get("NAXIS", 0):
            return None
    return None
