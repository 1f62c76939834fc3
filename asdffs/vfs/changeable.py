"""Names in directories of views that are changed as any other: the view does it, here nodes follow their files.

A node is of a file whatever it is called, so who has it open, and its times, stay when it is renamed or linked.
The caller holds the main lock.
"""

from __future__ import annotations

import time

from asdffs.errors import CrossViewError, FileExpectedError, NotDirectoryError, NotPermittedError
from asdffs.vfs.namespace import DirectoryNode, FileNode, Node
from asdffs.views.base import ChangeableDirectory


def changeable(folder: DirectoryNode) -> ChangeableDirectory | None:
    """The directory of a view, if it is one of these."""
    return folder.view if isinstance(folder.view, ChangeableDirectory) else None


def create(view: ChangeableDirectory, folder: DirectoryNode, name: str, mode: int) -> FileNode:
    """A new empty file.  Raises as ``ChangeableDirectory.create``."""
    view.create(name)
    node = folder.find(name)
    if not isinstance(node, FileNode):
        raise TypeError("views create files")
    node.mode = mode
    node.mtime_ns = node.atime_ns = time.time_ns()
    node.look()
    folder.touch()
    return node


def mkdir(view: ChangeableDirectory, folder: DirectoryNode, name: str) -> None:
    """A new directory."""
    view.mkdir(name)
    folder.find(name).touch()
    folder.touch()


def rmdir(view: ChangeableDirectory, folder: DirectoryNode, name: str, node: Node) -> None:
    """Remove an empty directory.  Raises as ``ChangeableDirectory.rmdir``."""
    if not isinstance(node, DirectoryNode):
        raise NotDirectoryError("is no directory", path=name)
    view.rmdir(name)
    _lose(folder, name, node)


def unlink(view: ChangeableDirectory, folder: DirectoryNode, name: str, node: Node) -> None:
    """Take a name away.  Raises as ``ChangeableDirectory.unlink``."""
    if isinstance(node, DirectoryNode):
        raise FileExpectedError("is a directory", path=name)
    view.unlink(name)
    _lose(folder, name, node)


def link(node: Node, folder: DirectoryNode, name: str) -> None:
    """Another name for a file.  Raises ``CrossViewError``, as ``ChangeableDirectory.link``."""
    view = changeable(folder)
    if view is None or not isinstance(node, FileNode):
        raise CrossViewError("a file of a view and one outside cannot be one file", path=name)
    view.link(node.file, name)
    folder.seen[name] = node
    node.names += 1
    folder.touch()


def rename(folder: DirectoryNode, name: str, node: Node, target: DirectoryNode, new_name: str, there: Node) -> None:
    """Give an entry another name.  ``there``: what has that name, the entry itself when nothing has.

    Raises ``CrossViewError``, as ``ChangeableDirectory.rename``.
    """
    view, other = changeable(folder), changeable(target)
    if view is None or other is None:
        raise CrossViewError("what is in a view is copied out of it, not renamed", path=name)
    view.rename(name, other, new_name)
    if there is not node:
        _lose(target, new_name, there)
    folder.seen.pop(name, None)
    target.seen[new_name] = node
    folder.touch()
    target.touch()


def _lose(folder: DirectoryNode, name: str, node: Node) -> None:
    node.names -= 1
    folder.seen.pop(name, None)
    folder.touch()


def refuse_link(name: str) -> None:
    """Raise ``NotPermittedError`` for a symbolic link."""
    raise NotPermittedError("no symbolic link can be created in this view", path=name)
