"""Reads and changes the headers of FITS files, as far as containers need it."""
