"""Dialects for the registry."""
