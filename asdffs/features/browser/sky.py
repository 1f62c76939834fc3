"""The sky coordinates of a pixel: those that the .fits file of the array has in its header, by astropy's WCS."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any, Final

from asdffs.errors import AsdffsError
from asdffs.features.browser.downloads import view_of
from asdffs.features.browser.session import Session
from asdffs.storage.backend import read_bytes

_RECORD: Final = 2880
#: Records of the longest header that is read.  The WCS of so many arrays are kept.
_LONGEST: Final = 64
_MOST: Final = 64


class Sky:
    """The coordinates of the images of ``session``."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[tuple[str, Any], Any] = {}
        self._lock = threading.Lock()

    def at(self, name: str, row: int, column: int) -> dict[str, Any]:
        """Return ``longitude`` and ``latitude`` in degrees and ``frame`` of a pixel; nothing if it has none.

        The first question about an array may take seconds, because gwcs computes its WCS.
        """
        wcs = self._wcs(name)
        if wcs is None:
            return {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # astropy's about a header that is not as it would write it
            longitude, latitude = (float(value) for value in wcs.celestial.pixel_to_world_values(column, row))
        return {"longitude": round(longitude, 7), "latitude": round(latitude, 7), "frame": wcs.wcs.radesys or "ICRS"}

    def _wcs(self, name: str) -> Any:
        """Return the WCS of an array; None if it has none, or astropy is not installed."""
        _, version = self._session.text()
        with self._lock:
            if (name, version) not in self._known:
                while len(self._known) >= _MOST:
                    del self._known[next(iter(self._known))]
                self._known[name, version] = self._computed(name)
            return self._known[name, version]

    def _computed(self, name: str) -> Any:
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
