"""Generations of the ASDF format: one file each, found by the registry."""
