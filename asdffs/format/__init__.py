"""The ASDF file layout: pure functions between bytes and frozen structures.

Sans-I/O: nothing here opens, reads or writes a file.  ``scanner`` yields the positions of the bytes that it
needs, and the caller sends them.  ``plan`` lists the bytes that must change, and changes none.
"""
