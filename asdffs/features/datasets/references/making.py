"""Makes the references of one file, or of several files whose arrays are stacked along a new axis ``file``.

No element is read: a reference is a URL, an offset and a length.  References do not follow a file that changes, so
what tells its version is among the attributes (``FILES``); ``checking`` compares it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from asdffs.document.arrays.finding import Stored
from asdffs.document.document import Document
from asdffs.errors import AsdffsError, NotPermittedError, UsageError
from asdffs.features.datasets.attributes import for_json
from asdffs.features.datasets.references.grid import Grid, grid_of
from asdffs.features.datasets.references.zarr_metadata import ArrayFacts, ZarrFormat, check_dtype
from asdffs.features.datasets.variables import Dataset, Variable, describe
from asdffs.storage.urls import is_remote, parse_url
from asdffs.tree.resolving import plain_value

if TYPE_CHECKING:
    import numpy as np

#: The attribute with the files: ``url``, ``size``, and ``mtime_ns`` or ``etag`` of each.
FILES: Final = "asdffs_files"
#: The axis along which several files are stacked.
AXIS: Final = "file"
LOCAL: Final = "file://"
#: A slash separates names in Zarr, and readers of Zarr take a backslash for one.
_SEPARATORS: Final = {"/": "slash", "\\": "backslash"}


@dataclass(frozen=True, slots=True)
class _Part:
    """An array in one file: ``stored`` elements, cut by ``grid``, and what Zarr says about it."""

    facts: ArrayFacts
    stored: Stored
    grid: Grid


@dataclass(slots=True)
class FileArrays:
    """One file: its arrays by the names of their variables, its attributes, and the versions of files by URL.

    ``left_out``: path of an array -> why it has no references.
    """

    path: str
    attributes: dict[str, Any]
    parts: dict[str, _Part] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    versions: dict[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class References:
    """``refs``: the content of the JSON file.  ``arrays``: names of the arrays that it has.

    ``left_out``: path of another array -> why it has no references.
    """

    refs: dict[str, Any]
    left_out: dict[str, str]
    arrays: list[str]


def arrays_of(document: Document, group: str | None = None) -> FileArrays:
    """Return the arrays of a file that references can describe.  ``group``: as for ``describe``.

    Raises as ``describe``, and ``UsageError`` for a URL that may be secret.
    """
    found = describe(document, group)
    file = FileArrays(document.path, for_json(found.attributes), left_out=dict(found.left_out))
    file.versions[url_of(document.location)] = document.validators()
    for name, one in found.variables.items():
        try:
            part = _part(found, one)
        except AsdffsError as err:
            file.left_out[one.path] = err.sentence
            continue
        if part is not None:
            file.parts[name] = part
            file.versions[url_of(part.stored.path)] = part.stored.version
    return file


def make_references(files: Sequence[FileArrays], zarr: ZarrFormat) -> References:
    """Return the references of ``files``.  ``zarr``: the version of Zarr to write.

    An array that not all files have in the same form is left out.  Raises ``UsageError`` without a file.
    """
    if not files:
        raise UsageError("give at least one file")
    parts, left_out = _common(files)
    attributes = {
        name: value
        for name, value in files[0].attributes.items()
        if all(file.attributes.get(name) == value for file in files)
    }
    versions = {url: version for file in files for url, version in file.versions.items()}
    attributes[FILES] = [{"url": url, **version} for url, version in versions.items()]
    refs: dict[str, Any] = dict(zarr.group(attributes))
    for name, of_files in parts.items():
        refs |= {f"{name}/{key}": text for key, text in zarr.array(_facts(of_files)).items()}
        refs |= {f"{name}/{zarr.key(index)}": place for index, place in _places(of_files)}
    return References({"version": 1, "refs": refs}, left_out, list(parts))


def _part(found: Dataset, one: Variable) -> _Part | None:
    """Return the array of a variable; None for a mask that its array states as a value of its own."""
    import numpy as np

    if one.array.states_value:
        return None
    if one.fields:
        raise NotPermittedError("its elements are records")
    if wrong := next((sign for sign in _SEPARATORS if sign in one.name), ""):
        raise NotPermittedError(f"its name has a {_SEPARATORS[wrong]}")
    stored = one.array.stored()
    dtype = np.dtype(stored.descr)
    check_dtype(dtype)
    grid = grid_of(stored.shape, stored.strides, dtype.itemsize)
    made = np.dtype(stored.made) if stored.made else None
    zarr = (one.axes, one.attributes, made, stored.zero, _missing(found, one))
    return _Part(ArrayFacts(stored.shape, grid.chunk, dtype, *zarr), stored, grid)


def _missing(found: Dataset, one: Variable) -> int | None:
    """Return the integer that stands for missing elements.  Raises ``NotPermittedError`` for other such values."""
    mask = found.variables.get(one.mask)
    if mask is None or not mask.array.states_value:
        return None
    stated = one.array.branch.scalars["mask"].text
    value = plain_value(stated)
    if one.dtype.kind in "iu" and isinstance(value, int):
        return int(value) if _has(one.dtype, value) else None
    if one.dtype.kind == "f" and isinstance(value, float) and value != value:
        return None  # NaN is missing without a word about it
    raise NotPermittedError(f"its missing elements are those close to {stated[:40]}, which Zarr cannot say")


def _has(dtype: np.dtype[Any], value: int) -> bool:
    import numpy as np

    limits = np.iinfo(dtype)
    return bool(limits.min <= value <= limits.max)


def _common(files: Sequence[FileArrays]) -> tuple[dict[str, list[_Part]], dict[str, str]]:
    """Return the arrays that all files have in the same form, and why others are left out."""
    left_out = functools.reduce(lambda known, file: {**file.left_out, **known}, files, dict[str, str]())
    common: dict[str, list[_Part]] = {}
    for name, first in files[0].parts.items():
        if name == AXIS and len(files) > 1:
            left_out[name] = "the axis along which files are stacked has its name"
            continue
        other = next((file for file in files if not _is_like(file.parts.get(name), first)), None)
        if other is None:
            common[name] = [file.parts[name] for file in files]
        else:
            left_out.setdefault(name, f"{other.path} has none like that of {files[0].path}")
    for file in files[1:]:
        for name in file.parts.keys() - files[0].parts.keys():
            left_out.setdefault(name, f"{files[0].path} has none like that of {file.path}")
    return common, left_out


def _is_like(part: _Part | None, first: _Part) -> bool:
    """Return whether two arrays can be stacked; names of axes and attributes may differ."""
    if part is None:
        return False
    return replace(part.facts, attributes={}, axes=()) == replace(first.facts, attributes={}, axes=())


def _facts(parts: list[_Part]) -> ArrayFacts:
    """Return what Zarr says about an array; of several files, with the axis ``file``."""
    facts = parts[0].facts
    if len(parts) == 1:
        return facts
    attributes = {
        key: value
        for key, value in facts.attributes.items()
        if all(part.facts.attributes.get(key) == value for part in parts)
    }
    shape, chunk, axes = (len(parts), *facts.shape), (1, *facts.chunk), (AXIS, *facts.axes)
    return replace(facts, shape=shape, chunk=chunk, axes=axes, attributes=attributes)


def _places(parts: list[_Part]) -> Iterator[tuple[tuple[int, ...], list[Any]]]:
    """Yield the index of each chunk, and its URL, offset and length in bytes."""
    for number, part in enumerate(parts):
        length = part.facts.dtype.itemsize
        for count in part.grid.chunk:
            length *= count
        url = url_of(part.stored.path)
        for index, offset in part.grid.chunks():
            yield ((number, *index) if len(parts) > 1 else index), [url, part.stored.offset + offset, length]


def url_of(path: str) -> str:
    """Return the URL of a file, local or remote.  Raises ``UsageError`` if it may be secret."""
    if not is_remote(path):
        return f"{LOCAL}{path}"
    url = parse_url(path)
    if url.text != url.shown:
        raise UsageError("references keep no URL with a query or a user, which may be secret", path=url.shown)
    return url.text
