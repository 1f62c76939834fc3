"""Arrays of an ``asdf.AsdfFile`` whose elements asdffs reads.

Implements the schema core/ndarray as the asdf library shows it: with masks, and with elements that may be assigned
in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from asdf.tags.core import NDArrayType

from asdffs.arrays.branch import Branch
from asdffs.arrays.datatypes import descr_of
from asdffs.arrays.ndarrays import Ndarray, ndarray_of
from asdffs.document.arrays.array import Array
from asdffs.document.document import Document
from asdffs.errors import StaleFileError
from asdffs.tree.tagged import Found


class LazyArray(NDArrayType):  # type: ignore[misc]  # the asdf library has no types here
    """An array of a file: shape and dtype cost nothing, a slice reads its elements, everything else reads all.

    What is read as a whole is kept, and can be changed in memory, as with the asdf library.  ``mask``: that of the
    tree, an array or the value that masked elements have, or None.
    """

    def __init__(self, array: Array, stated: Ndarray, mask: Any) -> None:
        shape = array.shape if stated.shape is None else stated.shape
        known = isinstance(stated.source, int)  # integers in a FITS file may be converted
        dtype = np.dtype(descr_of(stated.datatype, stated.byteorder)) if known else array.dtype
        super().__init__(stated.source, list(shape), dtype, 0, None, "A", mask)
        self._from = array
        self._array: Any = self._array  # None until all of it was read
        #: Called when all of it was read.
        self.noted: Callable[[LazyArray], None] = lambda array: None

    def _make_array(self) -> Any:
        if self._array is None:
            self._array = self._apply_mask(self._from[...], self._mask)
            self.noted(self)
        return self._array

    def __getitem__(self, index: Any) -> Any:
        """Return the elements, as an ndarray; masked if the array has a mask.  Raises as ``Array.__getitem__``."""
        if self._array is not None:
            return self._array[index]
        part = self._from[index]
        if self._mask is None:
            return part
        mask = self._mask if np.isscalar(self._mask) else np.asarray(self._mask[index])
        return self._apply_mask(np.asarray(part), mask)[()]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:  # noqa: FBT001  # numpy's
        """Return all elements, for numpy."""
        return np.array(self._make_array(), dtype, copy=copy, subok=True)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return all elements to pickle: another process may not have the file."""
        return np.asarray, (self._make_array(),)


def lazy_array(file: Document, node: Mapping[str, Any], tag: str) -> LazyArray:
    """Return the array of ``file`` that ``node``, a mapping of its tree with a ``source``, describes.

    It does not follow a file that another program changes: its tree may be another one.  Raises
    ``InvalidArrayError``; a block that cannot be read is told when the elements are.
    """
    branch, generation = Branch(tag, (), 0), file.generation
    branch.array = stated = ndarray_of(Found((), tag, dict(node), 0), file.dialect)

    def find() -> Branch:
        if file.generation != generation:
            raise StaleFileError("another program changed the file; open it again", path=file.path)
        return branch

    return LazyArray(Array(file, find), stated, node.get("mask"))
