"""All arrays of a tree, and which blocks they mean: the one answer to what the tree refers to.

One pass over the text checks it and finds the arrays.  Where one of them has an alias or a merge key in it, such as
``source: *n``, the outline says what that means.  Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from asdffs.dialects.base import Dialect
from asdffs.tree.events import read_tree
from asdffs.tree.ndarrays import Ndarray, ndarray_of
from asdffs.tree.outline import read_outline

_SKIP: Final = frozenset({"data"})


def find_arrays(
    text: bytes, dialect: Dialect, go_on: Callable[[], bool] = lambda: True, *, unique: bool = False
) -> tuple[Ndarray, ...]:
    """All ndarrays of the tree in ``text``; ``unique``: refuse duplicate keys.  Raises as ``read_tree``."""
    reading = read_tree(text, dialect.is_ndarray, _SKIP, go_on, unique=unique)
    if not reading.indirect:
        return tuple(ndarray_of(each, dialect) for each in reading.found)
    branches = read_outline(text, dialect, spans=False).arrays
    tagged = (branch.array for branch in branches if dialect.is_ndarray(branch.tag))
    return tuple(array for array in tagged if array is not None)
