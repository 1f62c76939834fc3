"""Makes the parts of a .fits file: cards of headers, and data units."""
