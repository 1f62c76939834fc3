"""Computes the FITS WCS of a gwcs, in a process of its own: the libraries take seconds to import, and much memory.

The process gets one argument of JSON: ``file``, the descriptor of an ASDF file, ``path`` of the gwcs in its tree
(keys and numbers), ``shape`` of the image, rows and columns last.  It prints JSON: ``cards`` (keyword, value,
comment), or ``reason``, a sentence.  It imports nothing of asdffs.

The WCS is TAN-SIP, by ``gwcs.WCS.to_fits_sip``.  FITS readers know SIP for images of two axes only, so one of more
axes has plain TAN.  Of a gwcs of three axes the celestial part is taken.  The error is that of pixel to sky on a
grid, in pixels.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from typing import Any

#: The largest error in pixels; a less exact WCS is left out.
_MOST = 0.1
#: Degree of the polynomials, and points of the grid along an axis.
_DEGREE, _POINTS = 5, 32
#: Keywords about the image itself, which are those of the view.
_LEFT_OUT = ("SIMPLE", "BITPIX", "NAXIS", "NAXIS1", "NAXIS2", "EXTEND", "COMMENT", "HISTORY", "")

#: Keywords of a third axis.
_THIRD = re.compile(r"NAXIS3|(?:CTYPE|CUNIT|CRPIX|CRVAL|CDELT|CNAME)3|P[SV]3_\d+|PC(?:3_\d|\d_3)")


def cards_of(wcs: Any, shape: tuple[int, ...]) -> list[tuple[str, Any, str]]:
    """Return the cards of a WCS for an image of ``shape``, rows and columns last.

    Raises ``ValueError`` with the reason if there is no such WCS.
    """
    axes = wcs.pixel_n_dim
    if axes not in (2, 3) or axes > len(shape):
        raise ValueError(f"its gwcs has {axes} axes of pixels")
    box = tuple((-0.5, length - 0.5) for length in shape[::-1][:axes])
    try:
        header = _header(wcs, box, plain=len(shape) > 2)
    except (ValueError, TypeError, RuntimeError, NotImplementedError, AttributeError, IndexError) as err:
        raise ValueError(f"gwcs makes no FITS WCS of it ({str(err)[:100]})") from err
    if not str(header.get("CTYPE1", "")).startswith("RA") or not str(header.get("CTYPE2", "")).startswith("DEC"):
        raise ValueError("its first two axes are not right ascension and declination")
    error = max(_error(wcs, header, shape[-2:], rest) for rest in _planes(shape, axes))
    if not error <= _MOST:
        without = " without distortions, which FITS has for images of two axes only," if len(shape) > 2 else ""
        raise ValueError(f"a FITS WCS{without} would be wrong by {error:.2g} pixels")
    header["SIPMXERR"] = (error, "largest difference from the gwcs, in pixels")
    header["WCSAXES"] = len(shape)
    if "CD1_1" in header:  # of a CD matrix, what is missing is 0
        header.update({f"CD{n}_{n}": 1.0 for n in range(3, len(shape) + 1)})
    cards = [(card.keyword, card.value, card.comment) for card in header.cards if card.keyword not in _LEFT_OUT]
    return cards if axes == 2 else [*cards, ("COMMENT", "axis 3 of the gwcs is not in this header", "")]


def _header(wcs: Any, box: tuple[tuple[float, float], ...], *, plain: bool) -> Any:
    """Return the header that gwcs makes, with its celestial axes alone.  ``plain``: without distortions."""
    degree = 1 if plain else _DEGREE
    if len(box) == 2:
        return wcs.to_fits_sip(bounding_box=box, degree=degree, max_inv_pix_error=None, npoints=_POINTS)
    header, _ = wcs.to_fits(bounding_box=box, degree=degree, max_inv_pix_error=None, npoints=_POINTS)
    for keyword in [*header]:
        if _THIRD.fullmatch(keyword):
            del header[keyword]
    return header


def _planes(shape: tuple[int, ...], axes: int) -> list[tuple[float, ...]]:
    """Return positions along the third axis at which the error is computed; nothing to add for two axes."""
    last = shape[-3] - 1 if axes == 3 else 0
    return [(float(at),) for at in sorted({0, last // 2, last})] if axes == 3 else [()]


def _error(wcs: Any, header: Any, shape: tuple[int, ...], rest: tuple[float, ...]) -> float:
    """Return the largest distance between the two positions of a pixel, in pixels; NaN if one is not defined."""
    import numpy as np
    from astropy.wcs import WCS

    rows, columns = shape
    x, y = np.meshgrid(np.linspace(0, columns - 1, _POINTS), np.linspace(0, rows - 1, _POINTS))
    fits = WCS(header, naxis=2)
    more = [np.full_like(x, at) for at in rest]
    told = np.radians(np.array(wcs(x, y, *more, with_bounding_box=False)[:2]))
    found = np.radians(np.array(fits.all_pix2world(x, y, 0)))
    half = np.sin((told[1] - found[1]) / 2) ** 2
    half = half + np.cos(told[1]) * np.cos(found[1]) * np.sin((told[0] - found[0]) / 2) ** 2
    distance = 2 * np.arcsin(np.sqrt(half))
    scale = np.sqrt(abs(np.linalg.det(fits.pixel_scale_matrix)))
    return float(np.max(np.degrees(distance)) / scale)


def _cards(job: dict[str, Any]) -> list[tuple[str, Any, str]]:
    """Return the cards of the gwcs in the file, which stays open: lookup tables are in blocks."""
    import asdf

    with (
        open(f"/proc/self/fd/{job['file']}", "rb") as raw,
        asdf.open(raw, lazy_load=True, memmap=False, ignore_unrecognized_tag=True) as file,
    ):
        found: Any = file.tree
        for key in job["path"]:
            found = found[key]
        if not hasattr(found, "to_fits_sip"):
            raise ValueError("the libraries that read a gwcs are not complete")
        return cards_of(found, tuple(job["shape"]))


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
