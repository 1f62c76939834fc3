"""Nodes and names: directories, files and symbolic links of the mount.

A node is what an open file refers to; names come and go.  Users: ``vfs``, ``staging``.
One thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from asdffs.errors import NotDirectoryError
from asdffs.views.base import ViewDirectory, ViewFile

#: libfuse gives an open file that is unlinked or replaced such a name until its last close.
_HIDDEN_PREFIX = ".fuse_hidden"


def is_hidden(path: str) -> bool:
    """Whether ``path`` is such a name."""
    return path.rpartition("/")[2].startswith(_HIDDEN_PREFIX)


@dataclass(slots=True, eq=False)
class Node:
    """What all nodes have.  ``mode``: permission bits.  Times in ns.

    ``opens``: handles on it; ``names``: names that lead to it; ``aliased``: whether it had
    several, each of which is a file of its own for the kernel's cache.
    """

    mode: int
    uid: int
    gid: int
    mtime_ns: int
    atime_ns: int
    opens: int = 0
    names: int = 1
    aliased: bool = False

    def touch(self) -> None:
        """The content changed now; the mtime always moves, because it tells the kernel."""
        self.mtime_ns = max(time.time_ns(), self.mtime_ns + 1)


@dataclass(slots=True, eq=False)
class FileNode(Node):
    """A regular file; ``file`` is what it shows.

    ``path``: where a view shows it.  ``cached``: whether the kernel may know attributes or
    content.  ``version``: of the file when it was last looked at.
    """

    file: ViewFile = field(default_factory=ViewFile)
    path: str = ""
    cached: bool = False
    version: int | None = None

    def look(self) -> bool:
        """Whether the file changed by itself since the last look; its mtime then moves."""
        version = self.file.version()
        changed = version != self.version and self.version is not None
        self.version = version
        if changed:
            self.touch()
        return changed


@dataclass(slots=True, eq=False)
class LinkNode(Node):
    """A symbolic link in scratch."""

    target: str = ""


@dataclass(slots=True, eq=False)
class DirectoryNode(Node):
    """A directory: entries of a view, and what was created in it (``scratch``).

    ``path``: of a view's directory; ``created``: whether it is scratch itself.  ``fixed``:
    entries that no view lists; ``hidden``: open nodes that have lost their name; ``seen``: nodes
    of the view.
    """

    view: ViewDirectory | None = None
    path: str = ""
    created: bool = False
    fixed: dict[str, Node] = field(default_factory=dict)
    scratch: dict[str, Node] = field(default_factory=dict)
    hidden: dict[str, Node] = field(default_factory=dict)
    seen: dict[str, Node] = field(default_factory=dict)

    def entries(self) -> Iterator[str]:
        """Names to list."""
        yield from self.fixed
        if self.view is not None:
            yield from self.view.names()
        yield from self.scratch

    def directories(self) -> int:
        """How many of the entries are directories."""
        own = sum(isinstance(node, DirectoryNode) for node in (*self.fixed.values(), *self.scratch.values()))
        return own + (self.view.directories() if self.view is not None else 0)

    def find(self, name: str) -> Node:
        """The node of that name.  Raises ``KeyError``."""
        for names in (self.fixed, self.scratch, self.hidden):
            if name in names:
                return names[name]
        if self.view is None:
            raise KeyError(name)
        child = self.view.child(name)
        if name not in self.seen:
            self.seen[name] = self._node(child, name)
        return self.seen[name]

    def forget(self) -> Iterator[str]:
        """The document was read again: nodes of the view start anew; paths of those the kernel may know."""
        for node in self.seen.values():
            if isinstance(node, FileNode) and node.cached:
                yield node.path
        self.seen.clear()

    def _node(self, child: ViewFile | ViewDirectory, name: str) -> Node:
        path = f"{self.path}/{name}"
        if isinstance(child, ViewFile):
            mode = self.mode & (0o666 if child.writable else 0o444)
            return FileNode(mode, self.uid, self.gid, self.mtime_ns, self.atime_ns, file=child, path=path)
        return DirectoryNode(self.mode, self.uid, self.gid, self.mtime_ns, self.atime_ns, view=child, path=path)


def walk(root: DirectoryNode, parts: list[str]) -> Node:
    """The node that ``parts`` lead to from ``root``.  Raises ``KeyError``, ``NotDirectoryError``."""
    node: Node = root
    for part in parts:
        if not isinstance(node, DirectoryNode):
            raise NotDirectoryError(f"{part!r} is looked for in a file")
        node = node.find(part)
    return node
