"""Nodes and names: directories, files and symbolic links of the mount.

A node is what an open file refers to; names come and go.  Users: ``vfs``, ``staging``.
One thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from asdffs.errors import NotDirectoryError
from asdffs.relief import Exclusive
from asdffs.views.base import ViewDirectory, ViewFile

#: libfuse gives an open file that is unlinked or replaced such a name until its last close.
_HIDDEN_PREFIX = ".fuse_hidden"


def is_hidden(path: str) -> bool:
    """Whether ``path`` is such a name."""
    return path.rpartition("/")[2].startswith(_HIDDEN_PREFIX)


@dataclass(slots=True, eq=False)
class Node:
    """What all nodes have.  ``mode``: permission bits.  Times in ns.

    ``opens``: handles on it, ``writers``: those that may write; ``names``: names that lead to it.
    """

    mode: int
    uid: int
    gid: int
    mtime_ns: int
    atime_ns: int
    opens: int = 0
    writers: int = 0
    names: int = 1

    def touch(self) -> None:
        """The content changed now; the mtime always moves, because it tells the kernel."""
        self.mtime_ns = max(time.time_ns(), self.mtime_ns + 1)


@dataclass(slots=True, eq=False)
class FileNode(Node):
    """A regular file; ``file`` is what it shows.

    ``changed``: it is another one than the kernel may know by its name.  ``steady``: it changes
    only by what is asked of its one path; drafts and scratch may have several, each a file
    of its own for the kernel.  ``version``: of the file when it was last looked at.  ``changing``: who
    changes its bytes now; None until somebody first does.
    """

    file: ViewFile = field(default_factory=ViewFile)
    steady: bool = False
    changed: bool = False
    version: int | None = None
    changing: Exclusive | None = None

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

    ``created``: whether it is scratch itself.  ``fixed``: entries that no view lists; ``hidden``:
    open nodes that have lost their name; ``seen``: nodes of the view; ``reread``: whether the view
    showed another file before; ``leaving``: entries of the view that are being removed.
    """

    view: ViewDirectory | None = None
    created: bool = False
    reread: bool = False
    fixed: dict[str, Node] = field(default_factory=dict)
    scratch: dict[str, Node] = field(default_factory=dict)
    hidden: dict[str, Node] = field(default_factory=dict)
    seen: dict[str, Node] = field(default_factory=dict)
    leaving: set[str] = field(default_factory=set)

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
        if self.view is None or name in self.leaving:
            raise KeyError(name)
        child = self.view.child(name)
        if name not in self.seen:
            self.seen[name] = self._node(child)
        return self.seen[name]

    def forget(self) -> None:
        """The document was read again: nodes of the view start anew."""
        self.seen.clear()
        self.reread = True

    def _node(self, child: ViewFile | ViewDirectory) -> Node:
        if not isinstance(child, ViewFile):
            return DirectoryNode(self.mode, self.uid, self.gid, self.mtime_ns, self.atime_ns, view=child)
        mode = self.mode & (0o666 if child.writable else 0o444)
        node = FileNode(mode, self.uid, self.gid, self.mtime_ns, self.atime_ns, file=child, changed=self.reread)
        node.steady = child.version() is None
        return node


def walk(root: DirectoryNode, parts: list[str]) -> Node:
    """The node that ``parts`` lead to from ``root``.  Raises ``KeyError``, ``NotDirectoryError``."""
    node: Node = root
    for part in parts:
        if not isinstance(node, DirectoryNode):
            raise NotDirectoryError(f"{part!r} is looked for in a file")
        node = node.find(part)
    return node
