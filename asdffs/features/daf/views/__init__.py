"""Views of ``features/daf``, which the registry finds."""
