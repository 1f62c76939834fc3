"""The kinds of directories in which programs may create, rename and remove names.

| kind               | names                                                                                     |
|--------------------|-------------------------------------------------------------------------------------------|
| `ScratchDirectory` | scratch: files, directories and links that programs create; never in the ASDF file        |
| `TreeDirectory`    | the root of a mount: scratch, and `tree.yaml`.  Giving that name to a file is a save;     |
|                    | taking it away changes nothing in the ASDF file (`staging`)                               |
| `BlocksDirectory`  | scratch, and entries of a view that programs can add and remove: blocks                   |

All others are fixed (``namespace.DirectoryNode``).  Renaming scratch onto an entry of a view copies its bytes.  The
caller holds the main lock.
"""

from __future__ import annotations

import contextlib
import stat
import time
from collections.abc import Iterator
from typing import NamedTuple

from asdffs.document.saves.keeping import Left, is_disposable
from asdffs.errors import (
    AsdffsError,
    CrossViewError,
    FileExpectedError,
    InUseError,
    NotDirectoryError,
    NotEmptyError,
    NotPermittedError,
)
from asdffs.scheduling import Scheduler
from asdffs.storage.backend import read_bytes
from asdffs.vfs.coherence import Coherence
from asdffs.vfs.namespace import DirectoryNode, FileNode, LinkNode, Node, Owner, User
from asdffs.vfs.scratch import Spool, SpoolFile
from asdffs.vfs.shared_pages import SharedPages
from asdffs.vfs.staging import TREE, Staging, spooled
from asdffs.views.base import View

_COPY_PIECE = 1 << 20


class Parts(NamedTuple):
    """What the directories of a mount share.

    ``owner``: of nodes that the mount itself creates.  ``chosen``: the user and group that the mount options set for
    all nodes; None for each that they do not set.
    """

    spool: Spool
    owner: Owner
    chosen: tuple[int | None, int | None]
    staging: Staging
    coherence: Coherence
    pages: SharedPages
    scheduler: Scheduler


