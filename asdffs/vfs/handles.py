"""Open files and directories: numbers that the kernel gives back to us.  One thread at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from asdffs.vfs.fast_paths import FastPath
from asdffs.vfs.namespace import DirectoryNode, FileNode


@dataclass(slots=True, eq=False)
class Handle:
    """One open file.  ``dirty``: written through since its last flush, fsync or release.

    ``snapshot``: what it reads, if that is made when it is opened.  ``generation``: of the document then.
    ``direct``: the kernel keeps no pages of what is read and written through it, and does not map it.  ``way``: the
    fast path to its bytes, as ``fast_paths`` found it last.  ``wrote``: the version of the tree at the last write
    by the long way since its file was settled: so the file knows what must be settled; -1: there was none.
    """

    node: FileNode
    writable: bool
    dirty: bool = False
    snapshot: bytes | None = None
    generation: int = 0
    direct: bool = False
    way: FastPath | None = None
    wrote: int = -1

    @property
    def mappable(self) -> bool:
        """Whether a program may store through an mmap of it."""
        return self.writable and not self.direct


@dataclass(slots=True, eq=False)
class DirectoryHandle:
    """One open directory and its names as they were when the reading began."""

    node: DirectoryNode
    names: list[str] = field(default_factory=list)


class Handles:
    """The table of open files and directories."""

    def __init__(self) -> None:
        self._open: dict[int, Handle | DirectoryHandle] = {}
        self._next = 1

    def add(self, handle: Handle | DirectoryHandle) -> int:
        """Number of a new handle."""
        number, self._next = self._next, self._next + 1
        self._open[number] = handle
        handle.node.opens += 1
        if isinstance(handle, Handle):
            handle.node.writers += handle.writable
            handle.node.mappers += handle.mappable
            handle.node.file.opened(write=handle.writable)
        return number

    def get(self, number: int) -> Handle:
        """The handle of a file.  Raises ``KeyError``."""
        handle = self._open[number]
        if not isinstance(handle, Handle):
            raise KeyError(number)
        return handle

    def directory(self, number: int) -> DirectoryHandle:
        """The handle of a directory.  Raises ``KeyError``."""
        handle = self._open[number]
        if not isinstance(handle, DirectoryHandle):
            raise KeyError(number)
        return handle

    def find(self, number: int | None) -> Handle | DirectoryHandle | None:
        """The handle, if there is one."""
        return self._open.get(number) if number is not None else None

    def remove(self, number: int) -> Handle | DirectoryHandle:
        """Forget the handle.  Raises ``KeyError``."""
        handle = self._open.pop(number)
        handle.node.opens -= 1
        if isinstance(handle, Handle):
            handle.node.writers -= handle.writable
            handle.node.mappers -= handle.mappable
            handle.node.file.closed(write=handle.writable)
        return handle

    def of(self, node: FileNode) -> Iterator[Handle]:
        """All handles on ``node``."""
        return (handle for handle in self._open.values() if isinstance(handle, Handle) and handle.node is node)
