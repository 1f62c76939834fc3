"""Names of the mount: look up, create, rename, link and remove them.

There are three kinds of names: entries of views (fixed), ``tree.yaml`` (its node may change; a rename onto it is a
save), and scratch (anything else in the root and in ``blocks/``).  The caller holds the main lock.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from asdffs.document.document import Document
from asdffs.document.saves.keeping import Left
from asdffs.errors import (
    CrossViewError,
    FileExpectedError,
    InUseError,
    NameExistsError,
    NameTooLongError,
    NoSuchNameError,
    NotDirectoryError,
    NotPermittedError,
    ReadOnlyError,
)
from asdffs.vfs import changeable as changing
from asdffs.vfs.attributes import Owner, User
from asdffs.vfs.changeable import changeable
from asdffs.vfs.coherence import Coherence
from asdffs.vfs.entries import ViewEntries
from asdffs.vfs.namespace import ROOT_NUMBER, DirectoryNode, FileNode, Node, number_of
from asdffs.vfs.scratch import Spool, SpoolFile
from asdffs.vfs.scratch_names import ScratchNames
from asdffs.vfs.shared_pages import SharedPages
from asdffs.vfs.shown_views import check_alone, views_of
from asdffs.vfs.staging import TREE, Staging, spooled
from asdffs.vfs.tree_name import TreeName
from asdffs.views.base import Options, View

_LONGEST_NAME = 255
#: The directory of a view that is always reachable.  If another view is the root, it is not listed.
STATUS = ".asdffs"


class Names:
    """The namespace of one document.  ``number``: the inode number of its root."""

    def __init__(
        self,
        document: Document,
        spool: Spool,
        owner: Owner,
        coherence: Coherence,
        pages: SharedPages,
        staging: Staging,
        options: Options | None = None,
        *,
        number: int = ROOT_NUMBER,
    ) -> None:
        self._document = document
        self._owner = owner
        self._scratch = ScratchNames(spool, owner)
        self._views: dict[DirectoryNode, View] = {}
        self._staging = staging
        self.entries = ViewEntries(self._views, document.scheduler, coherence, pages)
        self.root = self._show(options or Options(), number)
        self._tree = TreeName(self.root, staging, shown=not (options and options.layout))

    def _show(self, options: Options, number: int) -> DirectoryNode:
        """Create the directories of the views and return the root, whose inode number is ``number``.

        The root contains these directories, or is the directory of the only view that is shown (``layout``).
        """
        views = views_of(self._document, options)
        nodes = {name: self._directory(view, number_of(number, view.directory)) for name, view in views.items()}
        self._views.update((nodes[name], view) for name, view in views.items())
        if not options.layout:
            root = self._directory(None, number)
            for name, view in views.items():
                node = root.fixed[view.directory] = nodes[name]
                node.stands_at(root, view.directory)
                node.shape = 0
            return root
        check_alone(options.layout, views.get(options.layout), self._document)
        root = nodes[options.layout]
        root.number = number
        status = next(node for node, view in self._views.items() if view.directory == STATUS)
        root.hidden[STATUS] = status
        status.stands_at(root, STATUS)
        return root

    @property
    def views(self) -> Collection[View]:
        """All views of the mount."""
        return self._views.values()

    def find(self, folder: Node, name: str) -> Node:
        """Return the node of that name.  Raises ``NoSuchNameError``, ``NotDirectoryError``, ``NameTooLongError``."""
        if not isinstance(folder, DirectoryNode):
            raise NotDirectoryError(f"cannot look up {name!r} inside a file")
        try:
            return folder.find(name)
        except KeyError:
            self._check_length(name)
            raise NoSuchNameError("no such file in the mount", path=name) from None

    def walk(self, path: str) -> Node:
        """Return the node at ``path``, which begins at the root.  Raises as ``find``."""
        node: Node = self.root
        for part in filter(None, path.split("/")):
            node = self.find(node, part)
        return node

    def create(self, folder: Node, name: str, mode: int, by: User | None = None) -> FileNode:
        """Create an empty file that belongs to ``by``: scratch, an entry of a view, or the tree after an unlink.

        Raises ``NameExistsError``, ``NotPermittedError``, ``NameRefusedError``, ``ReadOnlyError``, ``OSError``.
        """
        with self._tree.guard((folder, name)):
            return self._create(self._free(folder, name, of_view=True), name, mode, by)

    def _create(self, folder: DirectoryNode, name: str, mode: int, by: User | None) -> FileNode:
        view = changeable(folder)
        if view is not None:
            return changing.create(view, folder, name, mode & 0o7777)
        if self.entries.takes(folder, name):
            return self.entries.add(folder, name)
        node = self._scratch.new_file(folder, name, mode & 0o7777, by)
        if self._tree.is_at(folder, name):
            self._tree.create(node)
        else:
            folder.scratch[name] = node
        node.stands_at(folder, name)
        folder.touch()
        return node

    def mkdir(self, above: Node, name: str, mode: int, by: User | None = None) -> Node:
        """Create a directory in scratch, or in a view that supports it; return it.  Raises as ``create``."""
        folder = self._free(above, name)
        view = changeable(folder)
        if view is not None:
            changing.mkdir(view, folder, name)
            return folder.find(name)
        self._tree.check_free(folder, name, "a directory")
        self._scratch.mkdir(folder, name, mode & 0o7777, by)
        folder.touch()
        return folder.find(name)

    def rmdir(self, above: Node, name: str) -> None:
        """Remove an empty directory of scratch, or of a view that supports it.

        Raises ``NotDirectoryError``, ``NotPermittedError``, ``NotEmptyError``, ``ReadOnlyError``.
        """
        folder, node = self._named(above, name)
        view = changeable(folder)
        if view is not None:
            changing.rmdir(view, folder, name, node)
            return
        self._scratch.check_removable(node, name)
        self._scratch.take_name(folder, name)
        folder.touch()

    def symlink(self, above: Node, name: str, target: str, by: User | None = None) -> Node:
        """Create a symbolic link in scratch; return it.  Raises as ``create``."""
        folder = self._free(above, name)
        if changeable(folder) is not None:
            changing.refuse_link(name)
        self._tree.check_free(folder, name, "a symbolic link")
        self._scratch.symlink(folder, name, target, by)
        folder.touch()
        return folder.find(name)

    def link(self, node: Node, above: Node, name: str) -> None:
        """Give a scratch file, the tree, or a file of a view that supports it another name.

        Raises ``CrossViewError``, and as ``create``.
        """
        with self._staging.guard(node):
            folder = self._free(above, name)
            if changeable(folder) is not None or _is_of_changeable(node):
                changing.link(node, folder, name)
                return
            self._tree.check_free(folder, name, "another file's second name")
            self._scratch.link(node, folder, name)
            folder.touch()

    def unlink(self, above: Node, name: str) -> None:
        """Remove a name.  Removing the name of the tree does not change the ASDF file.

        Raises ``InUseError``, ``NotPermittedError``, ``FileExpectedError``, ``ReadOnlyError``.
        """
        with self._tree.guard((above, name)):
            self._unlink(above, name)

    def _unlink(self, above: Node, name: str) -> None:
        folder, node = self._named(above, name)
        view = changeable(folder)
        if view is not None:
            changing.unlink(view, folder, name, node)
            return
        if isinstance(node, DirectoryNode):
            raise FileExpectedError("is a directory of the mount", path=name)
        if self._tree.is_at(folder, name):
            self._tree.leave()
        elif name not in folder.scratch:
            self.entries.remove(folder, name, node)
        self._scratch.take_name(folder, name)
        folder.touch()

    def rename(
        self, above: Node, name: str, target: Node, new_name: str, *, replace: bool = True
    ) -> tuple[Node, Node] | None:
        """Rename an entry of ``above`` to ``new_name`` in ``target``.  A rename onto the tree or a block is a save.

        Returns the node that went and the one that took its place, if a block became a copy of the first.  Raises as
        ``create``, ``unlink``, ``rmdir`` and ``Staging.adopt``.
        """
        with self._tree.guard((above, name), (target, new_name)):
            return self._rename_guarded(above, name, self._folder(target), new_name, replace=replace)

    def _rename_guarded(
        self, above: Node, name: str, target: DirectoryNode, new_name: str, *, replace: bool
    ) -> tuple[Node, Node] | None:
        folder, node = self._named(above, name)
        found = self._try_find(target, new_name)
        if not replace and found is not None:
            raise NameExistsError("already exists", path=new_name)
        if node is found:
            return None  # two names of one file: rename(2) must do nothing
        if changeable(folder) is not None or changeable(target) is not None:
            self._check_length(new_name)
            changing.rename(folder, name, node, target, new_name, node if found is None else found)
            return None
        became = self._rename(folder, name, node, target, new_name, found)
        folder.touch()
        target.touch()
        return None if became is node else (node, became)

    def _rename(
        self, folder: DirectoryNode, name: str, node: Node, target: DirectoryNode, new_name: str, found: Node | None
    ) -> Node:
        """Return the node that has the new name afterwards."""
        is_tree, became = self._tree.is_at(folder, name), node
        if not is_tree and name not in folder.scratch:
            raise NotPermittedError(f"{name} is not scratch and cannot be renamed")
        if self._tree.is_at(target, new_name):
            self._tree.save(node)
            self._scratch.take_name(target, new_name)
            self._tree.put(node)
        elif self.entries.has(target, new_name) or self.entries.takes(target, new_name):
            if is_tree:
                raise NotPermittedError(f"{TREE} cannot become a block")
            if found is not None and found.opens:
                raise InUseError(f"{new_name} is open and cannot be removed or replaced")
            if node.writers:  # the block is a copy: later writes of the program would be lost
                raise InUseError(f"{name} is open for writing; close it before it becomes a block")
            if node.names > 1:  # for the kernel both names are one file, also for a moment after the rename
                raise CrossViewError(f"{name} has another name (hard link); copy it onto the block instead")
            became = self.entries.become(node, target, new_name)
            node.names -= 1
            self.discard(node)
        else:
            self._check_new(target, new_name)
            self._scratch.check_replaceable(node, found, new_name)
            if is_tree:
                self._tree.leave()
            self._scratch.take_name(target, new_name)
            target.scratch[new_name] = node
            node.stands_at(target, new_name)
            if isinstance(node, FileNode):
                spooled(node).rename(new_name)
            node.note_change()
        (folder.fixed if is_tree else folder.scratch).pop(name)
        return became

    def discard(self, node: Node) -> None:
        """Delete the spool file of ``node`` if no name and no handle leads to it any more."""
        self._scratch.discard(node)

    def left(self) -> list[Left]:
        """Return the scratch to keep when the mount ends."""
        return self._scratch.left((self.root, *self._views))

    @property
    def has_scratch(self) -> bool:
        """Whether there is scratch of any kind, or something written that is not in the ASDF file yet."""
        folders = (self.root, *self._views)
        return any(folder.scratch for folder in folders) or bool(self.unsaved_files())

    def unsaved_files(self) -> list[tuple[str, str]]:
        """Return the files of views that are not in the ASDF file yet: path in the mount, and path in the spool."""
        return [(f"{view.directory}/{path}", file) for view in self.views for path, file in view.unsaved()]

    def _directory(self, view: View | None, number: int) -> DirectoryNode:
        owner = self._owner
        mode = owner.mode | (owner.mode & 0o444) >> 2
        at = owner.mtime_ns
        return DirectoryNode(mode, owner.uid, owner.gid, at, at, view=view, born_ns=at, number=number)

    def _folder(self, node: Node) -> DirectoryNode:
        """Return a directory in which a name is about to change."""
        if not isinstance(node, DirectoryNode):
            raise NotDirectoryError("is not a directory", path=node.name)
        if not self._document.writable:
            raise ReadOnlyError("the mount is read-only")
        return node

    def _free(self, above: Node, name: str, *, of_view: bool = False) -> DirectoryNode:
        """Return the directory for something new.  ``of_view``: it may be an entry of a view."""
        folder = self._folder(above)
        if self._try_find(folder, name) is not None:
            raise NameExistsError("already exists", path=name)
        if not self._tree.is_at(folder, name):
            self._check_new(folder, name)
        if not of_view and self.entries.takes(folder, name):
            raise NotPermittedError("only a file can be created under this name", path=name)
        return folder

    def _named(self, above: Node, name: str) -> tuple[DirectoryNode, Node]:
        folder = self._folder(above)
        return folder, self.find(folder, name)

    def _check_new(self, folder: DirectoryNode, name: str) -> None:
        """Raise unless ``name`` may be created as scratch in ``folder``."""
        self._check_length(name)
        if changeable(folder) is not None:
            return
        view = self._views.get(folder)
        if folder is not self.root and not folder.created and (view is None or not view.scratch):
            raise NotPermittedError("nothing can be created in this directory")
        if name in folder.fixed:
            raise InUseError(f"{name} is a directory of the mount")
        refusal = view.refusal(name) if view is not None else None
        if refusal is not None:
            raise refusal

    @staticmethod
    def _check_length(*names: str) -> None:
        if any(len(os.fsencode(name)) > _LONGEST_NAME for name in names):
            raise NameTooLongError("a name has at most 255 bytes")

    def _try_find(self, folder: DirectoryNode, name: str) -> Node | None:
        try:
            return folder.find(name)
        except KeyError:
            return None


def _is_of_changeable(node: Node) -> bool:
    """Return whether the file belongs to a view that changes its names itself (``ChangeableDirectory``)."""
    return isinstance(node, FileNode) and not isinstance(node.file, SpoolFile) and node.file.linkable
