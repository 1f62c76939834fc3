"""All scalars of a tree by their paths, and its arrays: what a catalogue of many files keeps of each.

Most trees are read in one pass over the events of the parser (``scalar_stream``).  Others, with aliases, merge keys
or keys that occur twice, are read as a whole first (``scalar_nodes``).  Both give the same.  Pure.
"""

from __future__ import annotations

from asdffs.dialects.base import Dialect
from asdffs.tree.scalar_nodes import LONGEST_LIST, LONGEST_TEXT, Scalars, scalars_of_nodes
from asdffs.tree.scalar_stream import UnusualTreeError, scalars_in_order

__all__ = ["LONGEST_LIST", "LONGEST_TEXT", "Scalars", "read_scalars"]


def read_scalars(text: bytes, dialect: Dialect) -> Scalars:
    """Return the scalars and arrays of a text of header, comments and tree.  Raises ``InvalidTreeError``."""
    try:
        return scalars_in_order(text, dialect)
    except UnusualTreeError:
        return scalars_of_nodes(text, dialect)
