"""Metadata of nodes: modes, owners, times, extended attributes and link targets.

Scratch keeps its own modes and owners.  All other nodes have those of the ASDF file, and setting them has no effect.
The caller holds the main lock.
"""

from __future__ import annotations

from collections.abc import Callable

from asdffs.errors import ForeignAttributeError, NameRefusedError, NoAttributeError
from asdffs.vfs.names import Names
from asdffs.vfs.namespace import DirectoryNode, FileNode, LinkNode, Node
from asdffs.vfs.scratch import SpoolFile
from asdffs.vfs.staging import Staging


class Metadata:
    """The metadata of the nodes in ``names``.

    ``changeable(path, handle)`` returns the node that is about to change, or raises if changes are not allowed.
    """

    def __init__(self, names: Names, staging: Staging, changeable: Callable[[str | None, int | None], Node]) -> None:
        self._names = names
        self._staging = staging
        self._changeable = changeable

    def readlink(self, path: str) -> str:
        """Return the target of a symbolic link.  Raises ``NameRefusedError``."""
        node = self._names.find(path)
        if not isinstance(node, LinkNode):
            raise NameRefusedError("is not a symbolic link", path=path)
        return node.target

    def chmod(self, path: str | None, mode: int, handle: int | None = None) -> None:
        """Set the mode of scratch.  For other nodes, succeed without an effect."""
        node = self._changeable(path, handle)
        if self._is_scratch(node):
            node.mode = mode & 0o7777
        node.note_change()

    def chown(self, path: str | None, uid: int, gid: int, handle: int | None = None) -> None:
        """Set the owner of scratch; -1 keeps a number.  For other nodes, succeed without an effect."""
        node = self._changeable(path, handle)
        if self._is_scratch(node):
            node.uid = node.uid if uid == -1 else uid
            node.gid = node.gid if gid == -1 else gid
        node.note_change()

    def utimens(
        self, path: str | None, atime_ns: int | None, mtime_ns: int | None, handle: int | None = None
    ) -> None:
        """Set the times of a node in ns; None keeps a time."""
        node = self._changeable(path, handle)
        if isinstance(node, FileNode):
            node.look()  # notes earlier changes, which would move the new mtime otherwise
        node.atime_ns = node.atime_ns if atime_ns is None else atime_ns
        if mtime_ns is not None:
            node.mtime_ns = node.set_ns = mtime_ns
        node.note_change()

    def xattrs(self, path: str) -> list[str]:
        """Return the names of the extended attributes."""
        node = self._names.find(path)
        return list(node.file.attributes()) if isinstance(node, FileNode) else []

    def xattr(self, path: str, name: str) -> bytes:
        """Return the value of an extended attribute.  Raises ``NoAttributeError``."""
        node = self._names.find(path)
        if not isinstance(node, FileNode):
            raise NoAttributeError("only files have attributes", path=path)
        return node.file.attribute(name)

    def set_xattr(self, path: str, name: str, value: bytes) -> None:
        """Set an extended attribute.  Raises ``ForeignAttributeError``, and whatever the file raises."""
        node = self._changeable(path, None)
        if not isinstance(node, FileNode):
            raise ForeignAttributeError("only files have attributes", path=path)
        node.file.set_attribute(name, value)

    def _is_scratch(self, node: Node) -> bool:
        if isinstance(node, FileNode):
            return isinstance(node.file, SpoolFile) and node is not self._staging.node
        return isinstance(node, LinkNode) or (isinstance(node, DirectoryNode) and node.created)
