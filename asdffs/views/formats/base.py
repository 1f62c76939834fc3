"""The interface of array formats: files such as ``NAME.npy`` that show arrays.

A format is one module here, or in a package of its own through the entry point group ``asdffs.formats``, with a
``PLUGIN``; the mount option ``NAME=off`` hides its files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from asdffs.arrays.branch import Branch
from asdffs.document.arrays.array import Array
from asdffs.document.arrays.finding import subjects_of
from asdffs.document.changes import TREE, Subject, content
from asdffs.document.state import FileState
from asdffs.errors import AsdffsError, InvalidArrayError
from asdffs.views.base import PREFIX, ViewFile


class ArrayFile(ViewFile):
    """A file that shows the array at a path of the tree, or the last one that was there.

    ``find()`` returns the branch of the array.  It is called at each use, because a commit may change the array.
    """

    #: The class of the array.
    kind: type[Array] = Array
    #: Whether ``document`` is not the file that is mounted, but one to which it refers.
    external = False

    def __init__(self, document: FileState, find: Callable[[], Branch]) -> None:
        self._document = document
        self._array = self.kind(document, find)

    @property
    def branch(self) -> Branch:
        """The branch of the array; the last known one if the tree has no such array any more."""
        return self._array.branch

    def version(self) -> int:
        """Return when the tree or the block last changed the array, in ns."""
        branch, stamp = self.branch, self._document.changes.stamp
        if branch.array is not None and branch.array.in_files:
            return max(branch.stamp, self._version_of_files())
        other = self._other(branch)
        if other is not None:
            return max(branch.stamp, other.changes.stamp(content(0)))
        return max((branch.stamp, *map(stamp, subjects_of(self._document, branch))))

    def subjects(self) -> tuple[Subject, ...] | None:
        """Return the tree and the block; None if these are in another file, which may change at any time."""
        branch = self.branch
        if self.external or self._is_external(branch):
            return None
        return (TREE, *subjects_of(self._document, branch))

    def _is_external(self, branch: Branch) -> bool:
        """Return whether the elements of an array are in other files, which may change at any time."""
        source = None if branch.array is None else branch.array.source
        if branch.array is not None and branch.array.in_files:
            return True
        try:
            return isinstance(source, str) and self._document.region(source) is None
        except InvalidArrayError:  # there are no such data in this file; it may be changed by other programs
            return True

    def _version_of_files(self) -> int:
        """Return when one of the FITS files with its elements was last changed, in ns."""
        from asdffs.document.arrays.stacked import StackedElements

        try:
            elements = self._array.elements()
            return elements.changed() if isinstance(elements, StackedElements) else 0
        except (AsdffsError, OSError):  # a program that reads it gets the error
            return 0

    def _other(self, branch: Branch) -> FileState | None:
        """Return the other file that the source names; None without one, or if it cannot be read."""
        if branch.array is None or branch.array.source is None or not self._is_external(branch):
            return None
        try:
            return self._array.file_of(str(branch.array.source))
        except (AsdffsError, OSError):  # a program that reads it gets the error
            return None

    def attributes(self) -> Mapping[str, bytes]:
        """Return what the tree says of the array, as ``user.asdf.*``; lists are JSON."""
        array = self.branch.array
        if array is None:
            return {}
        facts = {name: getattr(array, name) for name in ("source", "datatype", "byteorder", "strides", "offset")}
        facts["shape"] = array.shape if array.row is None else ["*", *array.row]
        if self.branch.inline is not None:
            facts["source"] = "inline"
        return {PREFIX + name: _as_text(fact) for name, fact in facts.items() if fact is not None}


class ArrayFormat(Protocol):
    """A kind of file that shows arrays.  A listing calls ``takes`` for each array, so that must be quick."""

    @property
    def ending(self) -> str:
        """The ending of the names of its files, such as ``.npy``."""

    @property
    def file(self) -> Callable[[FileState, Callable[[], Branch]], ArrayFile]:
        """Makes the file of an array.  The second argument finds the branch of the array, at each use."""

    @property
    def mask(self) -> Callable[[FileState, Callable[[], Branch]], ArrayFile] | None:
        """Makes the file of a mask that the tree states as a value; None if the format shows no masks."""

    def missing(self) -> str:
        """Return the command that installs what the format needs; empty if nothing is missing."""

    def takes(self, branch: Branch) -> bool:
        """Return whether the format can show the array at ``branch``, as far as the tree tells."""


def _as_text(fact: Any) -> bytes:
    return (fact if isinstance(fact, str) else json.dumps(fact)).encode("utf-8", "surrogateescape")
