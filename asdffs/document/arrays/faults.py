"""Finds faults in the arrays of a tree, with the sentences with which views and the Python API refuse to show them.

``arrays/placement`` checks the place of elements in their block.  This module also checks values in the tree and
masks, for ``check``.  The caller holds the main lock; other requests are served while values are read.
"""

from __future__ import annotations

from collections.abc import Iterator

from asdffs.arrays.branch import Branch
from asdffs.arrays.chunked import Chunked
from asdffs.arrays.inline import check_inline
from asdffs.arrays.ndarrays import Ndarray
from asdffs.arrays.placement import ArrayFault, array_errors, block_of, check_mask_shape, fault_in_block
from asdffs.document.arrays.chunks import missing_library
from asdffs.document.arrays.elements import Elements
from asdffs.document.arrays.finding import elements_of
from asdffs.document.arrays.masks import ValueMask
from asdffs.document.state import FileState
from asdffs.errors import DamagedBlockError, InvalidArrayError

_MASK = "mask"


def find_faults(file: FileState) -> Iterator[ArrayFault]:
    """Yield the faults of all arrays in the committed tree, except for those with elements in other ASDF files.

    A damaged block is not a fault of its array.  Raises ``OSError``.
    """
    for branch in file.outlines.outline().arrays:
        if branch.array is None:
            continue
        sentence = _fault_of(file, branch, branch.array)
        if sentence:
            yield ArrayFault(branch.array, sentence)


def _fault_of(file: FileState, branch: Branch, array: Ndarray) -> str:
    contents, outside = file.contents, isinstance(array.source, str)
    if branch.inline is None and array.pieces is None and not outside:
        sentence = fault_in_block(array, len(file.table), contents.stated_size)
        if sentence:
            return sentence
    try:
        with array_errors(branch.line):
            if outside:  # in the file around the ASDF file, or in another ASDF file
                if file.region(array.source) is not None:
                    elements_of(file, branch)
            elif not _has_no_codec(file, branch, array):
                _check_mask(file, branch, elements_of(file, branch))
                if branch.inline is not None:
                    check_inline(file.outlines.outline(), branch, file.budget)
    except InvalidArrayError as err:
        return err.sentence
    except (DamagedBlockError, OSError):
        return ""
    return ""


def _has_no_codec(file: FileState, branch: Branch, array: Ndarray) -> bool:
    """Return whether the elements cannot be decoded here, which is not a fault of the array."""
    if array.pieces is not None:
        return isinstance(array.pieces, Chunked) and bool(missing_library(array.pieces))
    return branch.inline is None and bool(file.contents.codecs.obstacle(block_of(len(file.table), array)))


def _check_mask(file: FileState, branch: Branch, elements: Elements) -> None:
    """Raise ``InvalidArrayError`` if the mask does not fit (schema core/ndarray: it must be broadcastable)."""
    if _MASK in branch.scalars:
        ValueMask(elements, branch.scalars[_MASK], file.scheduler)
    mask = branch.children.get(_MASK)
    if mask is None or mask.array is None or isinstance(mask.array.source, str):
        return
    check_mask_shape(elements_of(file, mask).shape, elements.shape)
