"""The thin FUSE adapter.  Meaning lives in ``vfs``; here calls are decoded and errors encoded.

Level 0: errno_map caller options; 1: binding operations; 2: daemon.
"""
