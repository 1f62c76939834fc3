"""The operations of a document by path, as programs name files, for tests without a kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from asdffs.errors import NoSuchNameError
from asdffs.vfs.attributes import Attributes
from asdffs.vfs.coherence import PageRange
from asdffs.vfs.names import Names
from asdffs.vfs.namespace import Node
from asdffs.vfs.vfs import Vfs

#: What takes a directory and a name, and what takes a node; these get a path.
OF_A_NAME = {"create", "mkdir", "rmdir", "unlink", "symlink"}
OF_A_NODE = {"readlink", "chmod", "chown", "utimens", "set_xattr", "open", "opendir", "xattrs", "xattr"}


class NoKernel:
    """The kernel of a ``Vfs`` that is not mounted: nothing is cached."""

    behind = False

    def __init__(self) -> None:
        self.awaited: Counter[Node] = Counter()

    def prepare(self) -> None: ...

    def invalidate(self, nodes: Mapping[Node, bool], locked: Node | None, *, wait: bool) -> None: ...

    def drop(self, regions: list[PageRange], patience: float) -> set[Node]:
        return set()


class _ByPath:
    """The methods of ``target`` with paths."""

    def __init__(self, names: Names, target: Any) -> None:
        self._names = names
        self._target = target

    def split(self, path: str) -> tuple[Node, str]:
        above, _, name = path.rpartition("/")
        return self._names.walk(above), name

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if name in OF_A_NAME:
            return lambda path, *rest: found(*self.split(path), *rest)
        if name in OF_A_NODE:
            return lambda path, *rest, **more: found(self._names.walk(path), *rest, **more)
        return found


class NamesByPath(_ByPath):
    """See ``Names``."""

    def find(self, path: str) -> Node:
        return self._names.walk(path)

    def link(self, existing: str, path: str) -> None:
        self._names.link(self._names.walk(existing), *self.split(path))

    def rename(self, old: str, new: str, *, replace: bool = True) -> None:
        self._names.rename(*self.split(old), *self.split(new), replace=replace)


class ByPath(_ByPath):
    """See ``Vfs``; what does not name a file is that of ``vfs``."""

    def __init__(self, vfs: Vfs) -> None:
        super().__init__(vfs.names, vfs)
        self.vfs = vfs
        self.names = NamesByPath(vfs.names, vfs.names)
        self.metadata = _ByPath(vfs.names, vfs)

    def _node(self, path: str | None, handle: int | None) -> Node:
        if handle is not None and handle in self.vfs._handles.files:
            return self.vfs._handles.files[handle].node
        if path is None:
            raise NoSuchNameError("the file is not open")
        return self._names.walk(path)

    def attributes(self, path: str | None, handle: int | None = None) -> Attributes:
        return self.vfs.attributes(self._node(path, handle), handle)

    def create(self, path: str, *rest: Any) -> int:
        return self.vfs.create(*self.split(path), *rest)[1]

    def truncate(self, path: str | None, size: int, handle: int | None = None) -> None:
        self.vfs.truncate(self._node(path, handle), size, handle)
