"""The ASDF file layout: pure functions between bytes and frozen structures.

Sans-I/O: nothing here opens, reads or writes a file.  ``scanner`` says which bytes it
needs and is sent them; ``plan`` says which bytes must change and changes none.
"""
