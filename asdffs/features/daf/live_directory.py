"""Directories of a mounted store, in which programs create, remove, rename and link files as in any other.

The caller holds the main lock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from asdffs.errors import (
    FileExpectedError,
    NameExistsError,
    NoSuchNameError,
    NotDirectoryError,
    NotEmptyError,
    NotPermittedError,
)
from asdffs.vfs.namespace import DirectoryNode, FileNode, Node, User
from asdffs.views.base import ViewDirectory, ViewFile

if TYPE_CHECKING:  # most mounts have no store
    from asdffs.features.daf.live_file import LiveFile, Owner


class LiveNode(DirectoryNode):
    """The node of such a directory, which makes the nodes follow their files.

    A node belongs to a file, not to a name, so its open handles and its times survive a rename or a link.  Methods
    raise as those of ``LiveDirectory``.
    """

    closed = True
    __slots__ = ()

    @property
    def _directory(self) -> LiveDirectory:
        if not isinstance(self.view, LiveDirectory):
            raise TypeError("only stores have such directories")
        return self.view

    def create(self, name: str, mode: int, by: User | None) -> FileNode:
        """See ``DirectoryNode``."""
        self._directory.create(name)
        node = self.find(name)
        if not isinstance(node, FileNode):
            raise TypeError("stores create files")
        node.mode = mode
        node.mtime_ns = node.atime_ns = time.time_ns()
        node.look()
        self.touch()
        return node

    def mkdir(self, name: str, mode: int, by: User | None) -> None:
        """See ``DirectoryNode``."""
        self._directory.mkdir(name)
        self.find(name).touch()
        self.touch()

    def symlink(self, name: str, target: str, by: User | None) -> None:
        """Raise ``NotPermittedError``: stores have no symbolic links."""
        raise NotPermittedError("symbolic links cannot be created in this view", path=name)

    def link(self, node: Node, name: str) -> None:
        """See ``DirectoryNode``."""
        if not isinstance(node, FileNode):
            raise NotPermittedError("only a file of the store can be linked in it", path=name)
        self._directory.link(node.file, name)
        self._show(node, name)
        node.names += 1
        self.touch()

    def unlink(self, name: str, node: Node) -> None:
        """See ``DirectoryNode``."""
        self._directory.unlink(name)
        self._lose(name, node)

    def rmdir(self, name: str, node: DirectoryNode) -> None:
        """See ``DirectoryNode``."""
        self._directory.rmdir(name)
        self._lose(name, node)

    def rename(self, name: str, node: Node, target: DirectoryNode, new_name: str, found: Node | None) -> Node:
        """See ``DirectoryNode``."""
        if not isinstance(target, LiveNode):
            raise TypeError("a mount has one store")
        self._directory.rename(name, target._directory, new_name)
        if found is not None:
            target._lose(new_name, found)
        self.seen.pop(name, None)
        target._show(node, new_name)
        self.touch()
        target.touch()
        return node

    def _show(self, node: Node, name: str) -> None:
        self.seen[name] = node
        node.stands_at(self, name)

    def _lose(self, name: str, node: Node) -> None:
        node.names -= 1
        self.seen.pop(name, None)
        self.touch()


class LiveDirectory(ViewDirectory):
    """One directory.  ``entries``: by name; ``above``: the parent directory, None for the root of ``store``."""

    node_kind = LiveNode

    def __init__(self, above: LiveDirectory | None, name: str, store: Owner | None = None) -> None:
        self._above = above
        self._opened = store
        self._name = name
        self._changed = 0
        self.entries: dict[str, LiveFile | LiveDirectory] = {}
        self.identity = self

    @property
    def _store(self) -> Owner:
        """The store, which the root knows."""
        if self._above is not None:
            return self._above._store
        if self._opened is None:
            raise NotImplementedError
        return self._opened

    @property
    def path(self) -> str:
        """Path from the root of the store, with a slash at the end; empty for the root."""
        return "" if self._above is None else f"{self._above.path}{self._name}/"

    # -- as ``ViewDirectory`` ---------------------------------------------------

    def names(self) -> Iterator[str]:
        """Return the names of its entries."""
        self._store.refresh()
        return iter(list(self.entries))

    def directories(self) -> int:
        """Return the number of subdirectories."""
        self._store.refresh()
        return sum(isinstance(entry, LiveDirectory) for entry in self.entries.values())

    def version(self) -> int:
        """Return the time in ns at which a commit of the tree last added or removed entries.

        Changes by programs do not count: the kernel knows of them from the calls.
        """
        self._store.refresh()
        return self._changed

    def child(self, name: str) -> LiveFile | LiveDirectory:
        """Return the entry of that name.  Raises ``KeyError``."""
        self._store.refresh()
        return self.entries[name]

    def subjects(self) -> None:
        """Return None: entries may come and go at any time."""

    # -- changes of names, for ``LiveNode`` -----------------------------------------------

    def create(self, name: str) -> None:
        """Create an empty file.  Raises ``NameExistsError``, ``OSError``."""
        with self._store.lock.entered():
            self._check_new(name)
            self._put(name, self._store.new_file(self.path + name))

    def mkdir(self, name: str) -> None:
        """Create a directory.  Raises ``NameExistsError``, ``OSError``."""
        with self._store.lock.entered():
            self._check_new(name)
            self._store.note("mkdir", self.path + name)
            self.entries[name] = LiveDirectory(self, name)

    def rmdir(self, name: str) -> None:
        """Remove an empty directory."""
        with self._store.lock.entered():
            directory = self._entry(name)
            if not isinstance(directory, LiveDirectory):
                raise NotDirectoryError("is not a directory", path=name)
            if directory.entries:
                raise NotEmptyError("the directory is not empty", path=name)
            self._store.note("rmdir", self.path + name)
            del self.entries[name]

    def unlink(self, name: str) -> None:
        """Remove a name of a file; programs that have the file open can still use it."""
        with self._store.lock.entered():
            file = self._entry(name)
            if isinstance(file, LiveDirectory):
                raise FileExpectedError("is a directory", path=name)
            self._store.note("unlink", self.path + name)
            self._take(name)

    def link(self, file: ViewFile, name: str) -> None:
        """Add a name for a file of this store (a hard link)."""
        from asdffs.features.daf.live_file import LiveFile

        if not isinstance(file, LiveFile) or not file.names:
            raise NotPermittedError("only a file of the store can be linked in it", path=name)
        with self._store.lock.entered():
            self._check_new(name)
            self._store.note("link", file.paths[0], self.path + name)
            self._put(name, file)

    def rename(self, name: str, target: LiveDirectory, new_name: str) -> None:
        """Rename an entry; a file or an empty directory that has the new name is replaced."""
        with self._store.lock.entered():
            entry, there = self._entry(name), target.entries.get(new_name)
            self._check_replaceable(entry, there, target, new_name)
            self._store.note("rename", self.path + name, target.path + new_name)
            if there is not None:
                target._take(new_name)
            del self.entries[name]
            if isinstance(entry, LiveDirectory):
                entry._above, entry._name = target, new_name
                target.entries[new_name] = entry
            else:
                del entry.names[self, name]
                target._put(new_name, entry)

    def _check_replaceable(self, entry: Any, there: Any, target: LiveDirectory, name: str) -> None:
        """Raise the errors of rename(2) for directories and for a new name that exists.

        ``there``: the entry that has the name, if any.
        """
        if isinstance(entry, LiveDirectory) and f"{target.path}{name}/".startswith(entry.path):
            raise NotPermittedError("a directory cannot be moved into itself", path=name)
        if isinstance(there, LiveDirectory):
            if not isinstance(entry, LiveDirectory):
                raise FileExpectedError("is a directory", path=name)
            if there.entries:
                raise NotEmptyError("the directory is not empty", path=name)
        elif there is not None and isinstance(entry, LiveDirectory):
            raise NotDirectoryError("is a file", path=name)

    def _entry(self, name: str) -> LiveFile | LiveDirectory:
        """Return the entry called ``name``.

        Raises ``NoSuchNameError`` if it was removed while this waited for the lock.
        """
        try:
            return self.entries[name]
        except KeyError:
            raise NoSuchNameError("no such file in the store", path=name) from None

    def _check_new(self, name: str) -> None:
        """Raise ``NameExistsError`` if an entry of that name was created while this waited for the lock."""
        if name in self.entries:
            raise NameExistsError("already exists", path=name)

    def _put(self, name: str, file: LiveFile) -> None:
        self.entries[name] = file
        file.names[self, name] = None

    def _take(self, name: str) -> None:
        entry = self.entries.pop(name)
        if not isinstance(entry, LiveDirectory):
            del entry.names[self, name]
            if not entry.names:
                self._store.unnamed(entry)

    # -- for the store --------------------------------------------------------------

    def find(self, path: str) -> LiveFile | LiveDirectory | None:
        """Return the entry at a path relative to this directory (itself for the empty path); None without one."""
        entry: LiveFile | LiveDirectory | None = self
        for name in path.split("/") if path else ():
            entry = entry.entries.get(name) if isinstance(entry, LiveDirectory) else None
        return entry

    def make(self, path: str) -> LiveDirectory | None:
        """Return the directory at a path relative to this one, created if missing; None if a file is in the way."""
        directory = self
        for name in path.split("/") if path else ():
            entry = directory.entries.get(name)
            if entry is None:
                entry = directory.entries[name] = LiveDirectory(directory, name)
                directory._changed = time.time_ns()
            if not isinstance(entry, LiveDirectory):
                return None
            directory = entry
        return directory

    def place(self, path: str, file: LiveFile) -> LiveFile | None:
        """Put a file at a relative path and return it; return None if its directory does not exist."""
        above, _, name = path.rpartition("/")
        directory = self.find(above)
        if not isinstance(directory, LiveDirectory):
            return None
        directory._put(name, file)
        directory._changed = time.time_ns()
        return file

    def remove_empty(self, path: str) -> None:
        """Remove a directory that the tree no longer has, if it is empty."""
        above, _, name = path.rpartition("/")
        folder, directory = self.find(above), self.find(path)
        if isinstance(folder, LiveDirectory) and isinstance(directory, LiveDirectory) and not directory.entries:
            del folder.entries[name]
            folder._changed = time.time_ns()

    def displace(self, path: str) -> None:
        """Remove the name of a file that the tree no longer has."""
        above, _, name = path.rpartition("/")
        directory = self.find(above)
        if isinstance(directory, LiveDirectory):
            directory._take(name)
            directory._changed = time.time_ns()
