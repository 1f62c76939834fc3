"""Tables of FITS keywords, which the registry finds."""
