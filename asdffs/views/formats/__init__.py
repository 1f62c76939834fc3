"""The formats of files in ``arrays/``: ``npy``.  ``fits`` is in ``features/fits``."""
