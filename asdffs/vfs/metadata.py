"""Metadata of nodes: modes, owners, times, extended attributes and link targets.

Scratch keeps its own modes and owners.  All other nodes have those of the ASDF file, and setting them has no effect.
The caller holds the main lock.
"""

from __future__ import annotations

import stat
from collections.abc import Callable

from asdffs.errors import ForeignAttributeError, NameRefusedError, NoAttributeError
from asdffs.vfs.namespace import DirectoryNode, FileNode, LinkNode, Node
from asdffs.vfs.scratch import SpoolFile
from asdffs.vfs.staging import Staging


class Metadata:
    """The metadata of the nodes of one document.  ``check_changeable(node)`` raises if it may not be changed."""

    def __init__(self, staging: Staging, check_changeable: Callable[[Node], None]) -> None:
        self._staging = staging
        self._check_changeable = check_changeable

    def readlink(self, node: Node) -> str:
        """Return the target of a symbolic link.  Raises ``NameRefusedError``."""
        if not isinstance(node, LinkNode):
            raise NameRefusedError("is not a symbolic link", path=node.path)
        return node.target

    def chmod(self, node: Node, mode: int) -> None:
        """Set the mode of scratch.  For other nodes, succeed without an effect."""
        self._check_changeable(node)
        if self._is_scratch(node):
            node.mode = mode & 0o7777
        node.note_change()

    def chown(self, node: Node, uid: int, gid: int) -> None:
        """Set the owner of scratch; -1 keeps a number.  For other nodes, succeed without an effect."""
        self._check_changeable(node)
        if self._is_scratch(node):
            node.uid = node.uid if uid == -1 else uid
            node.gid = node.gid if gid == -1 else gid
            self.drop_privileges(node)
        node.note_change()

    def drop_privileges(self, node: Node) -> None:
        """Take the set-user-ID and set-group-ID bits from a scratch file, as a write by another user does.

        The kernel asks for it, or does not, by the privileges of the program; a change of the owner always does it.
        Without the permission to execute for the group, the second bit means something else, and stays.
        """
        if isinstance(node, FileNode) and self._is_scratch(node):
            node.mode &= ~stat.S_ISUID
            if node.mode & stat.S_IXGRP:
                node.mode &= ~stat.S_ISGID

    def utimens(self, node: Node, atime_ns: int | None, mtime_ns: int | None) -> None:
        """Set the times of a node in ns; None keeps a time."""
        self._check_changeable(node)
        if isinstance(node, FileNode):
            node.look()  # notes earlier changes, which would move the new mtime otherwise
        node.atime_ns = node.atime_ns if atime_ns is None else atime_ns
        if mtime_ns is not None:
            node.mtime_ns = node.set_ns = mtime_ns
        node.note_change()

    @staticmethod
    def xattrs(node: Node) -> list[str]:
        """Return the names of the extended attributes."""
        return list(node.file.attributes()) if isinstance(node, FileNode) else []

    @staticmethod
    def xattr(node: Node, name: str) -> bytes:
        """Return the value of an extended attribute.  Raises ``NoAttributeError``."""
        if not isinstance(node, FileNode):
            raise NoAttributeError("only files have attributes", path=node.path)
        return node.file.attribute(name)

    def set_xattr(self, node: Node, name: str, value: bytes) -> None:
        """Set an extended attribute.  Raises ``ForeignAttributeError``, and whatever the file raises."""
        self._check_changeable(node)
        if not isinstance(node, FileNode):
            raise ForeignAttributeError("only files have attributes", path=node.path)
        node.file.set_attribute(name, value)

    def _is_scratch(self, node: Node) -> bool:
        if isinstance(node, FileNode):
            return isinstance(node.file, SpoolFile) and node is not self._staging.node
        return isinstance(node, LinkNode) or (isinstance(node, DirectoryNode) and node.created)
