"""The arrays of an open file, with elements in blocks, in the tree or in other files."""
