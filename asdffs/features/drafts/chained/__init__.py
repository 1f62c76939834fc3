"""Parts of the codec ``chain``: the entries of a chain, its steps, and the sources between the steps."""
