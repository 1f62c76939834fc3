"""The thin FUSE adapter.  Meaning lives in ``vfs``; here calls are decoded and errors encoded."""
