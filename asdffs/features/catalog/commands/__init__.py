"""Commands of ``features/catalog``, which the registry finds."""
