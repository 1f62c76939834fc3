"""Texts of the tree that users save: they are committed, or kept beside the file."""
