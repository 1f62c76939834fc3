"""The engine ``asdffs`` of xarray: ``xarray.open_dataset("l2.asdf", engine="asdffs")``.

xarray finds it through the entry point ``xarray.backends``.  The process that computes values reads the file, and of
that only the elements that are asked for.  Values have the byte order of this machine, as with the other engines of
xarray.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import xarray
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core.indexing import ExplicitIndexer, IndexingSupport, LazilyIndexedArray, explicit_indexing_adapter

from asdffs.document.arrays.reference import ArrayReference, open_files
from asdffs.document.opening import open_to_read
from asdffs.errors import UsageError
from asdffs.features.datasets.conversion import Conversion
from asdffs.features.datasets.variables import Dataset, Variable, describe
from asdffs.storage.urls import is_remote
from asdffs.tree.paths import Path, format_path, name_of, parse_path

_ENDING: Final = ".asdf"


class AsdfBackend(BackendEntrypoint):  # type: ignore[misc]  # xarray's annotations are not read
    """Opens the arrays of an ASDF file as an ``xarray.Dataset``."""

    description = "ASDF files, local or in an object store, read lazily by asdffs"
    url = "https://asdffs.readthedocs.io"
    open_dataset_parameters = ("filename_or_obj", "drop_variables", "mask_and_scale", "group", "axes", "units")

    def open_dataset(
        self,
        filename_or_obj: str | os.PathLike[str],
        *,
        drop_variables: str | Iterable[str] | None = None,
        mask_and_scale: bool | None = None,
        group: str | None = None,
        axes: Mapping[str, Sequence[str]] | None = None,
        units: Mapping[str, str] | None = None,
    ) -> Any:
        """Return the dataset of a file or URL.

        ``drop_variables``: names of variables to leave out.  ``mask_and_scale``: missing elements are NaN, and
        integers with missing elements are floats (the default).  False: values are as in the file, and the mask is a
        variable.  ``group``, ``axes``: as for ``variables.describe``.  ``units``: name of a variable -> the unit
        that its values get, so that files with different units can be combined.

        Raises ``UsageError``, also if a unit cannot be converted, or as ``asdffs.open``.  Warns of arrays that cannot
        be shown.
        """
        path = _path_of(filename_or_obj)
        document = open_to_read(path)
        open_files.keep(document.location, document)
        found = describe(document, group, axes)
        for name, reason in found.left_out.items():
            warnings.warn(f"{document.path}: {name} is left out: {reason}", stacklevel=3)
        dropped = {drop_variables} if isinstance(drop_variables, str) else {*(drop_variables or ())}
        masking = mask_and_scale is not False
        _convert(found, units or {})
        shown = _shown(found, masking=masking)
        variables = {
            name: _variable(found, one, masking=masking) for name, one in shown.items() if name not in dropped
        }
        dataset = xarray.Dataset(variables, attrs=_for_netcdf(found.attributes))
        dataset.set_close(_keep_open)
        return dataset

    def open_groups_as_dict(self, filename_or_obj: str | os.PathLike[str], **settings: Any) -> dict[str, Any]:
        """Return a dataset for each mapping of the tree that has arrays, by its path in a mount: ``/``, ``/roman``.

        ``settings``: as for ``open_dataset``.  Each dataset has the arrays and scalars of its mapping, and scalars of
        mappings in it that have no arrays.  Raises and warns as ``open_dataset``.
        """
        whole = self.open_dataset(filename_or_obj, **{"group": "/", **settings})
        groups, attributes = _in_groups([*whole.variables], whole.attrs)
        found = {}
        for path, names in groups.items():
            dataset = whole[[*names]].rename(names)
            dataset.attrs = attributes[path]
            found["/" + "/".join(map(name_of, path))] = dataset
        return found

    def open_datatree(self, filename_or_obj: str | os.PathLike[str], **settings: Any) -> Any:
        """Return the tree of ``open_groups_as_dict``."""
        return xarray.DataTree.from_dict(self.open_groups_as_dict(filename_or_obj, **settings))

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return whether the name ends as that of an ASDF file, so that ``engine`` is not needed."""
        if not isinstance(filename_or_obj, (str, os.PathLike)):
            return False
        return os.fspath(filename_or_obj).partition("?")[0].lower().endswith(_ENDING)


def _keep_open() -> None:
    """Close nothing: other datasets may read the same file, and ``open_files`` closes those that nobody used lately.

    xarray cannot close several files at once if one has nothing to be called.
    """


