"""Formats of the files in ``arrays/``: ``npy``, and ``fits``, imported when it is wanted."""
