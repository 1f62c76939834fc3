"""Containers of ``features/fits``, which the registry finds."""
