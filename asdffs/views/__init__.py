"""Kinds of virtual files: one module each.  ``base`` says what a view is; the registry finds them."""
