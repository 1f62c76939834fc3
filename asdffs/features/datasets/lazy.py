"""``LazyArray``: an array of a file for xarray, which reads only the elements that are asked for.

xarray splits other indices into an outer one, which is read here, and one for numpy.  Values have the byte order of
this machine, as with the other engines of xarray.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core.indexing import ExplicitIndexer, IndexingSupport, explicit_indexing_adapter

from asdffs.document.arrays.reference import ArrayReference


class LazyArray(BackendArray):  # type: ignore[misc]  # xarray's annotations are not read
    """The elements of ``reference``, or the field of its records to which the names ``fields`` lead.

    ``shape``: that of the variable: the axes of the array, then those of the field.  ``dtype``: of its elements in
    the file.  ``mask``: if given, elements for which it is true are NaN, and integers become floats.  numpy can
    broadcast it to the shape of the array.  One element of the mask is for the whole field of a record, also if the
    field has axes of its own.

    It can be pickled, and used by any thread or process.
    """

    def __init__(
        self,
        reference: ArrayReference,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        fields: tuple[str, ...] = (),
        mask: ArrayReference | None = None,
    ) -> None:
        self._reference = reference
        self._fields = fields
        self._mask = mask
        self.shape = shape
        self.dtype = dtype.newbyteorder("=") if mask is None else with_nan(dtype)

    def __getitem__(self, key: ExplicitIndexer) -> Any:
        """Return the elements that an indexer of xarray selects.  Raises as ``ArrayReference.__getitem__``."""
        return explicit_indexing_adapter(key, self.shape, IndexingSupport.OUTER, self._read)

    def __dask_tokenize__(self) -> tuple[object, ...]:
        """Return what makes two of them equal for dask: the versions of the files, and what is read of them."""
        mask = None if self._mask is None else self._mask.__dask_tokenize__()
        return (*self._reference.__dask_tokenize__(), self._fields, str(self.dtype), mask)

    def _read(self, key: tuple[Any, ...]) -> Any:
        axes = self._reference.ndim
        found = self._reference.outer(key[:axes])
        for name in self._fields:
            found = found[name]
        if len(key) > axes:
            found = _select_last(found, key[axes:])
        found = np.asarray(found)
        if self._mask is None:
            return found.astype(self.dtype, copy=False)
        masked = found.astype(self.dtype)
        masked[np.broadcast_to(self._missing(key, self._mask), masked.shape)] = np.nan
        return masked

    def _missing(self, key: tuple[Any, ...], mask: ArrayReference) -> Any:
        """Return the mask of the elements that ``key`` selects, which numpy can broadcast to their shape."""
        axes = self._reference.ndim
        first = axes - mask.ndim
        lengths = zip(key[first:axes], mask.shape, self.shape[first:axes], strict=True)
        missing = np.asarray(
            mask.outer(tuple(one if length == whole else _only(one) for one, length, whole in lengths))
        )
        added = sum(not isinstance(one, (int, np.integer)) for one in key[axes:])
        return missing.reshape((*missing.shape, *[1] * added)) != 0


def with_nan(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the smallest dtype that has NaN and the values of ``dtype``, up to 53 bits.

    A dtype that is not one of numbers stays as it is.
    """
    native = dtype.newbyteorder("=")
    if native.kind in "fc":
        return native
    return np.result_type(native, np.float16) if native.kind in "iu" else native


def _only(key: Any) -> Any:
    """Return the index for an axis of length 1 of the mask; ``key`` is the index for that axis of the array."""
    return 0 if isinstance(key, (int, np.integer)) else slice(0, 1)


def can_mask(dtype: np.dtype[Any]) -> bool:
    """Return whether there are NaNs for missing elements of ``dtype``: numbers have them."""
    return dtype.kind in "fciu"


def _select_last(found: Any, key: tuple[Any, ...]) -> Any:
    """Select from the last axes, each key for its own axis."""
    behind = 0
    for one in reversed(key):  # from the last axis on, so that an integer, which drops its axis, moves no other
        found = found[(..., one, *[slice(None)] * behind)]
        behind += not isinstance(one, (int, np.integer))
    return found
