"""The name ``tree.yaml`` in the root of the mount, and the meaning of giving it to a node or taking it away.

Giving the name to another file is a save.  Taking it away changes nothing in the ASDF file (``staging``).  A mount
that shows only one view has no such name.  The caller holds the main lock.
"""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager

from asdffs.errors import NotPermittedError
from asdffs.vfs.namespace import DirectoryNode, FileNode, Node
from asdffs.vfs.staging import TREE, Staging


class TreeName:
    """The name ``tree.yaml`` in ``root``.  ``shown``: whether the mount has this name."""

    def __init__(self, root: DirectoryNode, staging: Staging, *, shown: bool) -> None:
        self._root = root
        self._staging = staging
        self._shown = shown
        if shown and staging.node is not None:
            self.put(staging.node)

    def is_at(self, folder: DirectoryNode, name: str) -> bool:
        """Return whether this is the place of the tree, even if nothing has the name now."""
        return folder is self._root and name == TREE and self._shown

    def guard(self, *places: tuple[Node, str]) -> AbstractContextManager[None]:
        """Return a context to enter before one of ``places`` is changed: the lock if one of them is the tree.

        A place is a directory and a name.
        """
        concerned = any(folder is self._root and name == TREE for folder, name in places)
        return self._staging.lock.entered() if concerned else contextlib.nullcontext()

    def check_free(self, folder: DirectoryNode, name: str, what: str) -> None:
        """Raise ``NotPermittedError`` if this is the place of the tree, because only a file can be the tree.

        ``what``: words for the error message, such as "a directory".
        """
        if self.is_at(folder, name):
            raise NotPermittedError(f"{TREE} cannot be {what}")

    def create(self, node: FileNode) -> None:
        """Give the name to a new file, so that writes to it are a save."""
        self.put(node)
        self._staging.enter(node)

    def save(self, node: Node) -> None:
        """Commit ``node``, which is about to be renamed onto the tree.

        Raises ``NotPermittedError``, and as ``Staging.adopt``.
        """
        if not isinstance(node, FileNode):
            raise NotPermittedError(f"only a file can become {TREE}")
        self._staging.adopt(node)

    def put(self, node: Node) -> None:
        """Give the name to ``node``, which was committed before."""
        self._root.fixed[TREE] = node
        node.stands_at(self._root, TREE)

    def leave(self) -> None:
        """Take the name from the node, which keeps its bytes."""
        self._staging.leave()
