"""Where the pixels of an image are on the sky: coordinates, north and east, and the sources of a table on an image.

The coordinates are those in the header of the .fits file of the array, by astropy's WCS: one truth with the mount.
"""

from __future__ import annotations

import functools
import logging
import math
import re
import warnings
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from asdffs.errors import AsdffsError, UsageError
from asdffs.features.browser.contents import view_of
from asdffs.features.browser.session import Session
from asdffs.features.browser.table_rows import TableRows
from asdffs.storage.backend import read_bytes

logger = logging.getLogger(__name__)

#: How many WCS are kept, bytes of a FITS record, and records of the longest header that is read.
_KEPT: Final = 64
_RECORD: Final = 2880
_LONGEST: Final = 64
#: What the tree of a file with sky coordinates has somewhere; those of a FITS file may be in its headers.
_TELLING: Final = re.compile(rb"(?i)wcs|ctype")
#: Units of angles, as astropy and FITS write them, in degrees.
_UNITS: Final = {
    **dict.fromkeys(("", "deg", "degree", "degrees"), 1.0),
    **dict.fromkeys(("rad", "radian"), math.degrees(1)),
    **dict.fromkeys(("hourangle", "hour", "h", "15deg"), 15.0),  # asdf-astropy writes hours as 15deg
    "arcmin": 1 / 60,
    "arcsec": 1 / 3600,
    "mas": 1 / 3_600_000,
}
#: The most sources that are drawn on an image.
_SOURCES: Final = 5000
#: The names of columns of sky coordinates in degrees, the likeliest first; a SkyCoord has NAME.ra and NAME.dec.
_ANGLES: Final = (("ra", "dec"), ("ra_centroid", "dec_centroid"), ("sky_centroid.ra", "sky_centroid.dec"))
_ENDS: Final = ((".ra", ".dec"), ("_ra", "_dec"), (".longitude", ".latitude"))


class Sky:
    """The WCS of the arrays of ``session``, and the sources of its ``tables``.

    The first question about an array may take seconds, because gwcs computes its WCS.
    """

    def __init__(self, session: Session, tables: TableRows) -> None:
        self._session = session
        self._tables = tables
        self._known = functools.lru_cache(_KEPT)(self._wcs_of)

    def place(self, name: str, row: int, column: int) -> dict[str, Any]:
        """Return ``longitude`` and ``latitude`` in degrees and as ``text``, and ``frame``; nothing without a WCS."""
        wcs = self._wcs(name)
        if wcs is None:
            return {}
        longitude, latitude = _world(wcs, column, row)
        if not (math.isfinite(longitude) and math.isfinite(latitude)):
            return {}
        found = {"longitude": round(longitude, 7), "latitude": round(latitude, 7)}
        if not _is_equatorial(wcs):
            return found | {"frame": wcs.wcs.lngtyp, "text": f"{longitude:.6f} {latitude:+.6f}"}
        return found | {"frame": wcs.wcs.radesys or "ICRS", "text": sexagesimal(longitude, latitude)}

    def compass(self, name: str, row: int, column: int) -> dict[str, Any]:
        """Return where ``north`` and ``east`` are at a pixel, as unit vectors of columns and rows, and ``scale``.

        ``scale``: arcseconds in a pixel, along north.  Nothing without a WCS.
        """
        wcs = self._wcs(name)
        if wcs is None or not _is_equatorial(wcs):
            return {}
        longitude, latitude = _world(wcs, column, row)
        step = 1 / 3600
        ways = {
            "north": (longitude, latitude + step),
            "east": (longitude + step / math.cos(math.radians(latitude)), latitude),
        }
        found: dict[str, Any] = {}
        for way, (x, y) in ways.items():
            at = _pixels(wcs, np.array([x]), np.array([y]))
            vector = float(at[0][0]) - column, float(at[1][0]) - row
            length = math.hypot(*vector)
            if not (math.isfinite(length) and length):
                return {}
            found[way] = [vector[0] / length, vector[1] / length]
            found.setdefault("scale", 1 / length)
        return found

    def sources(self, name: str, table: str) -> dict[str, Any]:
        """Return the ``columns`` and ``rows`` of the image ``name`` at which sources of ``table`` are.

        ``number``: of the row of the table.  Sources outside of the image are left out.  Raises ``UsageError`` if
        the table has no sky coordinates or the image has no WCS.
        """
        wcs = self._wcs(name)
        if wcs is None or not _is_equatorial(wcs):
            raise UsageError(f"{name}: has no right ascension and declination")
        pair = angles_of(list(self._tables.units(table)))
        if pair is None:
            raise UsageError(f"{table}: has no columns of sky coordinates")
        angles = self._tables.numbers(table, pair, _SOURCES)
        units = self._tables.units(table)
        degrees = [values * _degrees_in(units[name], name) for name, values in zip(pair, angles[1:], strict=True)]
        columns, rows = _pixels(wcs, *degrees)
        with self._session.entered():
            height, width = self._session.array(name).shape[-2:]
        inside = (columns > -0.5) & (columns < width - 0.5) & (rows > -0.5) & (rows < height - 0.5)
        found = {"columns": columns.round(3), "rows": rows.round(3), "number": angles[0].astype(int)}
        return {key: values[inside].tolist() for key, values in found.items()}

    def _wcs(self, name: str) -> Any:
        return self._known(name, self._session.version())

    def _wcs_of(self, name: str, version: str) -> Any:
        """Return the WCS of an array; None if it has none, or astropy is not installed.  ``version`` of the text."""
        if self._session.document.embedded is None and not _TELLING.search(self._session.text()[0]):
            return None  # and astropy, which takes 30 MiB, is not imported
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
        except Exception as err:  # noqa: BLE001  # astropy raises many kinds for a header that it does not understand
            logger.warning("%s: its sky coordinates are not understood: %s", name, err)
            return None
        if wcs is None or not wcs.has_celestial or {wcs.wcs.lng, wcs.wcs.lat} != {0, 1}:
            return None  # the columns and rows of the image are other axes
        return wcs.celestial


