"""The name ``tree.yaml`` in the root of the mount: which node has it, and what it means to take or give it.

To give the name to another file is a save; to take it away touches nothing in the ASDF file (``staging``).  A mount
that shows one view alone has no such name.
"""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager

from asdffs.errors import NotPermittedError
from asdffs.vfs.namespace import DirectoryNode, FileNode, Node
from asdffs.vfs.staging import TREE, Staging


class TreeName:
    """The name in ``root``; ``shown``: whether the mount has it."""

    def __init__(self, root: DirectoryNode, staging: Staging, *, shown: bool) -> None:
        self._root = root
        self._staging = staging
        self._shown = shown
        if shown and staging.node is not None:
            root.fixed[TREE] = staging.node

    def is_at(self, folder: DirectoryNode, name: str) -> bool:
        """Whether this is the place of the tree, whatever is there now."""
        return folder is self._root and name == TREE and self._shown

    def guard(self, *paths: str) -> AbstractContextManager[None]:
        """To be entered before one of ``paths`` is touched: if it is the tree's, a judgement may be under way."""
        concerned = any(path == f"/{TREE}" for path in paths)
        return self._staging.lock.entered() if concerned else contextlib.nullcontext()

    def check_free(self, folder: DirectoryNode, name: str, what: str) -> None:
        """Raise ``NotPermittedError`` where ``what`` would be the tree: only a file can be."""
        if self.is_at(folder, name):
            raise NotPermittedError(f"{TREE} cannot be {what}")

    def create(self, node: FileNode) -> None:
        """A new file gets the name: what is written to it is a save."""
        self._root.fixed[TREE] = node
        self._staging.enter(node)

    def save(self, node: Node) -> None:
        """``node`` is being renamed onto the tree.  Raises ``NotPermittedError``, and as ``Staging.adopt``."""
        if not isinstance(node, FileNode):
            raise NotPermittedError(f"only a file can become {TREE}")
        self._staging.adopt(node)

    def put(self, node: Node) -> None:
        """``node``, which was saved, has the name."""
        self._root.fixed[TREE] = node

    def leave(self) -> None:
        """The node loses the name, and keeps its bytes as they were."""
        self._staging.leave()
