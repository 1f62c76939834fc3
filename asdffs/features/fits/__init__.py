"""FITS: ASDF inside FITS files (``containers/``), and arrays shown as ``.fits`` (``formats/``).

``hdus`` parses and changes FITS headers; ``cards`` and ``data`` make those of a ``.fits``, ``sky_helper`` its sky
coordinates.
"""
