"""Commands for the registry."""
