"""The interface of array formats: files such as ``NAME.npy`` that show arrays.

A format is one module here, or in a package of its own through the entry point group ``asdffs.formats``, with a
``PLUGIN``; the mount option ``NAME=off`` hides its files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from asdffs.arrays.branch import Branch
from asdffs.document.arrays.array import Array
from asdffs.document.arrays.finding import subjects_of
from asdffs.document.changes import TREE, Subject, content
from asdffs.document.state import FileState
from asdffs.errors import AsdffsError, InvalidArrayError
from asdffs.views.base import ViewFile

#: Of the extended attributes of an array.
PREFIX: Final = "user.asdf."


class ArrayFile(ViewFile):
    """A file that shows the array at a path of the tree, or the last one that was there.

    ``find()`` returns the branch of the array.  It is called at each use, because a commit may change the array.
    """

    #: What the array is.
    kind: type[Array] = Array
    #: Whether ``document`` is another file than the one that is mounted.
    elsewhere = False

    def __init__(self, document: FileState, find: Callable[[], Branch]) -> None:
        self._document = document
        self._array = self.kind(document, find)

    @property
    def branch(self) -> Branch:
        """Its branch of the tree; what it was last when the tree has none there any more."""
        return self._array.branch

    def version(self) -> int:
        """When the tree or the block last changed it, in ns."""
        branch, stamp = self.branch, self._document.changes.stamp
        other = self._other(branch)
        if other is not None:
            return max(branch.stamp, other.changes.stamp(content(0)))
        return max((branch.stamp, *map(stamp, subjects_of(self._document, branch))))

    def subjects(self) -> tuple[Subject, ...] | None:
        """The tree, and the block; None where these are another file's, which may change at any time."""
        branch = self.branch
        if self.elsewhere or self._is_external(branch):
            return None
        return (TREE, *subjects_of(self._document, branch))

    def _is_external(self, branch: Branch) -> bool:
        """Return whether the source of an array names another file, which may change at any time."""
        source = None if branch.array is None else branch.array.source
        try:
            return isinstance(source, str) and self._document.region(source) is None
        except InvalidArrayError:  # there are no such data in this file; it may be changed by other programs
            return True

    def _other(self, branch: Branch) -> FileState | None:
        """Return the other file that the source names; None without one, or if it cannot be read."""
        if branch.array is None or not self._is_external(branch):
            return None
        try:
            return self._array.file_of(str(branch.array.source))
        except (AsdffsError, OSError):  # whoever reads it is told
            return None

    def attributes(self) -> Mapping[str, bytes]:
        """``user.asdf.*``: what the tree says of the array, lists as JSON."""
        array = self.branch.array
        if array is None:
            return {}
        facts = {name: getattr(array, name) for name in ("source", "datatype", "byteorder", "strides", "offset")}
        facts["shape"] = array.shape if array.row is None else ["*", *array.row]
        if self.branch.inline is not None:
            facts["source"] = "inline"
        return {PREFIX + name: _as_text(fact) for name, fact in facts.items() if fact is not None}


class ArrayFormat(Protocol):
    """One format.  Listing a directory asks it about each branch of the tree there, so ``takes`` is quick."""

    @property
    def ending(self) -> str:
        """What the names of its files end in, such as ``.npy``."""

    @property
    def file(self) -> Callable[[FileState, Callable[[], Branch]], ArrayFile]:
        """Makes the file of the array that the second argument finds, each time as it is then."""

    @property
    def mask(self) -> Callable[[FileState, Callable[[], Branch]], ArrayFile] | None:
        """Makes the file of the mask that an array has by a value; None where the format shows none."""

    def missing(self) -> str:
        """What must be installed before files can be shown, as a command; empty when nothing must."""

    def takes(self, branch: Branch) -> bool:
        """Whether it can show what the tree has there, as far as the tree tells."""


def _as_text(fact: Any) -> bytes:
    return (fact if isinstance(fact, str) else json.dumps(fact)).encode("utf-8", "surrogateescape")
