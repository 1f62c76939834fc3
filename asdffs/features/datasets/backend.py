"""The engine ``asdffs`` of xarray: ``xarray.open_dataset("l2.asdf", engine="asdffs")``.

xarray finds it through the entry point ``xarray.backends``.  The process that computes values reads the file.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import xarray
from xarray.backends import BackendEntrypoint
from xarray.core.indexing import LazilyIndexedArray

from asdffs.document.arrays.reference import open_files
from asdffs.document.opening import open_to_read
from asdffs.errors import UsageError
from asdffs.features.datasets.lazy import LazyArray, can_mask
from asdffs.features.datasets.variables import Dataset, Variable, describe
from asdffs.storage.urls import is_remote

_ENDING: Final = ".asdf"


class AsdfBackend(BackendEntrypoint):  # type: ignore[misc]  # xarray's annotations are not read
    """Opens the arrays of an ASDF file as an ``xarray.Dataset``."""

    description = "ASDF files, local or in an object store, read lazily by asdffs"
    url = "https://asdffs.readthedocs.io"
    open_dataset_parameters = ("filename_or_obj", "drop_variables", "mask_and_scale", "group", "axes")

    def open_dataset(
        self,
        filename_or_obj: str | os.PathLike[str],
        *,
        drop_variables: str | Iterable[str] | None = None,
        mask_and_scale: bool | None = None,
        group: str | None = None,
        axes: Mapping[str, Sequence[str]] | None = None,
    ) -> Any:
        """Return the dataset of a file or URL.

        ``drop_variables``: names of variables to leave out.  ``mask_and_scale``: missing elements are NaN, and
        integers with missing elements are floats (the default).  False: values are as in the file, and the mask is a
        variable.  ``group``, ``axes``: as for ``variables.describe``.

        Raises ``UsageError``, or as ``asdffs.open``.  Warns of arrays that cannot be shown.
        """
        path = _path_of(filename_or_obj)
        document = open_to_read(path)
        open_files.keep(document.location, document)
        found = describe(document, group, axes)
        for name, reason in found.left_out.items():
            warnings.warn(f"{document.path}: {name} is left out: {reason}", stacklevel=3)
        dropped = {drop_variables} if isinstance(drop_variables, str) else {*(drop_variables or ())}
        masking = mask_and_scale is not False
        shown = _shown(found, masking=masking)
        variables = {
            name: _variable(found, one, masking=masking) for name, one in shown.items() if name not in dropped
        }
        return xarray.Dataset(variables, attrs=found.attributes)

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return whether the name ends as that of an ASDF file, so that ``engine`` is not needed."""
        if not isinstance(filename_or_obj, (str, os.PathLike)):
            return False
        return os.fspath(filename_or_obj).partition("?")[0].lower().endswith(_ENDING)


def _path_of(place: Any) -> str:
    """Return a URL, or an absolute path.  Raises ``UsageError`` for other objects, such as open files."""
    if not isinstance(place, (str, os.PathLike)):
        raise UsageError(f"give a path or a URL, not {type(place).__name__}: workers open the file themselves")
    path = os.fspath(place)
    return path if is_remote(path) else os.path.abspath(os.path.expanduser(path))


def _shown(found: Dataset, *, masking: bool) -> dict[str, Variable]:
    """Return the variables; a mask is left out if all variables that use it show its elements as NaN."""
    if not masking:
        return found.variables
    masks = {one.mask for one in found.variables.values() if _is_masked(one)}
    needed = {one.mask for one in found.variables.values() if not _is_masked(one)}
    return {name: one for name, one in found.variables.items() if name not in masks - needed}


def _is_masked(one: Variable) -> bool:
    """Return whether missing elements can be NaN, and there are any."""
    return bool(one.mask) and can_mask(one.dtype)


def _variable(found: Dataset, one: Variable, *, masking: bool) -> Any:
    mask = found.variables[one.mask].array.reference() if masking and _is_masked(one) else None
    reference = one.array.reference()
    lazy = LazyArray(reference, one.shape, one.dtype, one.fields, mask)
    variable = xarray.Variable(one.axes, LazilyIndexedArray(lazy), one.attributes)
    if reference.chunks is not None:  # without these, xarray lets dask choose
        variable.encoding["preferred_chunks"] = dict(zip(one.axes, reference.chunks, strict=False))
    return variable
