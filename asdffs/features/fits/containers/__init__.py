"""Containers for the registry."""
