"""Names of the mount: look up, create, rename, link and remove them.

This module checks what holds for all directories; the kind of each (``directories``) decides the rest.  It also puts
together the root: one directory for each view in the registry.  The caller holds the main lock.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from contextlib import AbstractContextManager

from asdffs import registry
from asdffs.document.document import Document
from asdffs.document.saves.keeping import Left
from asdffs.errors import (
    AsdffsError,
    CrossViewError,
    FileExpectedError,
    GoneError,
    MountError,
    NameExistsError,
    NameTooLongError,
    NoSuchNameError,
    NotDirectoryError,
    ReadOnlyError,
    Remedy,
)
from asdffs.vfs.directories import BlocksDirectory, Parts, TreeDirectory, left_in
from asdffs.vfs.namespace import ROOT_NUMBER, DirectoryNode, FileNode, Node, User, kind_of, number_of
from asdffs.vfs.staging import TREE
from asdffs.views.base import Options, View

_LONGEST_NAME = 255
#: The directory of a view that is always reachable.  If another view is the root, it is not listed.
STATUS = ".asdffs"


class Names:
    """The namespace of one document.  ``number``: the inode number of its root."""

    def __init__(self, document: Document, parts: Parts, options: Options, *, number: int = ROOT_NUMBER) -> None:
        self._document = document
        self._parts = parts
        self._staging = parts.staging
        views = views_of(document, options)
        self.views: Collection[View] = views.values()
        self._folders = {name: self._directory(view, number) for name, view in views.items()}
        if options.layout:
            check_alone(options.layout, views.get(options.layout), document)
            self.root = self._root_of_view(views, options.layout, number)
        else:
            self.root = self._root(views, number)

    # -- the root -------------------------------------------------------------

    def _directory(self, view: View, number: int) -> DirectoryNode:
        """Return the directory of a view in a root with the inode number ``number``."""
        owner, number = self._parts.owner, number_of(number, view.directory)
        owner = owner._replace(mode=_searchable(owner.mode))
        if view.scratch:
            return BlocksDirectory(owner, self._parts, view=view, born_ns=owner.mtime_ns, number=number)
        return kind_of(view)(owner, view=view, born_ns=owner.mtime_ns, number=number)

    def _root(self, views: dict[str, View], number: int) -> DirectoryNode:
        """Return a root with ``tree.yaml`` and a directory for each view."""
        owner = self._parts.owner
        owner = owner._replace(mode=_searchable(owner.mode))
        root = TreeDirectory(owner, self._parts, number=number, born_ns=owner.mtime_ns)
        for name, view in views.items():
            node = root.fixed[view.directory] = self._folders[name]
            node.stands_at(root, view.directory)
            node.shape = 0
        if self._staging.node is not None:
            root.show_tree(self._staging.node)
        return root

    def _root_of_view(self, views: dict[str, View], name: str, number: int) -> DirectoryNode:
        """Return the directory of a view as the root; ``STATUS`` can be reached, but is not listed."""
        root = self._folders[name]
        root.number = number
        status = root.hidden[STATUS] = next(
            self._folders[other] for other, view in views.items() if view.directory == STATUS
        )
        status.stands_at(root, STATUS)
        return root

    # -- lookups --------------------------------------------------------------

    def find(self, folder: Node, name: str) -> Node:
        """Return the node of that name.  Raises ``NoSuchNameError``, ``NotDirectoryError``, ``NameTooLongError``."""
        if not isinstance(folder, DirectoryNode):
            raise NotDirectoryError(f"cannot look up {name!r} inside a file")
        try:
            return folder.find(name)
        except KeyError:
            _check_length(name)
            raise NoSuchNameError("no such file in the mount", path=name) from None

    def walk(self, path: str) -> Node:
        """Return the node at ``path``, which begins at the root.  Raises as ``find``."""
        node: Node = self.root
        for part in filter(None, path.split("/")):
            node = self.find(node, part)
        return node

    # -- checks ---------------------------------------------------------------

    def check_there(self, node: Node) -> None:
        """Raise ``GoneError`` or ``NoSuchNameError`` if no name leads to ``node`` any more, and no handle.

        The view is asked even for an open one: it may give the file other content.
        """
        if node.names <= 0 and not node.opens:
            raise GoneError("has no name any more", path=node.path)
        if node.folder is not None and node.name in node.folder.leaving:
            raise NoSuchNameError("is being removed", path=node.path)
        if node.shape is None or node.shape == self._document.changes.shape:
            return
        try:
            if self.walk(node.path) is not node:
                raise GoneError("its name leads to another file", path=node.path)
            node.shape = self._document.changes.shape
        except (GoneError, NoSuchNameError, NotDirectoryError):
            if not node.opens:
                raise

    def is_there(self, node: Node) -> bool:
        """Return whether ``check_there`` does not raise, and the view can be asked."""
        try:
            self.check_there(node)
        except (AsdffsError, OSError):
            return False
        return True

    def check_changeable(self, node: Node) -> None:
        """Raise ``ReadOnlyError``, or as ``check_there``, if the node may not be changed."""
        self.check_writable()
        self.check_there(node)

    def check_writable(self) -> None:
        """Raise ``ReadOnlyError`` if nothing in the mount may be changed."""
        if not self._document.writable:
            raise ReadOnlyError("the mount is read-only")

    # -- changes --------------------------------------------------------------

    def create(self, folder: Node, name: str, mode: int, by: User | None = None) -> FileNode:
        """Create an empty file that belongs to ``by``: scratch, an entry of a view, or the tree after an unlink.

        Raises ``NameExistsError``, ``NotPermittedError``, ``NameRefusedError``, ``ReadOnlyError``, ``OSError``.
        """
        with self._guard((folder, name)):
            return self._free(folder, name).create(name, mode & 0o7777, by)

    def mkdir(self, above: Node, name: str, mode: int, by: User | None = None) -> Node:
        """Create a directory; return it.  Raises as ``create``."""
        folder = self._free(above, name)
        folder.mkdir(name, mode & 0o7777, by)
        return folder.find(name)

    def symlink(self, above: Node, name: str, target: str, by: User | None = None) -> Node:
        """Create a symbolic link; return it.  Raises as ``create``."""
        folder = self._free(above, name)
        folder.symlink(name, target, by)
        return folder.find(name)

    def link(self, node: Node, above: Node, name: str) -> None:
        """Give a file another name.  Raises ``CrossViewError``, and as ``create``."""
        with self._staging.guard(node):
            folder = self._free(above, name)
            if not folder.closed and node.folder is not None and node.folder.closed:
                raise CrossViewError("a hard link cannot lead out of this view", path=name)
            folder.link(node, name)

    def unlink(self, above: Node, name: str) -> None:
        """Remove a name.  Removing the name of the tree does not change the ASDF file.

        Raises ``InUseError``, ``NotPermittedError``, ``FileExpectedError``, ``ReadOnlyError``.
        """
        with self._guard((above, name)):
            folder, node = self._named(above, name)
            if isinstance(node, DirectoryNode):
                raise FileExpectedError("is a directory", path=name)
            folder.unlink(name, node)

    def rmdir(self, above: Node, name: str) -> None:
        """Remove an empty directory.

        Raises ``NotDirectoryError``, ``NotPermittedError``, ``NotEmptyError``, ``ReadOnlyError``.
        """
        folder, node = self._named(above, name)
        if not isinstance(node, DirectoryNode):
            raise NotDirectoryError("is not a directory", path=name)
        folder.rmdir(name, node)

    def rename(
        self, above: Node, name: str, target: Node, new_name: str, *, replace: bool = True
    ) -> tuple[Node, Node] | None:
        """Rename an entry of ``above`` to ``new_name`` in ``target``.  A rename onto the tree or a block is a save.

        Returns the node that went and the one that took its place, if a block became a copy of the first.  Raises as
        ``create``, ``unlink``, ``rmdir`` and ``Staging.adopt``.
        """
        with self._guard((above, name), (target, new_name)):
            folder, node = self._named(above, name)
            target = self._folder(target)
            found = _try_find(target, new_name)
            if not replace and found is not None:
                raise NameExistsError("already exists", path=new_name)
            if node is found:
                return None  # two names of one file: rename(2) must do nothing
            if folder.closed != target.closed:
                raise CrossViewError("cannot be renamed into or out of this view; copy it instead", path=name)
            _check_length(new_name)
            became = folder.rename(name, node, target, new_name, found)
            return None if became is node else (node, became)

    def _guard(self, *places: tuple[Node, str]) -> AbstractContextManager[None]:
        """Return a context to enter before names change: the lock of the tree if one of ``places`` is its name."""
        concerned = any(folder is self.root and name == TREE for folder, name in places)
        return self._staging.lock.entered() if concerned else contextlib.nullcontext()

    def _folder(self, node: Node) -> DirectoryNode:
        """Return a directory in which a name is about to change."""
        if not isinstance(node, DirectoryNode):
            raise NotDirectoryError("is not a directory", path=node.name)
        self.check_writable()
        return node

    def _free(self, above: Node, name: str) -> DirectoryNode:
        """Return the directory for something new."""
        folder = self._folder(above)
        if _try_find(folder, name) is not None:
            raise NameExistsError("already exists", path=name)
        _check_length(name)
        return folder

    def _named(self, above: Node, name: str) -> tuple[DirectoryNode, Node]:
        folder = self._folder(above)
        return folder, self.find(folder, name)

    # -- the end --------------------------------------------------------------

    def left(self) -> list[Left]:
        """Return the scratch to keep when the mount ends."""
        return [found for folder in (self.root, *self._folders.values()) for found in left_in(folder)]

    @property
    def has_scratch(self) -> bool:
        """Whether there is scratch of any kind, or something written that is not in the ASDF file yet."""
        return any(folder.scratch for folder in (self.root, *self._folders.values())) or bool(self.unsaved_files())

    def unsaved_files(self) -> list[tuple[str, str]]:
        """Return the files of views that are not in the ASDF file yet: path in the mount, and path in the spool."""
        return [(f"{view.directory}/{path}", file) for view in self.views for path, file in view.unsaved()]


def views_of(document: Document, options: Options) -> dict[str, View]:
    """Return the views of ``document`` by name.  A view that fails or clashes is noted as trouble and left out."""
    found: dict[str, View] = {}
    for name in registry.names("views"):
        view = _made(name, document, options)
        if view is not None and view.directory in {other.directory for other in found.values()}:
            registry.note_trouble("views", name, f"another view already has the directory {view.directory}")
        elif view is not None:
            found[name] = view
    return found


def check_alone(name: str, view: View | None, document: Document) -> None:
    """Raise ``MountError`` if the view ``name`` cannot be the root of a mount, or has nothing to show."""
    if view is None or not getattr(view, "standalone", False):
        raise MountError(f"the view {name!r} cannot be the root of a mount", path=document.path)
    if not view.present():
        if (trouble := view.trouble()) is not None:
            raise trouble
        raise MountError("contains no such store", path=document.path, remedy=Remedy.INIT_STORE)


def _made(name: str, document: Document, options: Options) -> View | None:
    plugin = registry.find("views", name)

    def make() -> View:
        view: View = plugin(document, options)
        if not isinstance(view.directory, str) or not view.directory or "/" in view.directory:
            raise ValueError(f"{view.directory!r} is not a valid directory name")
        return view

    return None if plugin is None else registry.answer("views", name, make, None)


def _searchable(mode: int) -> int:
    """Return the mode of a directory for that of a file: who may read it may look up names."""
    return mode | (mode & 0o444) >> 2


def _check_length(name: str) -> None:
    if len(os.fsencode(name)) > _LONGEST_NAME:
        raise NameTooLongError("a name has at most 255 bytes")


def _try_find(folder: DirectoryNode, name: str) -> Node | None:
    try:
        return folder.find(name)
    except KeyError:
        return None
