"""Finds all arrays of a tree and the blocks that they refer to; all other modules get the references from here.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from asdffs.arrays.ndarrays import Ndarray, ndarray_of
from asdffs.dialects.base import Dialect
from asdffs.tree.rules import check_tree
from asdffs.tree.tagged import find_tagged
from asdffs.tree.tape import Tape

_SKIP: Final = frozenset({"data"})


def find_arrays(
    text: bytes, dialect: Dialect, go_on: Callable[[], bool] = lambda: True, *, unique: bool = False
) -> tuple[Ndarray, ...]:
    """Return all ndarrays of the tree in ``text``, after a check of the whole tree (``check_tree``).

    ``unique``: refuse duplicate keys.  Raises as ``Tape``.
    """
    tape = Tape(text, go_on)
    check_tree(tape, unique=unique)
    return tuple(arrays_of(tape, dialect))


def arrays_of(tape: Tape, dialect: Dialect) -> Iterator[Ndarray]:
    """Yield all ndarrays of a tree, one at a time: there may be a million.  Raises ``InvalidTreeError``."""
    return (ndarray_of(found, dialect) for found in find_tagged(tape, dialect.is_ndarray, _SKIP))
