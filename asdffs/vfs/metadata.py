"""What stat(2) and its relatives change and show besides the content: modes, owners, times, attributes, link targets.

Modes and owners of scratch are kept; elsewhere they are those of the ASDF file, and to set them changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from asdffs.errors import ForeignAttributeError, NameRefusedError, NoAttributeError
from asdffs.vfs.names import Names
from asdffs.vfs.namespace import DirectoryNode, FileNode, LinkNode, Node
from asdffs.vfs.scratch import SpoolFile
from asdffs.vfs.staging import Staging


class Metadata:
    """Of the nodes of ``names``.

    ``changeable(path, handle)`` returns a node that is to be changed, and raises where nothing may be.
    """

    def __init__(self, names: Names, staging: Staging, changeable: Callable[[str | None, int | None], Node]) -> None:
        self._names = names
        self._staging = staging
        self._changeable = changeable

    def readlink(self, path: str) -> str:
        """Target of a symbolic link.  Raises ``NameRefusedError``."""
        node = self._names.find(path)
        if not isinstance(node, LinkNode):
            raise NameRefusedError("is no symbolic link", path=path)
        return node.target

    def chmod(self, path: str | None, mode: int, handle: int | None = None) -> None:
        """Set the mode of scratch; elsewhere it succeeds and changes nothing."""
        node = self._changeable(path, handle)
        if self._is_scratch(node):
            node.mode = mode & 0o7777
        node.note_change()

    def chown(self, path: str | None, uid: int, gid: int, handle: int | None = None) -> None:
        """Set the owner of scratch (-1: keep); elsewhere it succeeds and changes nothing."""
        node = self._changeable(path, handle)
        if self._is_scratch(node):
            node.uid = node.uid if uid == -1 else uid
            node.gid = node.gid if gid == -1 else gid
        node.note_change()

    def utimens(
        self, path: str | None, atime_ns: int | None, mtime_ns: int | None, handle: int | None = None
    ) -> None:
        """Set the times of a node; None: keep."""
        node = self._changeable(path, handle)
        if isinstance(node, FileNode):
            node.look()  # what changed before this does not move the time that is set now
        node.atime_ns = node.atime_ns if atime_ns is None else atime_ns
        if mtime_ns is not None:
            node.mtime_ns = node.set_ns = mtime_ns
        node.note_change()

    def xattrs(self, path: str) -> list[str]:
        """Names of the extended attributes."""
        node = self._names.find(path)
        return list(node.file.attributes()) if isinstance(node, FileNode) else []

    def xattr(self, path: str, name: str) -> bytes:
        """One extended attribute.  Raises ``NoAttributeError``."""
        node = self._names.find(path)
        if not isinstance(node, FileNode):
            raise NoAttributeError("only files have attributes", path=path)
        return node.file.attribute(name)

    def set_xattr(self, path: str, name: str, value: bytes) -> None:
        """Set an extended attribute.  Raises ``ForeignAttributeError``, or as the file does."""
        node = self._changeable(path, None)
        if not isinstance(node, FileNode):
            raise ForeignAttributeError("only files have attributes", path=path)
        node.file.set_attribute(name, value)

    def _is_scratch(self, node: Node) -> bool:
        if isinstance(node, FileNode):
            return isinstance(node.file, SpoolFile) and node is not self._staging.node
        return isinstance(node, LinkNode) or (isinstance(node, DirectoryNode) and node.created)
