"""Nodes: directories, files and symbolic links of the mount.

A node is like an inode: an open file refers to it, and its names may change.  ``directories`` has the directories in
which programs may change names.  The caller holds the main lock.
"""

from __future__ import annotations

import itertools
import logging
import os
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from asdffs.document.changes import Subject
from asdffs.errors import AsdffsError, NotPermittedError
from asdffs.scheduling import RankedLock
from asdffs.vfs.inodes import ROOT, Item
from asdffs.views.base import ViewDirectory, ViewFile

try:
    from _blake2 import blake2b
except ImportError:  # hashlib has the same, but also loads OpenSSL, and a mount begins 3 ms later
    from hashlib import blake2b

logger = logging.getLogger(__name__)

#: The inode number of the root of a mount.
ROOT_NUMBER: Final = ROOT
#: Inode numbers of scratch, and of entries that can be renamed.
_numbers: Final = itertools.count(2)
#: Entries of views have larger numbers, which are made from their names.
_OF_VIEWS: Final = 1 << 62
#: Odd, and large, so that equal inodes of two devices get numbers far apart.
_SPREAD: Final = 0x1E3779B97F4A7C15
_FIXED: Final = "nothing can be created in this directory"


class User(NamedTuple):
    """The user and group of a program."""

    uid: int
    gid: int


class Owner(NamedTuple):
    """The attributes of a new node: permission bits, user and group, and its times in ns."""

    mode: int
    uid: int
    gid: int
    mtime_ns: int


def number_of(folder: int, name: str) -> int:
    """Return the inode number of a view entry.

    It depends only on directory and name, so a node may be dropped and made anew, and backup programs know the files
    of the next mount again.
    """
    digest = blake2b(b"%d/%s" % (folder, os.fsencode(name)), digest_size=8).digest()
    return _OF_VIEWS | (int.from_bytes(digest, "big") >> 2)


def number_on(device: int, inode: int) -> int:
    """Return the inode number that a mount shows for a file of a disk, given the file's own device and inode."""
    return _OF_VIEWS | ((inode ^ device * _SPREAD) & (_OF_VIEWS - 1))


class Node(Item):
    """The state that all nodes have.

    ``mode``: permission bits.  Times are in ns.  ``opens``: number of handles on the node.  ``writers``: those of
    them that may write.  ``mappers``: those of the writers that may be mapped.  ``names``: number of names that lead
    to the node.  ``number``: the inode number that stat(2) shows.  ``changed_ns``: time of the last change of
    metadata.  ``set_ns``: the mtime that a program has set.  ``inode``: the number by which the kernel knows the node
    (``inodes``), 0 if it does not.  ``folder`` and ``name``: where it is shown.  ``identity``: that of the view's
    file.  ``shape``: ``Changes.shape`` when a view last showed it there; None: its names are counted.  ``shown``: its
    last attributes, and the state for which they are right (``Vfs``).
    """

    heavy = True
    __slots__ = (
        "__weakref__",
        "atime_ns",
        "changed_ns",
        "folder",
        "gid",
        "identity",
        "mappers",
        "mode",
        "mtime_ns",
        "name",
        "names",
        "number",
        "opens",
        "set_ns",
        "shape",
        "shown",
        "uid",
        "writers",
    )

    def __init__(self, owner: Owner, *, number: int | None = None) -> None:
        """``number``: the inode number; None: a new one."""
        self.mode, self.uid, self.gid, self.mtime_ns = owner
        self.atime_ns = owner.mtime_ns
        self.opens = 0
        self.writers = 0
        self.mappers = 0
        self.names = 1
        self.folder: DirectoryNode | None = None
        self.name = ""
        self.inode = 0
        self.identity: object = None
        self.number = next(_numbers) if number is None else number
        self.changed_ns = 0
        self.set_ns = 0
        self.shape: int | None = None
        self.shown: tuple[tuple[int, ...], Any] | None = None

    def stands_at(self, folder: DirectoryNode, name: str) -> None:
        """Record a name of the node."""
        self.folder, self.name = folder, name

    @property
    def renewable(self) -> bool:
        """Return whether a new node for the same name would look the same."""
        return False

    @property
    def path(self) -> str:
        """The path from the root of the document, such as ``/blocks/0000.bin``; empty for the root."""
        return f"{self.folder.path}/{self.name}" if self.folder is not None else ""

    def subjects(self) -> tuple[Subject, ...] | None:
        """Return the parts of the document that the node shows.  None: the kernel must not cache the node."""
        return ()

    def is_present(self) -> bool:
        """Return whether the node exists at present."""
        return True

    @property
    def ctime_ns(self) -> int:
        """Time of the last change of content or metadata, in ns.  It ignores an mtime that a program has set."""
        return self.changed_ns if self.mtime_ns == self.set_ns else max(self.changed_ns, self.mtime_ns)

    def note_change(self) -> None:
        """Record a change of metadata now: mode, owner, times, or a name."""
        self.changed_ns = max(time.time_ns(), self.ctime_ns + 1)

    def touch(self) -> None:
        """Record a change of the content now.  The mtime always moves, because the kernel compares it."""
        self.mtime_ns = max(time.time_ns(), self.mtime_ns + 1)


