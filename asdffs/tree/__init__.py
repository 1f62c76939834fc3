"""An editor of YAML text that keeps every byte that nobody changed: reading, checking, finding and changing values.

It knows nothing of ASDF files, and imports nothing of asdffs but errors and limits.  ``tape`` parses a text once; the
other modules walk over it.  Pure: nothing here opens a file or waits.
"""
