"""The YAML tree of an ASDF file as text: what it contains, whether it is valid, and how to change it.

Pure: nothing here opens a file or waits.
"""
