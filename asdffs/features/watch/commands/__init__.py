"""Commands of ``features/watch``, which the registry finds."""
