"""The YAML tree of an ASDF file as text: its contents, its validation, and edits of it.

Pure: nothing here opens a file or waits.
"""
