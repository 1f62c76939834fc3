"""The arrays of an open file: their elements, wherever these are."""
