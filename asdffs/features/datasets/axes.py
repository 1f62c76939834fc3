"""Names the axes of the arrays of a file, because ASDF has no names for them.  Pure.

In this order:

1. the names that the caller gives;
2. the names of a known model (``models``), if they have one length in the whole file;
3. those of another array with the same shape;
4. ``dim_0``, ``dim_1``, ...: axes of the same length have the same name, as the HDF5 engines of xarray do it.  If
   one array has two axes of the same length, these have two names.

No axis gets the name of an array by the rules 2 and 4, because xarray would take that array as its coordinates.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from asdffs.errors import UsageError

Shape = tuple[int, ...]
Names = tuple[str, ...]


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
