"""Commands of ``features/datasets``, which the registry finds."""
