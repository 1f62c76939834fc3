"""The arrays of the committed tree, found by their path, and where references lead.

The caller holds the main lock; others are served while the tree is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from asdffs.document.arrays.array import Array, Mask
from asdffs.document.serialized import serialized
from asdffs.document.state import FileState
from asdffs.tree.branch import Branch, Outline
from asdffs.tree.events import Path
from asdffs.tree.key_names import name_of

_MASK: Final = "mask"


class ArrayIndex(Mapping[str, Array]):
    """The arrays of ``file``, by their place in the tree as it is now: ``"roman/data"``, ``"stack/0"``.

    Keys are the names that the mount has in ``arrays/``, without ``.npy`` (``tree/key_names``).  A mask that is a
    value is at ``.../mask``.  An alias and a ``$ref``, also to another file, lead to what they mean, and are not
    listed.
    """

    def __init__(self, file: FileState) -> None:
        self._file = file

    @serialized
    def __getitem__(self, path: str) -> Array:
        """The array at ``path``, live.  Raises ``KeyError``, ``OSError``."""
        file, keys, mask = self._keys(path)
        return (Mask if mask else Array)(file, file.linked_files.finder(file, keys))

    @serialized
    def __iter__(self) -> Iterator[str]:
        return iter(["/".join(map(name_of, branch.path)) for branch in self.outline().arrays])

    @serialized
    def __len__(self) -> int:
        return len(self.outline().arrays)

    def _keys(self, path: str) -> tuple[FileState, Path, bool]:
        """Of the branch that ``path`` leads to, the file it is in, and whether its mask is meant."""
        if self.outline().root is None:
            raise KeyError(path)
        branch, names = self.branch(()), path.split("/") if path else []
        file, keys = self._file, tuple[str | int, ...]()
        for number, name in enumerate(names):
            last = number + 1 == len(names)
            if last and name == _MASK and branch.array is not None and branch.masked:
                return file, keys, True
            key = next((key for key in branch.children if name_of(key) == name), None)
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