class ScratchDirectory(DirectoryNode):
    """A directory that a program created."""

    created = True
    __slots__ = ("_parts",)

    def __init__(
        self, owner: Owner, parts: Parts, *, view: View | None = None, number: int | None = None, born_ns: int = 0
    ) -> None:
        super().__init__(owner, view=view, number=number, born_ns=born_ns)
        self._parts = parts

    # -- new names ------------------------------------------------------------

    def check_new(self, name: str, what: str = "") -> None:
        """Raise unless scratch of this name may be created.  ``what``: words for it, if it is no file of its own."""

    def create(self, name: str, mode: int, by: User | None) -> FileNode:
        """See ``DirectoryNode``.  Raises ``OSError``, and as ``check_new``."""
        self.check_new(name)
        node = self._new_file(name, mode, by)
        self._show(node, name)
        return node

    def _new_file(self, name: str, mode: int, by: User | None) -> FileNode:
        return FileNode(self._owner_of_new(mode, by), file=SpoolFile(self._parts.spool, name))

    def mkdir(self, name: str, mode: int, by: User | None) -> None:
        """See ``DirectoryNode``."""
        self.check_new(name, "a directory")
        owner = self._owner_of_new(mode | self.mode & stat.S_ISGID, by)
        self._show(ScratchDirectory(owner, self._parts), name)

    def symlink(self, name: str, target: str, by: User | None) -> None:
        """See ``DirectoryNode``."""
        self.check_new(name, "a symbolic link")
        self._show(LinkNode(self._owner_of_new(0o777, by), target=target), name)

    def link(self, node: Node, name: str) -> None:
        """See ``DirectoryNode``: scratch and the tree can have another name in scratch."""
        self.check_new(name, "another file's second name")
        if not isinstance(node, FileNode) or not isinstance(node.file, SpoolFile):
            raise NotPermittedError("only scratch files and the tree can be hard-linked, to a name in scratch")
        self._show(node, name)
        node.names += 1
        node.note_change()

    def _owner_of_new(self, mode: int, by: User | None) -> Owner:
        """Return the owner of a new node: its creator, with the group of a directory that is setgid (inode(7))."""
        (uid, gid), (user, group) = self._parts.chosen, by or self._parts.owner[1:3]
        group = self.gid if self.mode & stat.S_ISGID else group if gid is None else gid
        return Owner(mode, user if uid is None else uid, group, time.time_ns())

    def _show(self, node: Node, name: str) -> None:
        self.scratch[name] = node
        node.stands_at(self, name)
        self.touch()

    # -- removed names --------------------------------------------------------

    def unlink(self, name: str, node: Node) -> None:
        """See ``DirectoryNode``."""
        if name not in self.scratch:
            super().unlink(name, node)  # raises
        self._lose(name)
        self.touch()

    def rmdir(self, name: str, node: DirectoryNode) -> None:
        """See ``DirectoryNode``.  Raises ``NotEmptyError``."""
        if not node.created:
            super().rmdir(name, node)  # raises
        _check_empty(node, name)
        self._lose(name)
        self.touch()

    def _lose(self, name: str) -> None:
        """Remove a name if it exists.  The spool file of a node without names and handles is deleted."""
        for names in (self.fixed, self.scratch):
            node = names.pop(name, None)
            if node is not None:
                node.names -= 1
                node.note_change()
                discard(node)

    # -- renamed --------------------------------------------------------------

    def rename(self, name: str, node: Node, target: DirectoryNode, new_name: str, found: Node | None) -> Node:
        """See ``DirectoryNode``.  Onto a name of a view: copy the bytes.  Raises as ``check_accepts``."""
        if name not in self.scratch:
            super().rename(name, node, target, new_name, found)  # raises
        became = node
        if _is_of_view(target, new_name, found):
            became = self._copied(name, node, target, new_name, found)
        else:
            target.check_accepts(node, new_name, found)
            target.accept(node, new_name)
        del self.scratch[name]
        self.touch()
        target.touch()
        return became

    def check_accepts(self, node: Node, name: str, found: Node | None) -> None:
        """See ``DirectoryNode``.  Raises ``FileExpectedError``, ``NotDirectoryError``, ``NotEmptyError``."""
        self.check_new(name)
        if isinstance(found, DirectoryNode):
            if not isinstance(node, DirectoryNode):
                raise FileExpectedError("is a directory", path=name)
            _check_empty(found, name)
        elif found is not None and isinstance(node, DirectoryNode):
            raise NotDirectoryError("is a file", path=name)

    def accept(self, node: Node, name: str) -> None:
        """See ``DirectoryNode``."""
        self._lose(name)
        self._show(node, name)
        if isinstance(node, FileNode):
            spooled(node).rename(name)
        node.note_change()

    def _copied(self, name: str, node: Node, target: DirectoryNode, new_name: str, found: Node | None) -> Node:
        """Copy scratch onto an entry of a view, which is created if necessary; return its node.

        A new entry is removed again if the copy fails.  Raises ``InUseError``, ``CrossViewError``,
        ``NotPermittedError``, and as ``View.add`` and the methods of its file.
        """
        if found is not None and found.opens:
            raise InUseError(f"{new_name} is open and cannot be removed or replaced")
        if node.writers:  # the block is a copy: later writes of the program would be lost
            raise InUseError(f"{name} is open for writing; close it before it becomes a block")
        if node.names > 1:  # for the kernel both names are one file, also for a moment after the rename
            raise CrossViewError(f"{name} has another name (hard link); copy it onto the block instead")
        if not isinstance(node, FileNode) or not isinstance(found, FileNode | None):
            raise NotPermittedError("only a file can become a block")
        became = found or target.create(new_name, 0, None)
        try:
            self._copy_onto(node, became)
        except (AsdffsError, OSError):
            if found is None:
                with contextlib.suppress(InUseError):  # another block was added after it meanwhile
                    target.unlink(new_name, became)
            raise
        node.names -= 1
        discard(node)
        return became

    def _copy_onto(self, source: FileNode, target: FileNode) -> None:
        """Copy ``source`` onto ``target``.  This is not atomic (docs/semantics.md, Blocks)."""
        target.file.open_for_writing()
        size = source.file.size()
        with self._parts.pages.byte_change(target, 0, max(size, target.file.size()), own=True):
            target.touch()  # here, because the copy may fail half-way
            if target.file.commits_late:  # so that its old content is not decoded for nothing
                target.file.truncate(0)
            target.file.truncate(size)
        try:
            self._copy(source, target, size)
        except (AsdffsError, OSError):
            if not target.writers:
                target.file.revert()
            raise
        target.touch()  # marks the writes as seen, so that they do not move the times set below
        target.atime_ns, target.mtime_ns = source.atime_ns, source.mtime_ns  # rsync set them

    def _copy(self, source: FileNode, target: FileNode, size: int) -> None:
        pages, scheduler = self._parts.pages, self._parts.scheduler
        with scheduler.waiting():
            for start in range(0, size, _COPY_PIECE):
                with scheduler.resumed():
                    piece = read_bytes(source.file.read(start, _COPY_PIECE))
                    with pages.writing(target, start, piece, cached=False):
                        target.file.write(start, piece)
        target.file.flush(durable=False)


