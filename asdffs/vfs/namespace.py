"""Nodes and names: directories, files and symbolic links of the mount.

A node is what an open file refers to; names come and go.  One thread.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from asdffs.document.changes import Subject
from asdffs.errors import AsdffsError, NotDirectoryError
from asdffs.scheduling import RankedLock
from asdffs.vfs.recent_nodes import RecentNodes
from asdffs.views.base import ChangeableDirectory, ViewDirectory, ViewFile

logger = logging.getLogger(__name__)

#: libfuse gives an open file that is unlinked or replaced such a name until its last close.
_HIDDEN_PREFIX = ".fuse_hidden"


#: Numbers of nodes that are no entries of a view; 1 is the root's.
_numbers: Final = itertools.count(2)
#: Those of entries of views, which are made of their names, are all larger.
_OF_VIEWS: Final = 1 << 62


def _number_of(folder: int, name: str) -> int:
    """The number of an entry of a view: always the same one, so that nodes can be forgotten."""
    digest = hashlib.blake2b(b"%d/%s" % (folder, os.fsencode(name)), digest_size=8).digest()
    return _OF_VIEWS | (int.from_bytes(digest, "big") >> 2)


def is_hidden(path: str) -> bool:
    """Whether ``path`` is such a name."""
    return path.rpartition("/")[2].startswith(_HIDDEN_PREFIX)


@dataclass(slots=True, eq=False, weakref_slot=True)
class Node:
    """What all nodes have.  ``mode``: permission bits.  Times in ns.

    ``opens``: handles on it, ``writers``: those that may write, ``mappers``: those of them that may be mapped;
    ``names``: names that lead to it.
    ``number``: what stat shows as its inode; ``changed_ns``: when anything but the content last changed;
    ``set_ns``: the mtime that somebody has set.
    ``path``: where the kernel last asked for it; ``inode``: the kernel's number for it, 0 when it is not known.
    ``identity``: of what the view shows under its name.
    """

    mode: int
    uid: int
    gid: int
    mtime_ns: int
    atime_ns: int
    opens: int = 0
    writers: int = 0
    mappers: int = 0
    names: int = 1
    path: str = ""
    inode: int = 0
    identity: object = None
    number: int = field(default_factory=_numbers.__next__)
    changed_ns: int = 0
    set_ns: int = 0

    def subjects(self) -> tuple[Subject, ...] | None:
        """What of the document it shows; None: the kernel keeps nothing of it."""
        return ()

    def is_present(self) -> bool:
        """Whether the name that leads to it is there now."""
        return True

    @property
    def ctime_ns(self) -> int:
        """When anything of it last changed: later than an mtime that somebody has set."""
        return self.changed_ns if self.mtime_ns == self.set_ns else max(self.changed_ns, self.mtime_ns)

    def note_change(self) -> None:
        """Something but the content changed now: mode, owner, times, or a name."""
        self.changed_ns = max(time.time_ns(), self.ctime_ns + 1)

    def touch(self) -> None:
        """The content changed now; the mtime always moves, because it tells the kernel."""
        self.mtime_ns = max(time.time_ns(), self.mtime_ns + 1)


@dataclass(slots=True, eq=False)
class FileNode(Node):
    """A regular file; ``file`` is what it shows.

    ``version``: of the file when it was last looked at; ``born_ns``: the mtime that a node of a view begins with.
    ``changing``: who changes its bytes now; None until somebody first does. For ``shared_pages``, which alone
    sets them: ``gate``: who changes its bytes through any view, None while it is not open for writing with pages;
    ``fetches``: how often the kernel was given bytes since; ``mapped_written``: whether a mapped write came;
    ``moved``: whether the kernel's pages may be of other bytes of the file.
    """

    file: ViewFile = field(default_factory=ViewFile)
    version: int | None = None
    changing: RankedLock | None = None
    gate: RankedLock | None = None
    fetches: int = 0
    mapped_written: bool = False
    moved: bool = False
    born_ns: int = 0

    def subjects(self) -> tuple[Subject, ...] | None:
        """As the file; drafts and scratch may have several names, each a file of its own for the kernel."""
        return self.file.subjects()

    @property
    def renewable(self) -> bool:
        """Whether a new node would show the same."""
        kept = self.opens or self.changing is not None or self.gate is not None or self.changed_ns
        return not kept and self.mtime_ns in (self.born_ns, self.version)

    def look(self) -> None:
        """Have the mtime move when the file changed since the last look: to the time of the change, if known."""
        version = self.file.version()
        if version == self.version:
            return
        if self.file.subjects() is not None and version:
            self.mtime_ns = max(version, self.mtime_ns + (self.version is not None))
        elif self.version is not None:
            self.touch()
        self.version = version

    def touched(self, version: int) -> None:
        """As ``touch``, where the version that the file has now is known: the stamp of the change."""
        self.mtime_ns = max(version, self.mtime_ns + 1)
        self.version = version

    def touch(self) -> None:
        """It was changed through this node: what the file tells of that is no news."""
        Node.touch(self)  # super() does not know a class with slots
        self.version = self.file.version()


@dataclass(slots=True, eq=False)
class LinkNode(Node):
    """A symbolic link in scratch."""

    target: str = ""


@dataclass(slots=True, eq=False)
class DirectoryNode(Node):
    """A directory: entries of a view, and what was created in it (``scratch``).

    ``created``: whether it is scratch itself.  ``fixed``: entries that no view lists; ``hidden``: nodes that are not
    listed: open ones that have lost their name; ``seen``: nodes of the view; ``born_ns``: the mtime that these begin
    with; ``leaving``: entries of the view that are being removed; ``recent``: what gives nodes of the view back.
    """

    view: ViewDirectory | None = None
    created: bool = False
    born_ns: int = 0
    fixed: dict[str, Node] = field(default_factory=dict)
    scratch: dict[str, Node] = field(default_factory=dict)
    hidden: dict[str, Node] = field(default_factory=dict)
    seen: dict[str, Node] = field(default_factory=dict)
    leaving: set[str] = field(default_factory=set)
    recent: RecentNodes | None = None

    @property
    def renewable(self) -> bool:
        """Whether a new node would show the same."""
        busy = self.opens or self.seen or self.scratch or self.hidden or self.fixed or self.leaving
        return not busy and self.mtime_ns == self.born_ns and not self.changed_ns

    def is_present(self) -> bool:
        """A view may have nothing to show."""
        present = getattr(self.view, "present", None)
        try:
            return present is None or bool(present())
        except (AsdffsError, OSError):
            raise
        except Exception:  # a view of another package: the others are shown all the same
            logger.exception("a view does not say whether it is present")
            return False

    def subjects(self) -> tuple[Subject, ...] | None:
        """As the view."""
        return self.view.subjects() if self.view is not None else ()

    def entries(self) -> Iterator[str]:
        """Names to list."""
        yield from (name for name, node in self.fixed.items() if node.is_present())
        if self.view is not None:
            yield from self.view.names()
        yield from self.scratch

    def links(self) -> int:
        """Itself, its name, and a name in each directory in it; 1 when these are not counted, as find(1) knows it."""
        nodes = (*self.fixed.values(), *self.scratch.values())
        own = sum(isinstance(node, DirectoryNode) and node.is_present() for node in nodes)
        below = self.view.directories() if self.view is not None else 0
        return 1 if below is None else 2 + own + below

    def look(self) -> None:
        """Have the mtime move when entries of the view came or went; forget those that went."""
        version = self.view.version() if self.view is not None else 0
        if version > self.mtime_ns and self.view is not None:
            self.mtime_ns = version
            names = set(self.view.names())
            self.seen = {name: node for name, node in self.seen.items() if name in names}

    def find(self, name: str) -> Node:
        """The node of that name.  Raises ``KeyError``."""
        for names in (self.fixed, self.scratch, self.hidden):
            if name in names and names[name].is_present():
                return names[name]
        if self.view is None or name in self.leaving:
            raise KeyError(name)
        try:
            child = self.view.child(name)
        except KeyError:
            self.seen.pop(name, None)
            raise
        node = self.seen.get(name)
        if (
            node is None
            or node.identity != child.identity
            or isinstance(node, FileNode) != isinstance(child, ViewFile)
        ):
            node = self.seen[name] = self._node(name, child)
            node.identity = child.identity
            if self.recent is not None and not self._is_changeable:
                self.recent.add(self.seen, name)
        return node

    def forget(self) -> None:
        """The document was read again: nodes of the view start anew."""
        self.seen.clear()
        self.born_ns = self.mtime_ns

    def number_of(self, name: str) -> int:
        """What stat would show as the inode of the entry of that name.  Raises ``KeyError``."""
        for nodes in (self.fixed, self.scratch):
            if name in nodes:
                return nodes[name].number
        return self.find(name).number if self._is_changeable else _number_of(self.number, name)

    @property
    def _is_changeable(self) -> bool:
        """Whether entries may get other names, and so keep their numbers."""
        return isinstance(self.view, ChangeableDirectory)

    def _node(self, name: str, child: ViewFile | ViewDirectory) -> Node:
        born = self.born_ns
        number = next(_numbers) if self._is_changeable else _number_of(self.number, name)
        if not isinstance(child, ViewFile):
            return DirectoryNode(
                self.mode, self.uid, self.gid, born, born, view=child, born_ns=born, number=number, recent=self.recent
            )
        mode = self.mode & (0o666 if child.writable else 0o444)
        return FileNode(mode, self.uid, self.gid, born, born, file=child, number=number, born_ns=born)


def walk(root: DirectoryNode, parts: list[str]) -> Node:
    """The node that ``parts`` lead to from ``root``.  Raises ``KeyError``, ``NotDirectoryError``."""
    node: Node = root
    for part in parts:
        if not isinstance(node, DirectoryNode):
            raise NotDirectoryError(f"{part!r} is looked for in a file")
        node = node.find(part)
    return node
