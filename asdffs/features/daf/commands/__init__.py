"""Commands of ``features/daf``, which the registry finds."""
