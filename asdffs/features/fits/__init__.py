"""FITS: ASDF inside FITS files (``containers/``), and arrays shown as ``.fits`` (``formats/``).

``hdus`` parses and changes FITS headers; ``cards`` and ``data`` make those of a ``.fits``, ``sky_helper`` its sky
coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def keyword_places() -> Mapping[str, Sequence[str]]:
    """Return FITS keyword -> the paths below ``meta`` at which its value may be, the likeliest first."""
    from asdffs.features.fits.metadata import keyword_tables  # it needs the outline of a tree

    return keyword_tables()
