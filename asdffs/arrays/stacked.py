"""Describes arrays whose elements are in FITS files beside the ASDF file.

The ``file_manager`` of DKIST has the names of the files, in lists of lists, one for each place of the first axes of
the array; each file has an image with the other axes.  ``core/externalarray`` has the name of one file,
whose image it is as a whole.

| key                      | says                                                                                    |
|--------------------------|-----------------------------------------------------------------------------------------|
| ``fileuris``, ``fileuri``| names, relative to the directory of the ASDF file                                       |
| ``target``               | the HDU in each file: its number or its name                                            |
| ``datatype``, ``shape``  | of the image in a file; a first length of 1 is no axis of the array                     |
| ``subslice``             | which part of each image is meant: numbers, and lists of start, stop and step           |

``chunksize`` is advice for dask, and not read.  Pure functions.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Final, NamedTuple

from asdffs.arrays.chunked import LARGEST, NULLS, described, is_count
from asdffs.arrays.datatypes import item_size
from asdffs.errors import InvalidArrayError

#: Names of numpy for datatypes, besides those that ASDF has as well.
_NUMPY: Final = {"float": "float64", "double": "float64", "single": "float32", "int": "int64", "uint": "uint64"}
_MOST_AXES: Final = 32


class Stacked(NamedTuple):
    """The description of an array whose elements are in ``files``.

    ``counts``: lengths of the first axes, along which the files are, rows first; none for a single file.  ``image``:
    lengths of the axes of the image in each file, and ``target``, its HDU.  ``part``: the positions along each of the
    axes of ``counts`` and ``image`` that belong to the array; a number is no axis of it.  ``needed``: a missing file
    is an error.
    """

    files: tuple[str, ...]
    counts: tuple[int, ...]
    image: tuple[int, ...]
    target: int | str
    part: tuple[range | int, ...]
    datatype: str
    byteorder: str | None
    needed: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes of the array."""
        return tuple(len(one) for one in self.part if isinstance(one, range))


def parse_stacked(value: dict[str, Any]) -> Stacked:
    """Return the description in the mapping of the array.  Raises ``InvalidArrayError`` with the reason."""
    single = "fileuri" in value
    names = value.get("fileuri" if single else "fileuris")
    files, counts = _files(names)
    image, target = value.get("shape"), value.get("target")
    if not isinstance(image, list) or not image or not all(map(is_count, image)):
        raise InvalidArrayError("its shape is missing or not valid")
    if not isinstance(target, (int, str)) or isinstance(target, bool) or (isinstance(target, int) and target < 0):
        raise InvalidArrayError("its target is neither the number nor the name of an HDU")
    datatype, byteorder = _datatype(value.get("datatype"))
    lengths = (*counts, *image[not single and image[0] == 1 :])
    if len(lengths) > _MOST_AXES or math.prod(lengths) * (item_size(datatype) or 1) > LARGEST:
        raise InvalidArrayError("its shape is too large")
    stacked = Stacked(files, counts, tuple(image), target, tuple(map(range, lengths)), datatype, byteorder, single)
    stated = value.get("subslice")
    return stacked._replace(part=_part(stated, _depth(names), lengths)) if isinstance(stated, list) else stacked


def _files(names: Any) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the names of files in lists of lists, and the lengths of these; none for a single file."""
    counts = list[int]()
    level = [names]
    while isinstance(level[0], list):
        lengths = {len(one) if isinstance(one, list) else -1 for one in level}
        if len(lengths) > 1 or 0 in lengths or len(counts) == _MOST_AXES:
            raise InvalidArrayError("its files are not in lists of equal lengths")
        counts += lengths
        level = list(itertools.chain.from_iterable(level))
    if not all(isinstance(name, str) and name not in NULLS and "\0" not in name for name in level):
        raise InvalidArrayError("its files have no valid names")
    return tuple(level), tuple(counts) if len(level) > 1 else ()


def _depth(names: Any) -> int:
    """Return how deep the lists with the names of the files are nested: each level is an axis of the array."""
    return 1 + _depth(names[0]) if isinstance(names, list) else 0


def _datatype(stated: Any) -> tuple[str, str | None]:
    """Return the datatype of the schema core/ndarray that a name of numpy means, and the byteorder of elements."""
    name = _NUMPY.get(stated, stated) if isinstance(stated, str) else None
    if isinstance(name, str) and item_size(name) and name not in ("bool8",) and not name.startswith("complex"):
        return name, "little"
    datatype, byteorder = described(stated)
    if not isinstance(datatype, str) or datatype == "bool8" or datatype.startswith("complex"):
        raise InvalidArrayError(f"its datatype {str(stated)[:40]!r} is none of an image in FITS")
    return datatype, byteorder


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _part(stated: list[Any], before: int, lengths: tuple[int, ...]) -> tuple[range | int, ...]:
    """Return the positions that ``subslice`` means; it begins at the axis number ``before``."""
    found: list[range | int] = list(map(range, lengths))
    for axis, one in enumerate(stated, before):
        if axis >= len(lengths):
            raise InvalidArrayError(f"its subslice has more axes than its {len(lengths)}")
        if _is_number(one) and -lengths[axis] <= one < lengths[axis]:
            found[axis] = one % lengths[axis]
        elif isinstance(one, list) and len(one) == 3 and all(end in NULLS or _is_number(end) for end in one):
            ends = [None if end in NULLS else end for end in one]
            if ends[2] is not None and ends[2] <= 0:
                raise InvalidArrayError("its subslice has a step that is not positive")
            found[axis] = range(lengths[axis])[slice(*ends)]
        else:
            raise InvalidArrayError(f"its subslice {str(one)[:40]} is not valid")
    return tuple(found)
