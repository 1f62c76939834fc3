"""References: Zarr arrays whose chunks are bytes of ASDF files, as kerchunk and fsspec describe them in JSON.

They are made for one file, or for several files whose arrays are stacked along a new axis ``file``.  No element is
read: a reference is a URL, an offset and a length.  References do not follow a file that changes, so what tells its
version is among the attributes (``FILES``); ``changed_files`` compares it.

A stored array is cut into chunks that are contiguous in the file.  Readers of Zarr refuse a short last chunk, so the
lengths of a chunk divide those of the array.  Within a chunk the elements have C order, because not all readers of
references know another one.  The pieces of a compressed block are its chunks (``pieces``).
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from asdffs.document.arrays.finding import Location
from asdffs.document.document import Document
from asdffs.errors import AsdffsError, NotAsdfError, NotPermittedError, UsageError, reason_of
from asdffs.features.datasets.metadata import for_json
from asdffs.features.datasets.pieces import Pieces, pieces_of
from asdffs.features.datasets.variables import Dataset, Variable, describe
from asdffs.features.datasets.zarr_metadata import ArrayFacts, ZarrFormat, check_dtype
from asdffs.storage.urls import is_remote, parse_url
from asdffs.tree.resolving import plain_value

#: The attribute with the files: ``url``, ``size``, and ``mtime_ns`` or ``etag`` of each.
FILES: Final = "asdffs_files"
#: The axis along which several files are stacked.
AXIS: Final = "file"
LOCAL: Final = "file://"
_UNITS: Final = "units"
#: A slash separates names in Zarr, and readers of Zarr take a backslash for one.
_SEPARATORS: Final = {"/": "slash", "\\": "backslash"}
#: A chunk has at most so many bytes, if the lengths of the array can be divided.
LARGEST: Final = 16 << 20
#: The most chunks of an axis that is cut to stay below ``LARGEST``, and of an array.
_MOST_CUTS: Final = 4096
_MOST: Final = 100_000


@dataclass(frozen=True, slots=True)
class _Part:
    """An array in one file: ``stored`` elements, cut by ``grid``, and what Zarr says about it.

    ``masked``: it has a mask.
    """

    facts: ArrayFacts
    stored: Location
    grid: Grid | Pieces
    masked: bool


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
    attributes = _agreed([file.attributes for file in files])
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
    stored = one.array.stored(pieces=_MOST)
    dtype = np.dtype(stored.descr)
    check_dtype(dtype)
    made = np.dtype(stored.made) if stored.made else None
    zarr = (one.axes, one.attributes, made, stored.zero, _missing(found, one))
    if stored.compression:
        pieces = pieces_of(stored, dtype.itemsize)
        facts = ArrayFacts(stored.shape, pieces.chunk, dtype, *zarr, pieces.codec, pieces.padded)
        return _Part(facts, stored, pieces, bool(one.mask))
    grid = grid_of(stored.shape, stored.strides, dtype.itemsize, stored.offset)
    return _Part(ArrayFacts(stored.shape, grid.chunk, dtype, *zarr), stored, grid, bool(one.mask))


def _missing(found: Dataset, one: Variable) -> int | None:
    """Return the integer that stands for missing elements.  Raises ``NotPermittedError`` for other such values."""
    import numpy as np

    mask = found.variables.get(one.mask)
    if mask is None or not mask.array.states_value:
        return None
    stated = one.array.branch.scalars["mask"].text
    value = plain_value(stated)
    if one.dtype.kind in "iu" and isinstance(value, int):
        limits = np.iinfo(one.dtype)
        return int(value) if limits.min <= value <= limits.max else None
    if one.dtype.kind == "f" and isinstance(value, float) and value != value:
        return None  # NaN is missing without a word about it
    raise NotPermittedError(f"its missing elements are those close to {stated[:40]}, which Zarr cannot say")


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
            left_out.setdefault(name, _difference(name, other, files[0]))
    for file in files[1:]:
        for name in file.parts.keys() - files[0].parts.keys():
            left_out.setdefault(name, f"{files[0].path} has none like that of {file.path}")
    return common, left_out


def _difference(name: str, other: FileArrays, first: FileArrays) -> str:
    """Return why the arrays of two files are not stacked."""
    part, like = other.parts.get(name), first.parts[name]
    if part is None:
        return f"{other.path} has none like that of {first.path}"
    units = [one.facts.attributes.get(_UNITS, "none") for one in (part, like)]
    if units[0] != units[1]:
        return f"its unit is {units[0]} in {other.path}, and {units[1]} in {first.path}; references convert nothing"
    if part.masked != like.masked:
        return f"it has a mask in {(other if part.masked else first).path}, and not in all files"
    return f"{other.path} has none like that of {first.path}"


def _is_like(part: _Part | None, first: _Part) -> bool:
    """Return whether two arrays can be stacked; names of axes and attributes may differ, but not the unit."""
    if part is None or part.masked != first.masked:
        return False
    if part.facts.attributes.get(_UNITS) != first.facts.attributes.get(_UNITS):
        return False
    return replace(part.facts, attributes={}, axes=()) == replace(first.facts, attributes={}, axes=())


def _agreed(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the attributes that all have, with the same value."""
    return {name: value for name, value in found[0].items() if all(one.get(name) == value for one in found)}


def _facts(parts: list[_Part]) -> ArrayFacts:
    """Return what Zarr says about an array; of several files, with the axis ``file``."""
    facts = parts[0].facts
    if len(parts) == 1:
        return facts
    attributes = _agreed([part.facts.attributes for part in parts])
    shape, chunk, axes = (len(parts), *facts.shape), (1, *facts.chunk), (AXIS, *facts.axes)
    return replace(facts, shape=shape, chunk=chunk, axes=axes, attributes=attributes)


