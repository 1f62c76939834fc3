"""What a dataset has beside its arrays: attributes from the metadata of a group, and names of axes.  Pure.

Attributes are dotted paths -> values, as ``asdffs find`` has them.  ASDF has no names for axes.  They get, in this
order:

1. the names that the caller gives;
2. the names of a known data model, by what the metadata say about the telescope, if they have one length in the whole
   file.  Only arrays directly in the group of the model count, not those in its metadata;
3. those of another array with the same shape;
4. ``dim_0``, ``dim_1``, ...: axes of the same length have the same name, as the HDF5 engines of xarray do it.  If
   one array has two axes of the same length, these have two names.

No axis gets the name of an array by the rules 2 and 4, because xarray would take that array as its coordinates.
"""

from __future__ import annotations

import datetime
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from asdffs.errors import UsageError

_ITEM: Final = re.compile(r"(?P<list>.+)\[(?P<number>\d+)\]")
#: Keys of the root that are about the file, and not about what it holds.
_OF_THE_FILE: Final = ("asdf_library.", "asdf_library[", "history.", "history[")
Shape = tuple[int, ...]
Names = tuple[str, ...]
_IMAGE: Final = ("y", "x")
#: Telescope -> number of axes -> their names.
_AXES: Final[Mapping[str, Mapping[int, tuple[str, ...]]]] = {
    "ROMAN": {2: _IMAGE, 3: ("resultant", *_IMAGE)},
    "JWST": {2: _IMAGE, 3: ("integration", *_IMAGE), 4: ("integration", "group", *_IMAGE)},
}
#: Models of JWST whose first axis of three is another one.
_OTHER: Final = {"IFUCubeModel": ("wavelength", *_IMAGE)}
#: Arrays of any model with an axis that no other array has: bits that tell which exposures were combined.
_CONTEXT: Final = ("context", "con")
_PLANES: Final = ("plane", *_IMAGE)


def attributes_in(values: Mapping[str, Any], group: str) -> dict[str, Any]:
    """Return the attributes of ``group``, a dotted path; empty for the root.

    ``values``: all scalars of a file by their dotted paths (``arrays/scalars``).  Nulls are left out, as are
    ``asdf_library`` and ``history`` at the root.  Dates are texts in ISO 8601.  A list of numbers, or of texts, is
    one attribute.
    """
    found: dict[str, Any] = {}
    inside = (f"{group}.", f"{group}[") if group else ""
    for whole, value in values.items():  # there may be thousands, in each of many files
        if value is None or not whole.startswith(inside) or whole.startswith(_OF_THE_FILE):
            continue
        name = whole[len(group) :].removeprefix(".") if group else whole
        plain = value.isoformat() if isinstance(value, datetime.date) else value
        item = _ITEM.fullmatch(name) if name.endswith("]") else None
        if item is None or not _append(found, item["list"], int(item["number"]), plain):
            found[name] = plain
    return found


def is_all_in(values: Mapping[str, Any], group: str) -> bool:
    """Return whether all of ``values``, as in ``attributes_in``, are in ``group``, or about the file."""
    inside = (f"{group}.", f"{group}[", *_OF_THE_FILE)
    return all(value is None or name.startswith(inside) for name, value in values.items())


def _append(found: dict[str, Any], name: str, number: int, value: Any) -> bool:
    """Add an item to the list ``name``; return False if it does not fit there."""
    known = [] if number == 0 else found.get(name)
    if not isinstance(known, list) or len(known) != number or _kind(value) is None:
        return False
    found[name] = known
    if known and _kind(known[0]) is not _kind(value):
        found.pop(name)
        found.update({f"{name}[{place}]": item for place, item in enumerate(known)})
        return False
    known.append(value)
    return True


