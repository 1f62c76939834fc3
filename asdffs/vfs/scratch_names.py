"""Names of scratch: files, directories and links that programs create.  They never enter the ASDF file.

The caller holds the main lock.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Iterable, Iterator

from asdffs.document.saves.keeping import Left, is_disposable
from asdffs.errors import FileExpectedError, NotDirectoryError, NotEmptyError, NotPermittedError
from asdffs.vfs.attributes import Owner, User
from asdffs.vfs.namespace import DirectoryNode, FileNode, LinkNode, Node
from asdffs.vfs.scratch import Spool, SpoolFile


class ScratchNames:
    """The scratch of one mount.  ``spool`` has its bytes; ``owner`` tells to whom new nodes belong."""

    def __init__(self, spool: Spool, owner: Owner) -> None:
        self._spool = spool
        self._owner = owner

    def new_file(self, folder: DirectoryNode, name: str, mode: int, by: User | None) -> FileNode:
        """Return a node for a file that ``by`` creates in ``folder``.  It has no name yet.  Raises ``OSError``."""
        now, owner = time.time_ns(), self._owner_in(folder, by)
        return FileNode(mode, *owner, now, now, file=SpoolFile(self._spool, name))

    def mkdir(self, folder: DirectoryNode, name: str, mode: int, by: User | None) -> None:
        """Create a directory that belongs to ``by``."""
        now, owner = time.time_ns(), self._owner_in(folder, by)
        mode |= folder.mode & stat.S_ISGID
        node = folder.scratch[name] = DirectoryNode(mode, *owner, now, now, created=True)
        node.stands_at(folder, name)

    def symlink(self, folder: DirectoryNode, name: str, target: str, by: User | None) -> None:
        """Create a symbolic link that belongs to ``by``."""
        now, owner = time.time_ns(), self._owner_in(folder, by)
        node = folder.scratch[name] = LinkNode(0o777, *owner, now, now, target=target)
        node.stands_at(folder, name)

    def _owner_in(self, folder: DirectoryNode, by: User | None) -> User:
        """Return the owner of a new node: its creator, with the group of ``folder`` if that is setgid (inode(7))."""
        owner = self._owner.of_new(by)
        return owner._replace(gid=folder.gid) if folder.mode & stat.S_ISGID else owner

    def link(self, node: Node, folder: DirectoryNode, name: str) -> None:
        """Give a scratch file or the tree another name in scratch.  Raises ``NotPermittedError``."""
        if not isinstance(node, FileNode) or not isinstance(node.file, SpoolFile):
            raise NotPermittedError("only scratch files and the tree can be hard-linked, to a name in scratch")
        folder.scratch[name] = node
        node.stands_at(folder, name)
        node.names += 1
        node.note_change()

    def check_removable(self, node: Node, path: str) -> None:
        """Raise ``NotDirectoryError``, ``NotPermittedError`` or ``NotEmptyError`` unless rmdir(2) may remove it."""
        if not isinstance(node, DirectoryNode):
            raise NotDirectoryError("is not a directory", path=path)
        if not node.created:
            raise NotPermittedError("a directory of the mount cannot be removed", path=path)
        _check_empty(node, path)

    def check_replaceable(self, node: Node, found: Node | None, name: str) -> None:
        """Raise unless rename(2) may replace ``found``, the node that has the new name, by ``node``.

        Raises ``FileExpectedError``, ``NotEmptyError``, ``NotDirectoryError``.
        """
        if isinstance(found, DirectoryNode):
            if not isinstance(node, DirectoryNode):
                raise FileExpectedError("is a directory", path=name)
            _check_empty(found, name)
        elif found is not None and isinstance(node, DirectoryNode):
            raise NotDirectoryError("is a file", path=name)

    def take_name(self, folder: DirectoryNode, name: str) -> None:
        """Remove a name if it exists.  The spool file of a node without names and handles is deleted."""
        for names in (folder.fixed, folder.scratch):
            node = names.pop(name, None)
            if node is None:
                continue
            node.names -= 1
            node.note_change()
            self.discard(node)

    def discard(self, node: Node) -> None:
        """Delete the spool file of ``node`` if no name and no handle leads to it any more."""
        if node.names <= 0 and node.opens == 0 and isinstance(node, FileNode) and isinstance(node.file, SpoolFile):
            node.file.drop()

    def left(self, folders: Iterable[DirectoryNode]) -> list[Left]:
        """Return the scratch in ``folders`` to keep at the end: files, links, directories without any."""
        return [found for folder in folders for found in _left_in(folder, "")]


def _left_in(folder: DirectoryNode, prefix: str) -> Iterator[Left]:
    for name, node in folder.scratch.items():
        path = prefix + name
        if is_disposable(name):
            continue
        if isinstance(node, DirectoryNode):
            yield from list(_left_in(node, f"{path}/")) or [Left(path)]
        elif isinstance(node, LinkNode):
            yield Left(path, target=node.target)
        elif isinstance(node, FileNode) and isinstance(node.file, SpoolFile) and node.file.spooled:
            yield Left(path, node.file.path)


def _check_empty(node: DirectoryNode, path: str) -> None:
    if node.scratch or not node.created:
        raise NotEmptyError("the directory is not empty", path=path)