class FileNode(Node):
    """A regular file; ``file`` provides its content.

    ``version``: version of ``file`` at the last ``look``.  ``born_ns``: the first mtime of a node of a view.
    ``write_lock``: held while a request changes the bytes through this node, other than by a fast path, which only
    finds it free; None before the first change.

    Only ``shared_pages`` sets the others.  ``gate``: lock that is held while a request changes these bytes through
    any view; None unless the node is open for writing with pages.  ``fetches``: number of reads that filled kernel
    pages since then.  ``mapped_written``: whether a mapped write came.  ``moved``: whether the kernel's pages may
    belong to other bytes of the ASDF file.
    """

    __slots__ = ("born_ns", "fetches", "file", "gate", "mapped_written", "moved", "version", "write_lock")

    def __init__(
        self, owner: Owner, *, file: ViewFile | None = None, number: int | None = None, born_ns: int = 0
    ) -> None:
        super().__init__(owner, number=number)
        self.file = file or ViewFile()
        self.version: int | None = None
        self.write_lock: RankedLock | None = None
        self.gate: RankedLock | None = None
        self.fetches = 0
        self.mapped_written = False
        self.moved = False
        self.born_ns = born_ns

    def subjects(self) -> tuple[Subject, ...] | None:
        """See ``Node``."""
        return self.file.subjects()

    @property
    def renewable(self) -> bool:
        """Whether a new node for the same name would look the same."""
        kept = self.opens or self.write_lock is not None or self.gate is not None or self.changed_ns
        return not kept and self.mtime_ns in (self.born_ns, self.version)

    def look(self) -> None:
        """Move the mtime if the file changed since the last look: to the time of the change, if known."""
        version = self.file.version()
        if version == self.version:
            return
        if version and self.file.subjects() is not None:
            self.mtime_ns = max(version, self.mtime_ns + (self.version is not None))
        elif self.version is not None:
            self.touch()
        self.version = version

    def touched(self, version: int) -> None:
        """Do the same as ``touch`` with a known new version of the file: the stamp of the change in ns."""
        self.mtime_ns = max(version, self.mtime_ns + 1)
        self.version = version

    def touch(self) -> None:
        """Record a change through this node, so that the next ``look`` does not move the mtime for it again."""
        super().touch()
        self.version = self.file.version()


class LinkNode(Node):
    """A symbolic link in scratch."""

    __slots__ = ("target",)

    def __init__(self, owner: Owner, *, target: str = "") -> None:
        super().__init__(owner)
        self.target = target


