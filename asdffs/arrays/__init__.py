"""What a tree says about arrays: their descriptions, the branches that lead to them, and where their elements lie.

Pure: nothing here opens a file or waits.  At the bottom are ``datatypes`` and ``chunked`` (asdf-zarr); on these
``ndarrays``, the description of one array, and ``placement``, its place in a block.  ``branch`` and ``outline`` lead
to the arrays of a tree; ``inline`` reads values in it, ``sources`` edits it, ``scalars`` is for catalogues.  At the
top, ``rechecking`` and ``validation`` decide whether a text may become the tree.
"""
