"""The ASDF file layout: pure functions between bytes and frozen structures.

Sans-I/O: nothing here opens, reads or writes a file.  At the bottom are ``constants``, ``text`` (header and tree),
``block_header`` and ``block_index``; on these ``layout``, the regions of a file.  ``block_scan`` and ``scanner`` find
them: they yield the positions of the bytes that they need, and the caller sends them.  ``plan`` lists the bytes that
must change, and changes none.  ``container`` is the interface of files that have ASDF files inside.
"""
