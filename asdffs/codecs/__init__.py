"""Block compressions: one module each, found by the registry."""
