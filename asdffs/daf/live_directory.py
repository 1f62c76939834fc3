"""A directory of a mounted store, in which programs create, remove, rename and link as in any other.

The caller holds the main lock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Protocol

from asdffs.daf.live_file import FileOwner, LiveFile
from asdffs.errors import (
    FileExpectedError,
    NameExistsError,
    NoSuchNameError,
    NotDirectoryError,
    NotEmptyError,
    NotPermittedError,
)
from asdffs.views.base import ChangeableDirectory, ViewFile


class NamedFiles(FileOwner, Protocol):
    """What a directory asks of the mounted store that it is in."""

    def refresh(self) -> None:
        """Take up what a commit that is not ours has changed."""

    def new_file(self, path: str) -> LiveFile:
        """An empty file that is to be at ``path``."""

    def note(self, *operation: str) -> None:
        """Something was done to names."""

    def unnamed(self, file: LiveFile) -> None:
        """A file has lost its last name."""


class LiveDirectory(ChangeableDirectory):
    """One directory.  ``entries``: by name; ``above``: the directory that it is in, None of a ``RootDirectory``."""

    def __init__(self, above: LiveDirectory | None, name: str) -> None:
        self._above = above
        self._name = name
        self._changed = 0
        self.entries: dict[str, LiveFile | LiveDirectory] = {}
        self.identity = self

    @property
    def _store(self) -> NamedFiles:
        """The store that it is in: what the root says."""
        if self._above is None:
            raise NotImplementedError
        return self._above._store

    @property
    def path(self) -> str:
        """From the root of the store, with a slash at the end; empty of the root."""
        return "" if self._above is None else f"{self._above.path}{self._name}/"

    # -- as ``ViewDirectory`` ---------------------------------------------------

    def names(self) -> Iterator[str]:
        """Its entries."""
        self._store.refresh()
        return iter(list(self.entries))

    def directories(self) -> int:
        """How many of them are directories."""
        self._store.refresh()
        return sum(isinstance(entry, LiveDirectory) for entry in self.entries.values())

    def version(self) -> int:
        """When entries came or went by a commit of the tree; those of programs are told by what they asked."""
        self._store.refresh()
        return self._changed

    def child(self, name: str) -> LiveFile | LiveDirectory:
        """The entry of that name.  Raises ``KeyError``."""
        self._store.refresh()
        return self.entries[name]

    def subjects(self) -> None:
        """They may come and go at any time."""

    # -- as ``ChangeableDirectory`` -----------------------------------------------

    def create(self, name: str) -> None:
        """A new empty file."""
        with self._store.lock.entered():
            self._check_new(name)
            self._put(name, self._store.new_file(self.path + name))

    def mkdir(self, name: str) -> None:
        """A new directory."""
        with self._store.lock.entered():
            self._check_new(name)
            self._store.note("mkdir", self.path + name)
            self.entries[name] = LiveDirectory(self, name)

    def rmdir(self, name: str) -> None:
        """Remove an empty directory."""
        with self._store.lock.entered():
            directory = self._entry(name)
            if not isinstance(directory, LiveDirectory):
                raise NotDirectoryError("is no directory", path=name)
            if directory.entries:
                raise NotEmptyError("the directory is not empty", path=name)
            self._store.note("rmdir", self.path + name)
            del self.entries[name]

    def unlink(self, name: str) -> None:
        """Take a name away; who has the file open goes on with it."""
        with self._store.lock.entered():
            file = self._entry(name)
            if not isinstance(file, LiveFile):
                raise FileExpectedError("is a directory", path=name)
            self._store.note("unlink", self.path + name)
            self._take(name)

    def link(self, file: ViewFile, name: str) -> None:
        """Another name for a file of this store."""
        if not isinstance(file, LiveFile) or not file.names:
            raise NotPermittedError("only a file of the store can have another name in it", path=name)
        with self._store.lock.entered():
            self._check_new(name)
            self._store.note("link", file.paths[0], self.path + name)
            self._put(name, file)

    def rename(self, name: str, target: ChangeableDirectory, new_name: str) -> None:
        """Give an entry another name, maybe that of another file or of an empty directory, which is gone then."""
        if not isinstance(target, LiveDirectory):
            raise NotPermittedError("the store has no such directory")
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
        """What rename(2) asks of a name that exists, and of a directory."""
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
        """The entry of that name; somebody may have taken it away while this waited.  Raises ``NoSuchNameError``."""
        try:
            return self.entries[name]
        except KeyError:
            raise NoSuchNameError("no such file in the store", path=name) from None

    def _check_new(self, name: str) -> None:
        """Somebody may have made one of that name while this waited.  Raises ``NameExistsError``."""
        if name in self.entries:
            raise NameExistsError("exists", path=name)

    def _put(self, name: str, file: LiveFile) -> None:
        self.entries[name] = file
        file.names[self, name] = None

    def _take(self, name: str) -> None:
        entry = self.entries.pop(name)
        if isinstance(entry, LiveFile):
            del entry.names[self, name]
            if not entry.names:
                self._store.unnamed(entry)

    # -- for the store --------------------------------------------------------------

    def find(self, path: str) -> LiveFile | LiveDirectory | None:
        """The entry at a path from here, itself at the empty one."""
        entry: LiveFile | LiveDirectory | None = self
        for name in path.split("/") if path else ():
            entry = entry.entries.get(name) if isinstance(entry, LiveDirectory) else None
        return entry

    def make(self, path: str) -> LiveDirectory | None:
        """The directory at a path from here, made where it is not there; None when a file is in the way."""
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
        """Have a file at a path from here, if its directory is there."""
        above, _, name = path.rpartition("/")
        directory = self.find(above)
        if not isinstance(directory, LiveDirectory):
            return None
        directory._put(name, file)
        directory._changed = time.time_ns()
        return file

    def remove_empty(self, path: str) -> None:
        """Take a directory away that the tree has no more, and in which nothing is."""
        above, _, name = path.rpartition("/")
        folder, directory = self.find(above), self.find(path)
        if isinstance(folder, LiveDirectory) and isinstance(directory, LiveDirectory) and not directory.entries:
            del folder.entries[name]
            folder._changed = time.time_ns()

    def displace(self, path: str) -> None:
        """Take a file away that the tree has no more."""
        above, _, name = path.rpartition("/")
        directory = self.find(above)
        if isinstance(directory, LiveDirectory):
            directory._take(name)
            directory._changed = time.time_ns()


class RootDirectory(LiveDirectory):
    """The root of ``store``."""

    def __init__(self, store: NamedFiles) -> None:
        self._opened = store
        super().__init__(None, "")

    @property
    def _store(self) -> NamedFiles:
        return self._opened
