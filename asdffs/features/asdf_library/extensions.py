"""The extension by which the asdf library writes arrays that asdffs reads, and makes them.

asdf finds ``extensions`` by its entry point, so it writes such an array into any file, with its own converter of
ndarrays: nothing in the file tells of asdffs.  Programs that only import asdf load nothing else of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from asdf.extension import Converter, Extension


class _Writing(Converter):  # type: ignore[misc]
    """Gives asdf the elements of such arrays, which it writes as it writes any ndarray."""

    tags: Sequence[str] = ()
    types = ("asdffs.features.asdf_library.arrays.LazyArray",)

    def select_tag(self, obj: Any, tags: Any, ctx: Any) -> None:
        """Return None: asdf writes what ``to_yaml_tree`` returns with its own converter."""

    def to_yaml_tree(self, obj: Any, tag: Any, ctx: Any) -> Any:
        """Return all elements as an ndarray."""
        return obj._make_array()

    def from_yaml_tree(self, node: Any, tag: str, ctx: Any) -> Any:
        """Raise ``NotImplementedError``: it has no tags, so asdf reads nothing by it."""
        raise NotImplementedError


class _Reading(_Writing):
    """Makes such arrays from nodes of a tree, and gives asdf their elements.

    ``make(node, tag, ctx)`` returns the array that a node states.
    """

    tags = tuple(f"tag:stsci.edu:asdf/core/ndarray-{version}" for version in ("1.0.0", "1.1.0", "1.2.0"))

    def __init__(self, make: Callable[[Any, str, Any], Any]) -> None:
        self._make = make

    def from_yaml_tree(self, node: Any, tag: str, ctx: Any) -> Any:
        """Return the array that ``node`` states."""
        return self._make(node, tag, ctx)


class LazyArrays(Extension):  # type: ignore[misc]
    """The extension of asdf that writes such arrays into any file; with ``make``, see above, it also reads them."""

    extension_uri = "https://asdffs.readthedocs.io/extensions/lazy_arrays-1.0.0"

    def __init__(self, make: Callable[[Any, str, Any], Any] | None = None) -> None:
        self._converters = [_Writing() if make is None else _Reading(make)]

    @property
    def converters(self) -> list[Converter]:
        """The converter of such arrays."""
        return self._converters

    @property
    def tags(self) -> list[str]:
        """The tags that it reads."""
        return [tag for converter in self._converters for tag in converter.tags]


def extensions() -> list[Extension]:
    """Return the extension for all files, which only writes; asdf calls this by the entry point."""
    return [LazyArrays()]
