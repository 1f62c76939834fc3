"""Changes of names in the directories of a view that supports them (``ChangeableDirectory``).

The view changes the names; this module makes the nodes follow their files.  A node belongs to a file, not to a name,
so its open handles and its times survive a rename or a link.  The caller holds the main lock.
"""

from __future__ import annotations

import time

from asdffs.errors import CrossViewError, FileExpectedError, NotDirectoryError, NotPermittedError
from asdffs.vfs.namespace import DirectoryNode, FileNode, Node
from asdffs.views.base import ChangeableDirectory


def changeable(folder: DirectoryNode) -> ChangeableDirectory | None:
    """Return the view's directory if programs may change its names, else None."""
    return folder.view if isinstance(folder.view, ChangeableDirectory) else None


def create(view: ChangeableDirectory, folder: DirectoryNode, name: str, mode: int) -> FileNode:
    """Create an empty file and return its node.  Raises as ``ChangeableDirectory.create``."""
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
    """Create a directory.  Raises as ``ChangeableDirectory.mkdir``."""
    view.mkdir(name)
    folder.find(name).touch()
    folder.touch()


def rmdir(view: ChangeableDirectory, folder: DirectoryNode, name: str, node: Node) -> None:
    """Remove an empty directory.  Raises ``NotDirectoryError``, and as ``ChangeableDirectory.rmdir``."""
    if not isinstance(node, DirectoryNode):
        raise NotDirectoryError("is not a directory", path=name)
    view.rmdir(name)
    _lose(folder, name, node)


def unlink(view: ChangeableDirectory, folder: DirectoryNode, name: str, node: Node) -> None:
    """Remove the name of a file.  Raises ``FileExpectedError``, and as ``ChangeableDirectory.unlink``."""
    if isinstance(node, DirectoryNode):
        raise FileExpectedError("is a directory", path=name)
    view.unlink(name)
    _lose(folder, name, node)


def link(node: Node, folder: DirectoryNode, name: str) -> None:
    """Give a file another name (hard link).  Raises ``CrossViewError``, and as ``ChangeableDirectory.link``."""
    view = changeable(folder)
    if view is None or not isinstance(node, FileNode):
        raise CrossViewError("a hard link cannot lead into or out of this view", path=name)
    view.link(node.file, name)
    _show(node, folder, name)
    node.names += 1
    folder.touch()


def rename(folder: DirectoryNode, name: str, node: Node, target: DirectoryNode, new_name: str, there: Node) -> None:
    """Rename an entry.  ``there``: the node that has the new name, or ``node`` itself if the name is free.

    Raises ``CrossViewError``, and as ``ChangeableDirectory.rename``.
    """
    view, other = changeable(folder), changeable(target)
    if view is None or other is None:
        raise CrossViewError("cannot be renamed into or out of this view; copy it instead", path=name)
    view.rename(name, other, new_name)
    if there is not node:
        _lose(target, new_name, there)
    folder.seen.pop(name, None)
    _show(node, target, new_name)
    folder.touch()
    target.touch()


def _show(node: Node, folder: DirectoryNode, name: str) -> None:
    folder.seen[name] = node
    node.stands_at(folder, name)


def _lose(folder: DirectoryNode, name: str, node: Node) -> None:
    node.names -= 1
    folder.seen.pop(name, None)
    folder.touch()


def refuse_link(name: str) -> None:
    """Raise ``NotPermittedError``: these views have no symbolic links."""
    raise NotPermittedError("symbolic links cannot be created in this view", path=name)