class DirectoryNode(Node):
    """A directory.  This kind shows entries of a view, and programs cannot change its names.

    The kinds of ``directories`` override what they allow; so may a view, which then names its kind (``node_kind``).
    ``Names`` has checked that the mount is writable, and that what is to be created does not exist.

    ``born_ns``: the first mtime of nodes of the view.  ``fixed``: entries that no view lists.  ``scratch``: entries
    that programs created.  ``hidden``: nodes that are not listed.  ``seen``: nodes of the view.  ``leaving``: entries
    of the view that are being removed.
    """

    #: Whether a program created the directory.
    created = False
    #: Whether files can only be renamed and linked inside of it and directories of this kind.
    closed = False

    __slots__ = ("born_ns", "fixed", "hidden", "leaving", "scratch", "seen", "view")

    def __init__(
        self, owner: Owner, *, view: ViewDirectory | None = None, number: int | None = None, born_ns: int = 0
    ) -> None:
        super().__init__(owner, number=number)
        self.view = view
        self.born_ns = born_ns
        self.fixed: dict[str, Node] = {}
        self.scratch: dict[str, Node] = {}
        self.hidden: dict[str, Node] = {}
        self.seen: dict[str, Node] = {}
        self.leaving: set[str] = set()

    @property
    def renewable(self) -> bool:
        """Whether a new node for the same name would look the same."""
        busy = self.opens or self.seen or self.scratch or self.hidden or self.fixed or self.leaving
        return not busy and self.mtime_ns == self.born_ns and not self.changed_ns

    def is_present(self) -> bool:
        """Return whether the directory exists at present.  That of a view with nothing to show does not."""
        present = getattr(self.view, "present", None)
        try:
            return present is None or bool(present())
        except (AsdffsError, OSError):
            raise
        except Exception:  # a bug in a view of another package must not break the other views
            logger.exception("a view failed to tell whether it has anything to show; it is left out")
            return False

    def subjects(self) -> tuple[Subject, ...] | None:
        """See ``Node``: as the view says."""
        return self.view.subjects() if self.view is not None else ()

    def entries(self) -> Iterator[str]:
        """Return the names to list."""
        yield from (name for name, node in self.fixed.items() if node.is_present())
        if self.view is not None:
            yield from self.view.names()
        yield from self.scratch

    def links(self) -> int:
        """Return the number of links: 2 and one for each subdirectory.

        1 means "not counted", as find(1) understands it: the view would have to work for the number.
        """
        nodes = (*self.fixed.values(), *self.scratch.values())
        own = sum(isinstance(node, DirectoryNode) and node.is_present() for node in nodes)
        below = self.view.directories() if self.view is not None else 0
        return 1 if below is None else 2 + own + below

    def look(self) -> None:
        """Move the mtime if entries of the view came or went; forget the nodes of those that went."""
        version = self.view.version() if self.view is not None else 0
        if version > self.mtime_ns and self.view is not None:
            self.mtime_ns = version
            names = set(self.view.names())
            self.seen = {name: node for name, node in self.seen.items() if name in names}

    def find(self, name: str) -> Node:
        """Return the node of that name.  Raises ``KeyError``, and whatever the view raises."""
        own = self.fixed.get(name) or self.scratch.get(name) or self.hidden.get(name)
        if own is not None and own.is_present():
            return own
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
            node.stands_at(self, name)
            node.shape = 0
        return node

    def drop(self, node: Node) -> bool:
        """Drop an entry of the view that nobody needs; return False if it is in use, or has state of its own."""
        if self.seen.get(node.name) is not node or self.closed or not node.renewable:
            return False
        del self.seen[node.name]
        return True

    def forget(self) -> None:
        """Drop all nodes of the view, because the document was read again."""
        self.seen.clear()
        self.born_ns = self.mtime_ns

    def _node(self, name: str, child: ViewFile | ViewDirectory) -> Node:
        born = self.born_ns
        # a number must not depend on a name that may change
        number = next(_numbers) if self.closed else number_of(self.number, name)
        if not isinstance(child, ViewFile):
            owner, kind = Owner(self.mode, self.uid, self.gid, born), kind_of(child)
            return kind(owner, view=child, born_ns=born, number=number)
        mode = self.mode & (0o666 if child.writable else 0o444)
        return FileNode(Owner(mode, self.uid, self.gid, born), file=child, number=number, born_ns=born)

    # -- changes of names -----------------------------------------------------

    def takes(self, name: str) -> bool:
        """Return whether ``name`` is free, and a file of that name becomes an entry of the view."""
        return False

    def create(self, name: str, mode: int, by: User | None) -> FileNode:
        """Create an empty file that belongs to ``by``; return it."""
        raise NotPermittedError(_FIXED)

    def mkdir(self, name: str, mode: int, by: User | None) -> None:
        """Create a directory that belongs to ``by``."""
        raise NotPermittedError(_FIXED)

    def symlink(self, name: str, target: str, by: User | None) -> None:
        """Create a symbolic link that belongs to ``by``."""
        raise NotPermittedError(_FIXED)

    def link(self, node: Node, name: str) -> None:
        """Give a file an additional name."""
        raise NotPermittedError(_FIXED)

    def unlink(self, name: str, node: Node) -> None:
        """Remove the name of ``node``, which is no directory."""
        raise NotPermittedError("is a fixed part of the mount, which stays as long as the mount", path=name)

    def rmdir(self, name: str, node: DirectoryNode) -> None:
        """Remove an empty directory."""
        raise NotPermittedError("a directory of the mount cannot be removed", path=name)

    def rename(self, name: str, node: Node, target: DirectoryNode, new_name: str, found: Node | None) -> Node:
        """Rename ``node``; return the node that has the new name afterwards.  ``found``: the one that has it now."""
        raise NotPermittedError(f"{name} is not scratch and cannot be renamed")

    def check_accepts(self, node: Node, name: str, found: Node | None) -> None:
        """Raise unless ``node`` may be renamed to ``name`` in this directory, where ``found`` has that name."""
        raise NotPermittedError(_FIXED)

    def accept(self, node: Node, name: str) -> None:
        """Give ``node`` the name, after ``check_accepts``."""
        raise NotPermittedError(_FIXED)


def kind_of(view: ViewDirectory) -> type[DirectoryNode]:
    """Return the class of the node for a directory of a view."""
    kind: type[DirectoryNode] = getattr(view, "node_kind", DirectoryNode)
    return kind
