"""FITS: ASDF inside FITS files (``containers/``), and arrays shown as ``.fits`` (``formats/``).

``hdus/`` parses FITS files, ``units/`` makes the header, the data and the sky coordinates of a ``.fits``.
"""
