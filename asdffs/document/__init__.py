"""The open ASDF file: what is in it, and every change to it."""
