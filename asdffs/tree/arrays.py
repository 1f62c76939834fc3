"""Finds all arrays of a tree and the blocks that they refer to; all other modules get the references from here.

One pass over the text checks it and finds the arrays.  If an array contains an alias or a merge key, such as
``source: *n``, the arrays are taken from the outline instead, which resolves these.  Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from asdffs.dialects.base import Dialect
from asdffs.tree.collected import Found, Reading
from asdffs.tree.events import read_tree
from asdffs.tree.ndarrays import Ndarray, ndarray_of

_SKIP: Final = frozenset({"data"})


def find_arrays(
    text: bytes, dialect: Dialect, go_on: Callable[[], bool] = lambda: True, *, unique: bool = False
) -> tuple[Ndarray, ...]:
    """Return all ndarrays of the tree in ``text``; ``unique``: refuse duplicate keys.  Raises as ``read_tree``."""
    arrays: list[Ndarray] = []
    look_at_arrays(text, dialect, arrays.append, go_on, unique=unique, anew=arrays.clear)
    return tuple(arrays)


def look_at_arrays(
    text: bytes,
    dialect: Dialect,
    take: Callable[[Ndarray], object],
    go_on: Callable[[], bool] = lambda: True,
    *,
    unique: bool = False,
    anew: Callable[[], object],
    first_key: int | None = None,
) -> Reading:
    """Pass each ndarray of the tree to ``take``, so that a million of them need not be kept.  See ``find_arrays``.

    ``anew`` is called before all of them are passed a second time, because one contains an alias.  The reading has
    the entries of large mappings; see ``read_tree``, also for ``first_key``.
    """

    def taken(found: Found) -> None:
        take(ndarray_of(found, dialect))

    reading = read_tree(text, dialect.is_ndarray, _SKIP, go_on, unique=unique, take=taken, first_key=first_key)
    if not reading.indirect:
        return reading
    from asdffs.tree.outline import read_outline

    anew()
    branches = read_outline(text, dialect, spans=False).arrays
    for branch in branches:
        if branch.array is not None and dialect.is_ndarray(branch.tag):
            take(branch.array)
    return reading
