"""The open ASDF file: its tree, blocks and arrays, and every change to it."""
