"""The formats of files in ``arrays/``: ``npy`` and ``fits``.  ``fits`` is imported when it is needed."""
