"""The table of open files and directories.  The kernel refers to each by its number.

The caller holds the main lock.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from asdffs.vfs.fast_paths import FastPath
from asdffs.vfs.namespace import DirectoryNode, FileNode, Node

#: The numbers of handles, of all documents of the process.
_numbers: Final = itertools.count(1)


def new_handle() -> int:
    """Return a number that no other handle of the process has."""
    return next(_numbers)


class Handle:
    """One open file.

    ``dirty``: a program wrote through it since its last flush, fsync or release.  ``snapshot``: the content, if it is
    fixed when the file is opened.  ``generation``: that of the document at the open.  ``direct``: direct I/O: the
    kernel keeps no pages for this handle and refuses mmap(2).  ``way``: the last fast path that ``fast_paths`` found.
    ``wrote``: the version of the tree at the last write by the slow path since the last flush of the file, or -1 if
    there was none.  Only after such a write may the fast path write, because the file then knows that it is dirty.
    """

    __slots__ = ("direct", "dirty", "generation", "node", "snapshot", "way", "writable", "wrote")

    def __init__(
        self,
        node: FileNode,
        *,
        writable: bool,
        snapshot: bytes | None = None,
        generation: int = 0,
        direct: bool = False,
    ) -> None:
        self.node = node
        self.writable = writable
        self.dirty = False
        self.snapshot = snapshot
        self.generation = generation
        self.direct = direct
        self.way: FastPath | None = None
        self.wrote = -1

    @property
    def mappable(self) -> bool:
        """Whether a program may write through an mmap of it."""
        return self.writable and not self.direct


class DirectoryHandle:
    """One open directory, with the names it had when the program began to list it."""

    def __init__(self, node: DirectoryNode) -> None:
        self.node = node
        self.names: list[str] = []


class Handles:
    """The table of open files and directories of one document.  No other document has a handle of the same number."""

    def __init__(self) -> None:
        self._open: dict[int, Handle | DirectoryHandle] = {}

    @property
    def any(self) -> bool:
        """Whether anything is open."""
        return bool(self._open)

    def add(self, handle: Handle | DirectoryHandle) -> int:
        """Add a handle and return its number."""
        number = new_handle()
        self._open[number] = handle
        handle.node.opens += 1
        if isinstance(handle, Handle):
            handle.node.writers += handle.writable
            handle.node.mappers += handle.mappable
            handle.node.file.opened(write=handle.writable)
        return number

    def get(self, number: int) -> Handle:
        """Return the handle of an open file.  Raises ``KeyError``."""
        handle = self._open[number]
        if not isinstance(handle, Handle):
            raise KeyError(number)
        return handle

    def directory(self, number: int) -> DirectoryHandle:
        """Return the handle of an open directory.  Raises ``KeyError``."""
        handle = self._open[number]
        if not isinstance(handle, DirectoryHandle):
            raise KeyError(number)
        return handle

    def find(self, number: int | None) -> Handle | DirectoryHandle | None:
        """Return the handle with that number, or None."""
        return self._open.get(number) if number is not None else None

    def remove(self, number: int) -> Handle | DirectoryHandle:
        """Remove the handle from the table and return it.  Raises ``KeyError``."""
        handle = self._open.pop(number)
        handle.node.opens -= 1
        if isinstance(handle, Handle):
            handle.node.writers -= handle.writable
            handle.node.mappers -= handle.mappable
            handle.node.file.closed(write=handle.writable)
        return handle

    def nodes(self) -> Iterator[Node]:
        """Return the node of each open file and directory."""
        return (handle.node for handle in self._open.values())

    def of(self, node: FileNode) -> Iterator[Handle]:
        """Return all handles on ``node``."""
        return (handle for handle in self._open.values() if isinstance(handle, Handle) and handle.node is node)
