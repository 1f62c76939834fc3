"""Backends for the registry."""
