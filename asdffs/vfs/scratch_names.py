"""Names of scratch: files, directories and links that programs create, and that are never in the ASDF file."""

from __future__ import annotations

import stat
import time
from collections.abc import Iterable, Iterator

from asdffs.errors import FileExpectedError, NotDirectoryError, NotEmptyError, NotPermittedError
from asdffs.vfs.attributes import Owner, User
from asdffs.vfs.namespace import DirectoryNode, FileNode, LinkNode, Node
from asdffs.vfs.scratch import Spool, SpoolFile


class ScratchNames:
    """Scratch of ``owner``, with bytes in ``spool``."""

    def __init__(self, spool: Spool, owner: Owner) -> None:
        self._spool = spool
        self._owner = owner

    def new_file(self, folder: DirectoryNode, name: str, mode: int, by: User | None) -> FileNode:
        """A new node for a file that ``by`` creates in ``folder``, without a name yet.  Raises ``OSError``."""
        now, owner = time.time_ns(), self._owner_in(folder, by)
        return FileNode(mode, *owner, now, now, file=SpoolFile(self._spool, name))

    def mkdir(self, folder: DirectoryNode, name: str, mode: int, by: User | None) -> None:
        """A new directory of ``by``."""
        now, owner = time.time_ns(), self._owner_in(folder, by)
        mode |= folder.mode & stat.S_ISGID
        folder.scratch[name] = DirectoryNode(mode, *owner, now, now, created=True)

    def symlink(self, folder: DirectoryNode, name: str, target: str, by: User | None) -> None:
        """A new symbolic link of ``by``."""
        now, owner = time.time_ns(), self._owner_in(folder, by)
        folder.scratch[name] = LinkNode(0o777, *owner, now, now, target=target)

    def _owner_in(self, folder: DirectoryNode, by: User | None) -> User:
        """As on any file system: the one who creates it; of a directory with the bit setgid its group (inode(7))."""
        owner = self._owner.of_new(by)
        return owner._replace(gid=folder.gid) if folder.mode & stat.S_ISGID else owner

    def link(self, node: Node, folder: DirectoryNode, name: str) -> None:
        """Another name for a file.  Raises ``NotPermittedError``."""
        if not isinstance(node, FileNode) or not isinstance(node.file, SpoolFile):
            raise NotPermittedError("only scratch files and the tree can have a second name, in scratch")
        folder.scratch[name] = node
        node.names += 1
        node.note_change()

    def check_removable(self, node: Node, path: str) -> None:
        """Raise what rmdir(2) asks for: ``NotDirectoryError``, ``NotPermittedError`` or ``NotEmptyError``."""
        if not isinstance(node, DirectoryNode):
            raise NotDirectoryError("is no directory", path=path)
        if not node.created:
            raise NotPermittedError("a directory of the mount cannot be removed", path=path)
        _check_empty(node, path)

    def check_replaceable(self, node: Node, found: Node | None, name: str) -> None:
        """Raise what rename(2) asks of ``found``, which has the new name, if something has it."""
        if isinstance(found, DirectoryNode):
            if not isinstance(node, DirectoryNode):
                raise FileExpectedError("is a directory", path=name)
            _check_empty(found, name)
        elif found is not None and isinstance(node, DirectoryNode):
            raise NotDirectoryError("is a file", path=name)

    def take_name(self, folder: DirectoryNode, name: str) -> None:
        """Remove a name that may not be there; a node without names and handles gives its spool file back."""
        for names in (folder.fixed, folder.scratch, folder.hidden):
            node = names.pop(name, None)
            if node is None:
                continue
            node.names -= 1
            node.note_change()
            self.discard(node)
            if isinstance(node, DirectoryNode):  # libfuse has no path any more by which to unlink these
                for hidden in list(node.hidden):
                    self.take_name(node, hidden)

    def discard(self, node: Node) -> None:
        """Give the spool file of ``node`` back if nothing leads to it any more."""
        if node.names <= 0 and node.opens == 0 and isinstance(node, FileNode) and isinstance(node.file, SpoolFile):
            node.file.drop()

    def files(self, folders: Iterable[DirectoryNode]) -> list[tuple[str, str]]:
        """Path within its directory, and path in the spool, of every scratch file in ``folders`` that has bytes."""
        return [found for folder in folders for found in _files_in(folder, "")]


def _files_in(folder: DirectoryNode, prefix: str) -> Iterator[tuple[str, str]]:
    for name, node in folder.scratch.items():
        if isinstance(node, DirectoryNode):
            yield from _files_in(node, f"{prefix}{name}/")
        elif isinstance(node, FileNode) and isinstance(node.file, SpoolFile) and node.file.spooled:
            yield prefix + name, node.file.path


def _check_empty(node: DirectoryNode, path: str) -> None:
    if node.scratch or not node.created:
        raise NotEmptyError("the directory is not empty", path=path)
