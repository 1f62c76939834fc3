"""What a .fits file is made of: cards of headers, and data units."""
