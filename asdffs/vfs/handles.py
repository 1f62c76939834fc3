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
    ``slow_write_version``: the version of the tree at the last write by the slow path since the last flush of the
    file, or -1 if there was none.  Only after such a write may the fast path write, because the file then knows that
    it is dirty.
    """

    __slots__ = ("direct", "dirty", "generation", "node", "slow_write_version", "snapshot", "way", "writable")

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
        self.slow_write_version = -1

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
    """The table of open files and directories of one document.  No other document has a handle of the same number.

    ``files`` and ``directories``: by number; only this class changes them.
    """

    def __init__(self) -> None:
        self.files: dict[int, Handle] = {}
        self.directories: dict[int, DirectoryHandle] = {}

    @property
    def any(self) -> bool:
        """Whether anything is open."""
        return bool(self.files or self.directories)

    def add(self, handle: Handle | DirectoryHandle) -> int:
        """Add a handle and return its number."""
        number = new_handle()
        node = handle.node
        node.opens += 1
        if isinstance(handle, DirectoryHandle):
            self.directories[number] = handle
            return number
        self.files[number] = handle
        node.writers += handle.writable
        node.mappers += handle.mappable
        handle.node.file.opened(write=handle.writable)
        return number

    def remove(self, number: int) -> Node:
        """Remove the handle from the table and return its node.  Raises ``KeyError``."""
        directory = self.directories.pop(number, None)
        if directory is not None:
            directory.node.opens -= 1
            return directory.node
        handle = self.files.pop(number)
        node = handle.node
        node.opens -= 1
        node.writers -= handle.writable
        node.mappers -= handle.mappable
        node.file.closed(write=handle.writable)
        return node

    def nodes(self) -> Iterator[Node]:
        """Return the node of each open file and directory."""
        yield from (handle.node for handle in self.files.values())
        yield from (handle.node for handle in self.directories.values())

    def of(self, node: FileNode) -> Iterator[Handle]:
        """Return all handles on ``node``."""
        return (handle for handle in self.files.values() if handle.node is node)