def _places(parts: list[_Part]) -> Iterator[tuple[tuple[int, ...], list[Any]]]:
    """Yield the index of each chunk, and its URL, offset and length in bytes."""
    for number, part in enumerate(parts):
        url = url_of(part.stored.path)
        for index, offset, length in part.grid.chunks():
            yield ((number, *index) if len(parts) > 1 else index), [url, offset, length]


def url_of(path: str) -> str:
    """Return the URL of a file, local or remote.  Raises ``UsageError`` if it may be secret."""
    if not is_remote(path):
        return f"{LOCAL}{path}" if path.startswith("/") else path  # a program's own store may have any scheme
    url = parse_url(path)
    if url.text != url.shown:
        raise UsageError("references keep no URL with a query or a user, which may be secret", path=url.shown)
    return url.text


class Grid(NamedTuple):
    """Chunks with the lengths ``chunk`` of an array with the lengths ``shape``.

    ``strides``, ``item``, the size of an element, and ``start``, the offset of element 0 in the file, are in bytes.
    """

    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    strides: tuple[int, ...]
    item: int
    start: int

    def chunks(self) -> Iterator[tuple[tuple[int, ...], int, int]]:
        """Yield the index of each chunk, and the offset in the file and the length of its bytes."""
        if 0 in self.shape:
            return
        size = self.item * math.prod(self.chunk)
        counts = [length // part for length, part in zip(self.shape, self.chunk, strict=True)]
        steps = [part * stride for part, stride in zip(self.chunk, self.strides, strict=True)]
        for index in itertools.product(*map(range, counts)):
            yield index, self.start + sum(n * step for n, step in zip(index, steps, strict=True)), size


def grid_of(shape: tuple[int, ...], strides: tuple[int, ...], item: int, start: int = 0) -> Grid:
    """Return the chunks of an array.  See ``Grid``.

    Raises ``NotPermittedError`` if the elements do not lie together, or if there were too many chunks.
    """
    if 0 in shape:
        return Grid(shape, tuple(max(1, length) for length in shape), strides, item, start)
    together = max(_candidates(shape, strides, item), key=math.prod)
    if math.prod(together) == 1 < math.prod(shape):
        raise NotPermittedError("its elements do not lie together")
    chunk = _cut(together, item)
    count = math.prod(length // part for length, part in zip(shape, chunk, strict=True))
    if count > _MOST:
        raise NotPermittedError(f"it lies in {count} places; references have room for {_MOST}")
    return Grid(shape, chunk, strides, item, start)


def _candidates(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> Iterator[tuple[int, ...]]:
    """Yield the lengths of what is contiguous in C order: the last axes, and each axis whose elements follow."""
    size, first = item, len(shape)
    while first and (shape[first - 1] == 1 or strides[first - 1] == size):
        first -= 1
        size *= shape[first]
    yield (*[1] * first, *shape[first:])
    for axis, (length, stride) in enumerate(zip(shape, strides, strict=True)):
        if stride == item:
            yield tuple(length if other == axis else 1 for other in range(len(shape)))


def _cut(lengths: tuple[int, ...], item: int) -> tuple[int, ...]:
    """Return the lengths of a part with at most ``LARGEST`` bytes, cut along the first axes that are not 1."""
    part = list(lengths)
    for axis, length in enumerate(lengths):
        row = item * math.prod(lengths[axis + 1 :])
        if row * length <= LARGEST:
            break
        part[axis] = _divisor(length, max(1, LARGEST // row))
        if part[axis] > 1:
            break
    return tuple(part)


def _divisor(length: int, wanted: int) -> int:
    """Return the largest divisor of ``length`` up to ``wanted``, or the next one if that makes too many parts."""
    low = [number for number in range(1, math.isqrt(length) + 1) if not length % number]
    divisors = [*low, *(length // number for number in reversed(low))]
    fitting = [number for number in divisors if number <= wanted and length // number <= _MOST_CUTS]
    return fitting[-1] if fitting else next(number for number in divisors if length // number <= _MOST_CUTS)


def changed_files(text: bytes, open_file: Callable[[str], Document]) -> Iterator[tuple[str, str]]:
    """Yield each file of references: its URL, and why the references do not fit any more; empty if they do.

    A file at a URL is not asked for: the text may be a stranger's, and the user's credentials would go along.
    ``text``: the JSON file.  ``open_file(path)`` opens a file.  Raises ``NotAsdfError`` if these are no references
    with files.
    """
    for stated in _files_of(text):
        url = str(stated["url"])
        path = url.removeprefix(LOCAL)
        if is_remote(path):
            yield url, "is not asked: a file of references leads to no server"
            continue
        try:
            with closing(open_file(path)) as document:
                now = document.validators()
        except (AsdffsError, OSError) as err:
            yield url, err.sentence if isinstance(err, AsdffsError) else reason_of(err)
            continue
        different = [key for key, value in stated.items() if key != "url" and now.get(key) != value]
        yield url, f"was changed: another {' and '.join(different)}" if different else ""


def _files_of(text: bytes) -> list[Mapping[str, Any]]:
    """Return the files that references name: mappings with ``url``."""
    try:
        refs = json.loads(text)["refs"]
        attributes = json.loads(refs[".zattrs"]) if ".zattrs" in refs else json.loads(refs["zarr.json"])["attributes"]
        files = attributes[FILES]
    except (ValueError, KeyError, TypeError, RecursionError) as err:
        raise NotAsdfError("is no file of references that asdffs made") from err
    if not isinstance(files, list) or not all(isinstance(one, dict) and "url" in one for one in files):
        raise NotAsdfError("is no file of references that asdffs made")
    return files
