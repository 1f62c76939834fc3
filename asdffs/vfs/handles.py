"""Open files of the mount: numbers that the kernel gives back to us.  One thread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from asdffs.vfs.namespace import FileNode


@dataclass(slots=True, eq=False)
class Handle:
    """One open file.  ``dirty``: written through since its last flush, fsync or release."""

    node: FileNode
    writable: bool
    dirty: bool = False


class Handles:
    """The table of open files."""

    def __init__(self) -> None:
        self._open: dict[int, Handle] = {}
        self._next = 1

    def add(self, handle: Handle) -> int:
        """Number of a new handle."""
        number, self._next = self._next, self._next + 1
        self._open[number] = handle
        handle.node.opens += 1
        return number

    def get(self, number: int) -> Handle:
        """The handle.  Raises ``KeyError``."""
        return self._open[number]

    def find(self, number: int | None) -> Handle | None:
        """The handle, or None: requests on directories carry numbers that are not ours."""
        return self._open.get(number) if number is not None else None

    def remove(self, number: int) -> Handle:
        """Forget the handle.  Raises ``KeyError``."""
        handle = self._open.pop(number)
        handle.node.opens -= 1
        return handle

    def of(self, node: FileNode) -> Iterator[Handle]:
        """All handles on ``node``."""
        return (handle for handle in self._open.values() if handle.node is node)
