"""Block compressions: one file each, found by the registry."""
