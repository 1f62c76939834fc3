"""The directory tree of a mount: nodes, names, handles and drafts.  Knows neither FUSE nor errno."""