def _degrees_in(unit: str, column: str) -> float:
    """Return how many degrees a ``unit`` is; a column without one is in degrees.  Raises ``UsageError``."""
    try:
        return _UNITS[unit.strip().casefold()]
    except KeyError as err:
        raise UsageError(f"{column}: {unit} is not a unit of angles that is known here") from err


def _is_equatorial(wcs: Any) -> bool:
    return str(wcs.wcs.lngtyp).strip().upper() == "RA"


def angles_of(names: list[str]) -> tuple[str, str] | None:
    """Return the two columns, of those with ``names``, that have sky coordinates; None without them."""
    lower = {name.casefold(): name for name in names}
    ends = [
        (one, one.removesuffix(first) + second) for first, second in _ENDS for one in lower if one.endswith(first)
    ]
    for longitude, latitude in (*_ANGLES, *ends):
        if longitude in lower and latitude in lower:
            return lower[longitude], lower[latitude]
    return None


def sexagesimal(longitude: float, latitude: float) -> str:
    """Return sky coordinates in degrees as hours, minutes and seconds, and degrees, minutes and seconds."""
    thousandths, tenths = round(longitude % 360 / 15 * 3_600_000) % (24 * 3_600_000), round(abs(latitude) * 360_000)
    hours, rest = divmod(thousandths, 3_600_000)
    degrees, left = divmod(tenths, 360_000)
    sign = "-" if latitude < 0 else "+"
    return (
        f"{hours:02d}h{rest // 60_000:02d}m{rest % 60_000 / 1000:06.3f}s "
        f"{sign}{degrees:02d}d{left // 6000:02d}m{left % 6000 / 100:05.2f}s"
    )


def _world(wcs: Any, column: float, row: float) -> tuple[float, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # astropy's about a header that is not as it would write it
        longitude, latitude = wcs.pixel_to_world_values(column, row)
    return float(longitude), float(latitude)


def _pixels(wcs: Any, longitude: Any, latitude: Any) -> tuple[Any, Any]:
    """Return columns and rows; NaN where a place has no pixel."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if wcs.sip is not None:
            found = wcs.all_world2pix(longitude, latitude, 0, quiet=True)
        else:
            found = wcs.wcs_world2pix(longitude, latitude, 0)
    return found[0], found[1]


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
