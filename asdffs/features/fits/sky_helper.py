"""Computes the FITS WCS of a gwcs, in a process of its own: the libraries take seconds to import, and much memory.

The process gets one argument of JSON: ``file``, the descriptor of the open file, ``path`` of the gwcs in the tree
(keys and numbers), ``start`` and ``size`` of the ASDF file in bytes, ``shape`` of the image.  It prints JSON:
``cards`` (keyword, value, comment), or ``reason``, a sentence.  It imports nothing of asdffs.

The WCS is TAN-SIP, by ``gwcs.WCS.to_fits_sip``.  The error is that of pixel to sky on a grid, in pixels.
"""

from __future__ import annotations

import io
import json
import os
import sys
import warnings
from typing import Any

#: The largest error in pixels; a less exact WCS is left out.
_MOST = 0.1
#: Degree of the polynomials, and points of the grid along an axis.
_DEGREE, _POINTS = 5, 32
#: Keywords about the image itself, which are those of the view.
_LEFT_OUT = ("SIMPLE", "BITPIX", "NAXIS", "NAXIS1", "NAXIS2", "EXTEND", "COMMENT", "HISTORY", "")


def cards_of(wcs: Any, shape: tuple[int, int]) -> list[tuple[str, Any, str]]:
    """Return the cards of a WCS for an image of ``shape`` (rows, columns).

    Raises ``ValueError`` with the reason if there is no such WCS.
    """
    rows, columns = shape
    box = ((-0.5, columns - 0.5), (-0.5, rows - 0.5))
    try:
        header = wcs.to_fits_sip(bounding_box=box, degree=_DEGREE, max_inv_pix_error=None, npoints=_POINTS)
    except (ValueError, TypeError, RuntimeError, NotImplementedError, AttributeError) as err:
        raise ValueError(f"gwcs makes no FITS WCS of it ({str(err)[:100]})") from err
    error = _error(wcs, header, shape)
    if not error <= _MOST:
        raise ValueError(f"a FITS WCS would be wrong by {error:.2g} pixels")
    header["SIPMXERR"] = (error, "largest difference from the gwcs, in pixels")
    return [(card.keyword, card.value, card.comment) for card in header.cards if card.keyword not in _LEFT_OUT]


def _error(wcs: Any, header: Any, shape: tuple[int, int]) -> float:
    """Return the largest distance between the two positions of a pixel, in pixels; NaN if one is not defined."""
    import numpy as np
    from astropy.wcs import WCS

    rows, columns = shape
    x, y = np.meshgrid(np.linspace(0, columns - 1, _POINTS), np.linspace(0, rows - 1, _POINTS))
    fits = WCS(header)
    told = np.radians(np.array(wcs(x, y, with_bounding_box=False)))
    found = np.radians(np.array(fits.all_pix2world(x, y, 0)))
    half = np.sin((told[1] - found[1]) / 2) ** 2
    half = half + np.cos(told[1]) * np.cos(found[1]) * np.sin((told[0] - found[0]) / 2) ** 2
    distance = 2 * np.arcsin(np.sqrt(half))
    scale = np.sqrt(abs(np.linalg.det(fits.pixel_scale_matrix)))
    return float(np.max(np.degrees(distance)) / scale)


def _cards(job: dict[str, Any]) -> list[tuple[str, Any, str]]:
    """Return the cards of the gwcs in the file, which stays open: lookup tables are in blocks."""
    import asdf

    given = job["file"]  # whose position others share
    whole = open(f"/proc/self/fd/{given}", "rb")  # noqa: SIM115
    part = io.BytesIO(os.pread(given, job["size"], job["start"])) if job["start"] else whole
    with whole, asdf.open(part, lazy_load=True, memmap=False, ignore_unrecognized_tag=True) as file:
        found: Any = file.tree
        for key in job["path"]:
            found = found[key]
        if not hasattr(found, "to_fits_sip"):
            raise ValueError("the libraries that read a gwcs are not complete")
        return cards_of(found, job["shape"])


def main() -> None:
    """Print the answer."""
    warnings.simplefilter("ignore")
    job = json.loads(sys.argv[1])
    try:
        import gwcs  # noqa: F401
    except ImportError:
        answer: dict[str, Any] = {"reason": "gwcs is not installed; pip install 'asdffs[wcs]'"}
    else:
        try:
            answer = {"cards": _cards(job)}
        except Exception as err:  # noqa: BLE001  # the file may say anything, and libraries raise anything
            answer = {"reason": f"{err or type(err).__name__}"}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
