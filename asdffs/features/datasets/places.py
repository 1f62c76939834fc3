"""Finds the places of arrays below a group of the tree, also those to which an alias or a ``$ref`` leads.

An array that is reached in two ways has two places.  The caller holds the main lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from asdffs.arrays.branch import Branch, shown_key
from asdffs.document.arrays.index import key_named
from asdffs.document.document import Document
from asdffs.document.state import FileState
from asdffs.errors import AsdffsError, NotSupportedError, UsageError
from asdffs.limits import PLACES
from asdffs.tree.key_names import name_of
from asdffs.tree.paths import Path


class Place(NamedTuple):
    """A place in the tree: of the group, or of something below it.

    ``file``: the file that has it; another one behind a ``$ref``.  ``names``: its path in ``document.arrays``.
    ``branches``: the group, the branches that lead from there to it, and it.  ``keys``: one for each branch after the
    first.  ``jumps``: the file and path to which each reference on the way leads, if it is to another file.
    """

    file: FileState
    names: tuple[str, ...]
    branches: tuple[Branch, ...]
    keys: Path = ()
    jumps: tuple[tuple[str, Path], ...] = ()

    @property
    def branch(self) -> Branch:
        """What is there."""
        return self.branches[-1]

    @property
    def path(self) -> str:
        """Its path in ``document.arrays``."""
        return "/".join(self.names)

    def below(self, key: str | int, child: Branch) -> Place | None:
        """Return the place of a child of this branch; None if it is a ``$ref`` to something without arrays.

        Raises ``InvalidArrayError`` if another file cannot be read.
        """
        place = self._replace(names=(*self.names, name_of(shown_key(key, child))), keys=(*self.keys, key))
        if child.elsewhere is not None:
            found = self.file.linked_files.branch(child.elsewhere, self.file)
            if found is None or not found[1].holds:
                return None
            file, child = found
            place = place._replace(file=file, jumps=(*self.jumps, (file.path, child.path)))
        return place._replace(branches=(*self.branches, child))


def find_group(document: Document, root: Branch, group: str) -> Place:
    """Return the place of the group with the path ``group`` in ``document.arrays``; empty for ``root``.

    Raises ``UsageError`` if no group with arrays is there, ``InvalidArrayError``.
    """
    place: Place | None = Place(document, (), (root,))
    for name in filter(None, group.strip("/").split("/")):
        key = key_named(place.branch, name) if place is not None else None
        place = place.below(key, place.branch.children[key]) if place is not None and key is not None else None
    if place is None or not place.branch.holds or place.branch.array is not None:
        raise UsageError(f"there is no group {group!r} with arrays", path=document.path)
    return place._replace(branches=(place.branch,), keys=())


def places_below(group: Place, left_out: dict[str, str]) -> Iterator[Place]:
    """Yield the place of each array below ``group``, in the order of the text.  Masks of arrays are not among them.

    Adds to ``left_out`` the path of a reference that cannot be followed, and why.  Raises ``NotSupportedError`` if
    aliases lead to too many places.
    """
    rest, indirect = [group], 0
    while rest:
        place = rest.pop()
        indirect += place.branch.path != group.branch.path + place.keys
        if indirect > PLACES:
            sentence = f"aliases and references lead to more than {PLACES:,} places with arrays"
            raise NotSupportedError(sentence, path=group.file.path)
        if place.branch.array is not None:
            yield place
        else:
            rest += reversed([*_children(place, left_out)])


def _children(place: Place, left_out: dict[str, str]) -> Iterator[Place]:
    """Yield the places of the children that hold arrays."""
    for key, child in place.branch.children.items():
        if not child.holds:
            continue
        try:
            below = place.below(key, child)
        except AsdffsError as err:
            left_out["/".join((*place.names, name_of(shown_key(key, child))))] = err.sentence
            continue
        if below is not None and below.jumps[-1:] and below.jumps[-1] in below.jumps[:-1]:
            left_out[below.path] = "the two files refer to each other"
        elif below is not None:
            yield below
