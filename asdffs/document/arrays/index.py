"""Finds the arrays of the committed tree by their paths, and follows references.

The caller holds the main lock; other requests are served while the tree is read.  ``Array`` and what it needs is
imported when the first array is used: most commands use none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from asdffs.arrays.branch import Branch, Outline, shown_key
from asdffs.document.for_programs import serialized
from asdffs.document.state import FileState
from asdffs.tree.key_names import name_of
from asdffs.tree.paths import Path

if TYPE_CHECKING:
    from asdffs.document.arrays.array import Array

_MASK: Final = "mask"
#: The longest number of an item, in digits.
_LONGEST: Final = 18


class ArrayIndex(Mapping[str, "Array"]):
    """The arrays of a document, as a mapping from paths to ``Array``: ``document.arrays["roman/data"]``.

    A path has the keys and item numbers from the root of the tree, such as ``"roman/data"`` or ``"stack/0"``.  These
    are the names of ``arrays/`` in a mount, without ``.npy`` (``tree/key_names``).  The mapping always shows the
    committed tree as it is now.

    The columns of a table have their names, as in ``"table/columns/flux/data"``, and their numbers as well.

    A mask that the tree states as a value is at ``.../mask``.  An alias and a ``$ref``, also to another file, can be
    used in a path.  Iteration does not list these.

    Raises ``KeyError`` if there is no such array, ``InvalidArrayError`` if a linked file cannot be read, ``OSError``,
    and ``ValueError`` if the document is closed.
    """

    def __init__(self, file: FileState) -> None:
        self._file = file

    @serialized
    def __getitem__(self, path: str) -> Array:
        """Return the array at ``path``.  Raises as the class."""
        from asdffs.document.arrays.array import Array
        from asdffs.document.arrays.masks import Mask

        file, keys, mask = self._keys(path)
        name = "/".join((*map(name_of, keys), *([_MASK] if mask else [])))
        return (Mask if mask else Array)(file, file.linked_files.finder(file, keys), name)

    @serialized
    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    @serialized
    def __len__(self) -> int:
        return len(self._names())

    def _names(self) -> list[str]:
        outline = self.outline()
        paths = map(outline.shown_path, outline.arrays)
        return ["/".join(map(name_of, path)) for path in paths if path is not None]

    def _keys(self, path: str) -> tuple[FileState, Path, bool]:
        """Return the file and the keys of the branch at ``path``, and whether ``path`` means its mask.

        Raises ``KeyError``.
        """
        if self.outline().root is None:
            raise KeyError(path)
        branch, names = self.branch(()), path.split("/") if path else []
        file, keys = self._file, tuple[str | int, ...]()
        for number, name in enumerate(names):
            last = number + 1 == len(names)
            if last and name == _MASK and branch.array is not None and branch.masked:
                return file, keys, True
            key = key_named(branch, name)
            if key is None:
                raise KeyError(path)
            branch, keys = branch.children[key], (*keys, key)
            if branch.elsewhere is not None:
                found = file.linked_files.branch(branch.elsewhere, file)
                if found is None:
                    raise KeyError(path)
                (file, branch), keys = found, found[1].path
        if branch.array is None:
            raise KeyError(path)
        return file, keys, False

    def outline(self) -> Outline:
        """Return the outline of the committed tree, as ``Outlines.outline``."""
        return self._file.outlines.outline()

    def branch(self, path: Path) -> Branch:
        """Return the mapping or sequence at ``path``, as ``Outlines.branch``."""
        return self._file.outlines.branch(path)


def key_named(branch: Branch, name: str) -> str | int | None:
    """Return the key of the child with ``name`` in a path; None if there is none."""
    direct = int(name) if not branch.mapping and name.isdecimal() and len(name) < _LONGEST else name
    child = branch.children.get(direct)
    if child is not None and child.label is None and name_of(direct) == name:  # most are such; a list may be long
        return direct
    shown = (key for key, child in branch.children.items() if name_of(shown_key(key, child)) == name)
    found = next(shown, None)
    return found if found is not None else next((key for key in branch.children if name_of(key) == name), None)