class TreeDirectory(ScratchDirectory):
    """The root of a mount, which has ``tree.yaml``.  ``Names`` holds ``Staging.lock`` where that is concerned."""

    created = False
    __slots__ = ()

    def check_new(self, name: str, what: str = "") -> None:
        """See ``ScratchDirectory``.  Raises ``NotPermittedError``, ``InUseError``."""
        if name == TREE and what:
            raise NotPermittedError(f"{TREE} cannot be {what}")
        if name in self.fixed and name != TREE:
            raise InUseError(f"{name} is a directory of the mount")

    def show_tree(self, node: FileNode) -> None:
        """Give the name of the tree to ``node``."""
        self.fixed[TREE] = node
        node.stands_at(self, TREE)

    def create(self, name: str, mode: int, by: User | None) -> FileNode:
        """See ``DirectoryNode``.  Writes to a new ``tree.yaml`` are a save."""
        if name != TREE:
            return super().create(name, mode, by)
        node = self._new_file(name, mode, by)
        self.show_tree(node)
        self._parts.staging.enter(node)
        self.touch()
        return node

    def unlink(self, name: str, node: Node) -> None:
        """See ``DirectoryNode``.  Without the name, the node of the tree keeps its bytes."""
        if name != TREE:
            super().unlink(name, node)
            return
        self._parts.staging.leave()
        self._lose(name)
        self.touch()

    def rename(self, name: str, node: Node, target: DirectoryNode, new_name: str, found: Node | None) -> Node:
        """See ``DirectoryNode``."""
        if name != TREE:
            return super().rename(name, node, target, new_name, found)
        if _is_of_view(target, new_name, found):
            raise NotPermittedError(f"{TREE} cannot become a block")
        target.check_accepts(node, new_name, found)
        self._parts.staging.leave()
        target.accept(node, new_name)
        del self.fixed[TREE]
        self.touch()
        target.touch()
        return node

    def check_accepts(self, node: Node, name: str, found: Node | None) -> None:
        """See ``DirectoryNode``."""
        if name != TREE:
            super().check_accepts(node, name, found)
        elif not isinstance(node, FileNode):
            raise NotPermittedError(f"only a file can become {TREE}")

    def accept(self, node: Node, name: str) -> None:
        """See ``DirectoryNode``.  A rename onto ``tree.yaml`` commits the file.  Raises as ``Staging.adopt``."""
        if name != TREE or not isinstance(node, FileNode):
            super().accept(node, name)
            return
        self._parts.staging.adopt(node)
        self._lose(TREE)
        self.show_tree(node)


class BlocksDirectory(ScratchDirectory):
    """The directory of a view in which programs may add and remove entries."""

    created = False
    __slots__ = ("_view",)

    def __init__(self, owner: Owner, parts: Parts, *, view: View, number: int, born_ns: int) -> None:
        super().__init__(owner, parts, view=view, number=number, born_ns=born_ns)
        self._view = view

    def takes(self, name: str) -> bool:
        """See ``DirectoryNode``."""
        return name not in self.scratch and self._view.takes(name)

    def check_new(self, name: str, what: str = "") -> None:
        """See ``ScratchDirectory``.  Raises ``NotPermittedError``, and as the view refuses."""
        if refusal := self._view.refusal(name):
            raise refusal
        if what and self._view.takes(name):
            raise NotPermittedError("only a file can be created under this name", path=name)

    def create(self, name: str, mode: int, by: User | None) -> FileNode:
        """See ``DirectoryNode``.  Raises as ``View.add``."""
        if not self.takes(name):
            return super().create(name, mode, by)
        self._view.add(name)
        node = self.find(name)
        if not isinstance(node, FileNode):
            raise TypeError("views add files")
        node.touch()
        self.touch()
        return node

    def unlink(self, name: str, node: Node) -> None:
        """See ``DirectoryNode``.  Raises ``InUseError``, and as ``View.remove``."""
        if name in self.scratch:
            super().unlink(name, node)
            return
        if node.opens or self._parts.coherence.has_open_sibling(node):
            raise InUseError("is open in a program", path=name)
        self.leaving.add(name)  # no other request may open it while this one waits
        try:
            self._view.remove(name)
            self.seen.pop(name, None)
        finally:
            self.leaving.discard(name)
        self.touch()


def discard(node: Node) -> None:
    """Delete the spool file of ``node`` if no name and no handle leads to it any more."""
    if node.names <= 0 and node.opens == 0 and isinstance(node, FileNode) and isinstance(node.file, SpoolFile):
        node.file.drop()


def left_in(folder: DirectoryNode, prefix: str = "") -> Iterator[Left]:
    """Yield the scratch to keep when the mount ends: files, links, and directories without any."""
    for name, node in folder.scratch.items():
        path = prefix + name
        if is_disposable(name):
            continue
        if isinstance(node, DirectoryNode):
            yield from list(left_in(node, f"{path}/")) or [Left(path)]
        elif isinstance(node, LinkNode):
            yield Left(path, target=node.target)
        elif isinstance(node, FileNode) and isinstance(node.file, SpoolFile) and node.file.spooled:
            yield Left(path, node.file.path)


def _check_empty(node: DirectoryNode, path: str) -> None:
    if node.scratch or not node.created:
        raise NotEmptyError("the directory is not empty", path=path)


def _is_of_view(folder: DirectoryNode, name: str, found: Node | None) -> bool:
    """Return whether ``name`` is that of an entry of the view, or of one that it would take."""
    there = found is not None and name not in folder.scratch and name not in folder.fixed
    return there or folder.takes(name)