def _kind(value: Any) -> type | None:
    """Return which values may be in one list with this one; None: it is in no list."""
    if isinstance(value, str):
        return str
    return float if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def for_json(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as JSON can have them: NaN and infinite numbers are texts."""

    def shown(value: Any) -> Any:
        if isinstance(value, list):
            return [shown(item) for item in value]
        return str(value) if isinstance(value, float) and not math.isfinite(value) else value

    return {name: shown(value) for name, value in attributes.items()}


def name_axes(
    shapes: Mapping[str, Shape], given: Mapping[str, Sequence[str]], known: Callable[[str, int], Names | None]
) -> dict[str, Names]:
    """Return the names of the axes of each array.

    ``shapes``: name of the array -> lengths of its axes.  ``given``: name of the array -> names of its axes.
    ``known(name, ndim)`` returns the names of a model, or None.  Raises ``UsageError`` if ``given`` does not fit.
    """
    namer = _Namer({*shapes})
    for name, names in given.items():
        if name not in shapes:
            raise UsageError(f"axes: there is no variable {name!r}; there are {', '.join(sorted(shapes)) or 'none'}")
        namer.give(name, shapes[name], tuple(names))
    rest = [name for name in shapes if name not in given]
    for name in rest:
        namer.take(name, shapes[name], known(name, len(shapes[name])))
    for name in rest:
        namer.share(name, shapes[name])
    return {name: namer.names[name] for name in shapes}


class _Namer:
    """The names so far.  ``lengths``: name of an axis -> its length."""

    def __init__(self, arrays: set[str]) -> None:
        self.names: dict[str, Names] = {}
        self._arrays = arrays
        self._lengths: dict[str, int] = {}
        self._by_shape: dict[Shape, Names] = {}
        self._unnamed: dict[tuple[int, int], str] = {}

    def give(self, name: str, shape: Shape, names: Names) -> None:
        """Name the axes as the caller wants it.  Raises ``UsageError``."""
        if len(names) != len(shape) or len({*names}) < len(names):
            raise UsageError(f"axes of {name!r}: it needs {len(shape)} different names, not {', '.join(names)}")
        if not self._fits(shape, names):
            raise UsageError(f"axes of {name!r}: {', '.join(names)} have other lengths in another variable")
        self._name(name, shape, names)

    def take(self, name: str, shape: Shape, names: Names | None) -> None:
        """Name the axes as a model does, if the names fit."""
        if names is not None and not self._arrays & {*names} and self._fits(shape, names):
            self._name(name, shape, names)

    def share(self, name: str, shape: Shape) -> None:
        """Name the axes of an array that has no names yet."""
        if name not in self.names:
            known = self._by_shape.get(shape)
            self._name(name, shape, tuple(self._generic(shape)) if known is None else known)

    def _generic(self, shape: Shape) -> Iterator[str]:
        for length, number in _numbered(shape):
            if (length, number) not in self._unnamed:
                taken = {*self._arrays, *self._lengths, *self._unnamed.values()}
                free = (name for count in itertools.count() if (name := f"dim_{count}") not in taken)
                self._unnamed[length, number] = next(free)
            yield self._unnamed[length, number]

    def _fits(self, shape: Shape, names: Names) -> bool:
        return all(self._lengths.get(name, length) == length for name, length in zip(names, shape, strict=True))

    def _name(self, name: str, shape: Shape, names: Names) -> None:
        self.names[name] = names
        self._by_shape.setdefault(shape, names)
        self._lengths.update(zip(names, shape, strict=True))


def _numbered(shape: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield each length, and how many axes of that length come before it."""
    seen: dict[int, int] = {}
    for length in shape:
        yield length, seen.setdefault(length, 0)
        seen[length] += 1


def known_axes(attributes: Mapping[str, Any], name: str, ndim: int) -> tuple[str, ...] | None:
    """Return the names of the axes of the array ``name``, which has ``ndim`` axes; None if they are not known.

    ``attributes``: the metadata of the group, by dotted paths.
    """
    if "." in name:
        return None
    names = _AXES.get(str(attributes.get("meta.telescope")).upper(), {}).get(ndim)
    other = _PLANES if name in _CONTEXT else _OTHER.get(str(attributes.get("meta.model_type")))
    return other if names is not None and other is not None and len(other) == ndim else names
