"""All arrays of a tree, and which blocks they mean: the one answer to what the tree refers to.

One pass over the text checks it and finds the arrays.  Where one of them has an alias or a merge key in it, such as
``source: *n``, the outline says what that means.  Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from asdffs.dialects.base import Dialect
from asdffs.tree.events import Found, read_tree
from asdffs.tree.ndarrays import Ndarray, ndarray_of
from asdffs.tree.outline import read_outline

_SKIP: Final = frozenset({"data"})


def find_arrays(
    text: bytes, dialect: Dialect, go_on: Callable[[], bool] = lambda: True, *, unique: bool = False
) -> tuple[Ndarray, ...]:
    """All ndarrays of the tree in ``text``; ``unique``: refuse duplicate keys.  Raises as ``read_tree``."""
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
) -> None:
    """As ``find_arrays``, but gives each to ``take``: of a million, none need be kept.

    ``anew`` is called when all of them are given once more, because one has an alias in it.
    """

    def taken(found: Found) -> None:
        take(ndarray_of(found, dialect))

    if not read_tree(text, dialect.is_ndarray, _SKIP, go_on, unique=unique, take=taken).indirect:
        return
    anew()
    branches = read_outline(text, dialect, spans=False).arrays
    for branch in branches:
        if branch.array is not None and dialect.is_ndarray(branch.tag):
            take(branch.array)