def _for_netcdf(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes of types that netCDF has: a boolean is 0 or 1 of 8 bits."""
    return {name: np.int8(value) if isinstance(value, bool) else value for name, value in attributes.items()}


def _in_groups(
    names: Sequence[str], attributes: Mapping[str, Any]
) -> tuple[dict[Path, dict[str, str]], dict[Path, dict[str, Any]]]:
    """Return the variables of each group, each with its name there, and the attributes of each group.

    A group is the path of a mapping; what is below a variable, as its mask, is in the group of the variable.
    """
    paths = {name: parse_path(name) for name in names}
    places = {name: _place(path, {*paths.values()}) for name, path in paths.items()}
    groups = {path: dict[str, str]() for path in sorted(_with_parents(places.values()), key=len)}
    for name, place in places.items():
        groups[place][name] = format_path(paths[name][len(place) :]).replace("/", "%2F")  # a name has no slash here
    found = {path: dict[str, Any]() for path in groups}
    for name, value in attributes.items():
        steps = parse_path(name)
        path = next(steps[:end] for end in range(len(steps) - 1, -1, -1) if steps[:end] in groups)
        found[path][format_path(steps[len(path) :])] = value
    return groups, found


def _place(path: Path, variables: set[Path]) -> Path:
    place = path[:-1]
    while place in variables:
        place = place[:-1]
    return place


def _with_parents(places: Iterable[Path]) -> set[Path]:
    return {place[:end] for place in places for end in range(len(place) + 1)} | {()}


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
    return bool(one.mask) and one.dtype.kind in "fciu"


def _convert(found: Dataset, wanted: Mapping[str, str]) -> None:
    """Give variables the units that the caller wants.  Raises ``UsageError``, ``NotSupportedError``."""
    for name, unit in wanted.items():
        if name not in found.variables:
            known = ", ".join(sorted(found.variables)) or "none"
            raise UsageError(f"units: there is no variable {name!r}; there are {known}")
        one = found.variables[name]
        one.conversion = Conversion(name, one.attributes.get("units", ""), unit)
        one.attributes["units"] = unit


def _variable(found: Dataset, one: Variable, *, masking: bool) -> Any:
    mask = found.variables[one.mask].array.reference() if masking and _is_masked(one) else None
    reference = one.array.reference()
    lazy = LazyArray(reference, one.shape, one.dtype, one.fields, mask, one.conversion)
    variable = xarray.Variable(one.axes, LazilyIndexedArray(lazy), one.attributes)
    if reference.chunks is not None:  # without these, xarray lets dask choose
        variable.encoding["preferred_chunks"] = dict(zip(one.axes, reference.chunks, strict=False))
    return variable


class LazyArray(BackendArray):  # type: ignore[misc]  # xarray's annotations are not read
    """The elements of ``reference``, or the field of its records to which the names ``fields`` lead.

    ``shape``: that of the variable: the axes of the array, then those of the field.  ``dtype``: of its elements in
    the file.  ``mask``: if given, elements for which it is true are NaN, and integers become floats.  numpy can
    broadcast it to the shape of the array.  One element of the mask is for the whole field of a record, also if the
    field has axes of its own.

    ``conversion``: into another unit.

    It can be pickled, and used by any thread or process.
    """

    def __init__(
        self,
        reference: ArrayReference,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        fields: tuple[str, ...] = (),
        mask: ArrayReference | None = None,
        conversion: Conversion | None = None,
    ) -> None:
        self._conversion = conversion
        self._reference = reference
        self._fields = fields
        self._mask = mask
        self.shape = shape
        self._stored = dtype.newbyteorder("=") if mask is None else with_nan(dtype)
        self.dtype = self._stored if conversion is None else conversion.dtype_of(self._stored)

    def __getitem__(self, key: ExplicitIndexer) -> Any:
        """Return the elements that an indexer of xarray selects.  Raises as ``ArrayReference.__getitem__``."""
        return explicit_indexing_adapter(key, self.shape, IndexingSupport.OUTER, self._read)

    def __dask_tokenize__(self) -> tuple[object, ...]:
        """Return what makes two of them equal for dask: the versions of the files, and what is read of them."""
        mask = None if self._mask is None else self._mask.__dask_tokenize__()
        units = None if self._conversion is None else (self._conversion.stated, self._conversion.wanted)
        return (*self._reference.__dask_tokenize__(), self._fields, str(self.dtype), mask, units)

    def _read(self, key: tuple[Any, ...]) -> Any:
        found = self._selected(key)
        return found if self._conversion is None else self._conversion(found).astype(self.dtype, copy=False)

    def _selected(self, key: tuple[Any, ...]) -> Any:
        axes = self._reference.ndim
        found = self._reference.outer(key[:axes])
        for name in self._fields:
            found = found[name]
        if len(key) > axes:
            found = _select_last(found, key[axes:])
        found = np.asarray(found)
        if self._mask is None:
            return found.astype(self._stored, copy=False)
        masked = found.astype(self._stored)
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


def _select_last(found: Any, key: tuple[Any, ...]) -> Any:
    """Select from the last axes, each key for its own axis."""
    behind = 0
    for one in reversed(key):  # from the last axis on, so that an integer, which drops its axis, moves no other
        found = found[(..., one, *[slice(None)] * behind)]
        behind += not isinstance(one, (int, np.integer))
    return found
