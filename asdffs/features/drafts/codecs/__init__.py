"""Codecs for the registry."""
