"""Commands of ``features/browser``, which the registry finds."""
