"""Array formats of ``features/fits``, which the registry finds."""
