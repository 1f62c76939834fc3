"""Writes the metadata of groups and arrays as Zarr 2 and 3 have them, with the names of axes for xarray.  Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from asdffs.errors import NotPermittedError

if TYPE_CHECKING:
    import numpy as np

_DATATYPES: Final = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}
_AXES: Final = "_ARRAY_DIMENSIONS"
_FILL: Final = "_FillValue"
#: The codec for short last chunks (``padding``).
_PAD: Final = "asdffs_pad"


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """An array for Zarr.

    ``dtype``: of the stored elements.  If ``made`` is given, it is the dtype of the values, which are the stored
    elements plus ``zero``.  ``missing``: the value of missing integers, None if none are missing.  ``codec``: that of
    compressed chunks, as numcodecs describes it.  ``padded``: the bytes of a chunk if the last one has fewer, else 0.
    """

    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    dtype: np.dtype[Any]
    axes: tuple[str, ...]
    attributes: Mapping[str, Any]
    made: np.dtype[Any] | None = None
    zero: int = 0
    missing: int | None = None
    codec: Mapping[str, Any] | None = None
    padded: int = 0


class Zarr2:
    """Zarr 2 with the names of axes in ``_ARRAY_DIMENSIONS``."""

    def group(self, attributes: Mapping[str, Any]) -> dict[str, str]:
        """Return the files of a group: name -> text."""
        return {".zgroup": _json({"zarr_format": 2}), ".zattrs": _json(attributes)}

    def array(self, array: ArrayFacts) -> dict[str, str]:
        """Return the files of an array.  Raises ``NotPermittedError`` if Zarr has no such datatype."""
        check_dtype(array.dtype)
        shown = (array.made or array.dtype).str
        metadata = {
            "zarr_format": 2,
            "shape": array.shape,
            "chunks": array.chunk,
            "dtype": shown,
            "order": "C",
            "compressor": array.codec,
            "filters": _filters(array) or None,
            "fill_value": array.missing,
        }
        attributes = {**array.attributes, _AXES: array.axes, **_filled(array)}
        return {".zarray": _json(metadata), ".zattrs": _json(attributes)}

    def key(self, index: Sequence[int]) -> str:
        """Return the name of the file of a chunk."""
        return ".".join(map(str, index)) or "0"


class Zarr3:
    """Zarr 3.  See ``Zarr2``."""

    def group(self, attributes: Mapping[str, Any]) -> dict[str, str]:
        """See ``Zarr2``."""
        return {"zarr.json": _json({"zarr_format": 3, "node_type": "group", "attributes": attributes})}

    def array(self, array: ArrayFacts) -> dict[str, str]:
        """See ``Zarr2``."""
        check_dtype(array.dtype)
        order = "big" if array.dtype.str[0] == ">" else "little"
        ends: dict[str, Any] = {"name": "bytes"}
        if array.dtype.itemsize > 1:
            ends["configuration"] = {"endian": order}
        added = [{"name": "numcodecs.fixedscaleoffset", "configuration": _added(array)}] if array.made else []
        pad = [{"name": f"numcodecs.{_PAD}", "configuration": {"size": array.padded}}] if array.padded else []
        metadata = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": array.shape,
            "data_type": _datatype(array.made or array.dtype),
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": array.chunk}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": _zero(array.dtype),
            "codecs": [*added, ends, *pad, *_compressed(array)],
            "attributes": {**array.attributes, **_filled(array)},
            "dimension_names": array.axes,
        }
        return {"zarr.json": _json(metadata)}

    def key(self, index: Sequence[int]) -> str:
        """See ``Zarr2``."""
        return "/".join(("c", *map(str, index)))


#: A version of Zarr.
ZarrFormat = Zarr2 | Zarr3


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def check_dtype(dtype: np.dtype[Any]) -> None:
    """Raise ``NotPermittedError`` with the reason if Zarr has no such datatype."""
    if dtype.kind not in "biufcSU" or not dtype.itemsize:
        raise NotPermittedError("its elements are records" if dtype.names else "its elements have no bytes")


def _datatype(dtype: np.dtype[Any]) -> Any:
    """Return the data type of Zarr 3."""
    if dtype.kind in "SU":
        name = "null_terminated_bytes" if dtype.kind == "S" else "fixed_length_utf32"
        return {"name": name, "configuration": {"length_bytes": dtype.itemsize}}
    return "bool" if dtype.kind == "b" else f"{_DATATYPES[dtype.kind]}{8 * dtype.itemsize}"


def _zero(dtype: np.dtype[Any]) -> Any:
    """Return a fill value, which Zarr 3 demands.  No chunk is missing, so nothing is filled."""
    return {"b": False, "S": "", "U": "", "c": [0.0, 0.0]}.get(dtype.kind, 0)


def _added(array: ArrayFacts) -> dict[str, Any]:
    """Return the settings of the codec of numcodecs that adds ``zero``."""
    return {"scale": 1, "offset": array.zero, "dtype": (array.made or array.dtype).str, "astype": array.dtype.str}


def _filters(array: ArrayFacts) -> list[dict[str, Any]]:
    """Return the filters of Zarr 2, in the order in which a writer would use them."""
    added = [_added(array) | {"id": "fixedscaleoffset"}] if array.made else []
    return [*added, {"id": _PAD, "size": array.padded}] if array.padded else added


def _compressed(array: ArrayFacts) -> list[dict[str, Any]]:
    """Return the codec of compressed chunks for Zarr 3, which has one of numcodecs's in its standard."""
    if array.codec is None:
        return []
    if array.codec["id"] == "zstd":
        return [{"name": "zstd", "configuration": {"level": array.codec["level"], "checksum": False}}]
    settings = {name: value for name, value in array.codec.items() if name != "id"}
    return [{"name": f"numcodecs.{array.codec['id']}", "configuration": settings}]


def _filled(array: ArrayFacts) -> dict[str, Any]:
    """Return the attribute by which xarray knows missing elements, as its Zarr engine writes it."""
    return {} if array.missing is None else {_FILL: array.missing}
