"""Array formats for the registry."""
