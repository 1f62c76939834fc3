"""Dialects: the generations of the ASDF format, one module each, loaded by the registry."""
