"""Commands of ``features/remote``, which the registry finds."""
