"""Views for the registry."""
