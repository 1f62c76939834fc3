"""The operations of a document by path, as programs name files, for tests without a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asdffs.errors import NoSuchNameError
from asdffs.vfs.attributes import Attributes
from asdffs.vfs.coherence import PageRange
from asdffs.vfs.names import Names
from asdffs.vfs.namespace import Node, User
from asdffs.vfs.vfs import Vfs


class NoKernel:
    """The kernel of a ``Vfs`` that is not mounted: nothing is cached."""

    behind = False

    def prepare(self) -> None: ...

    def invalidate(self, nodes: Mapping[Node, bool], author: Node | None, *, wait: bool) -> None: ...

    def drop(self, regions: list[PageRange], patience: float) -> set[Node]:
        return set()


class NamesByPath:
    """See ``Names``."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def __getattr__(self, name: str) -> Any:
        return getattr(self._names, name)

    def split(self, path: str) -> tuple[Node, str]:
        above, _, name = path.rpartition("/")
        return self._names.walk(above), name

    def find(self, path: str) -> Node:
        return self._names.walk(path)

    def create(self, path: str, mode: int, by: User | None = None) -> Node:
        return self._names.create(*self.split(path), mode, by)

    def mkdir(self, path: str, mode: int, by: User | None = None) -> None:
        self._names.mkdir(*self.split(path), mode, by)

    def rmdir(self, path: str) -> None:
        self._names.rmdir(*self.split(path))

    def unlink(self, path: str) -> None:
        self._names.unlink(*self.split(path))

    def symlink(self, path: str, target: str, by: User | None = None) -> None:
        self._names.symlink(*self.split(path), target, by)

    def link(self, existing: str, path: str) -> None:
        self._names.link(self._names.walk(existing), *self.split(path))

    def rename(self, old: str, new: str, *, replace: bool = True) -> None:
        self._names.rename(*self.split(old), *self.split(new), replace=replace)


class MetadataByPath:
    """What sets attributes; see ``Vfs``."""

    def __init__(self, vfs: Vfs) -> None:
        self._vfs = vfs

    def readlink(self, path: str) -> str:
        return self._vfs.readlink(self._vfs.names.walk(path))

    def chmod(self, path: str, mode: int) -> None:
        self._vfs.chmod(self._vfs.names.walk(path), mode)

    def chown(self, path: str, uid: int, gid: int) -> None:
        self._vfs.chown(self._vfs.names.walk(path), uid, gid)

    def utimens(self, path: str, atime_ns: int | None, mtime_ns: int | None) -> None:
        self._vfs.utimens(self._vfs.names.walk(path), atime_ns, mtime_ns)

    def set_xattr(self, path: str, name: str, value: bytes) -> None:
        self._vfs.set_xattr(self._vfs.names.walk(path), name, value)


class ByPath:
    """See ``Vfs``; what does not name a file is that of ``vfs``."""

    def __init__(self, vfs: Vfs) -> None:
        self.vfs = vfs
        self.names = NamesByPath(vfs.names)
        self.metadata = MetadataByPath(vfs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.vfs, name)

    def _node(self, path: str | None, handle: int | None) -> Node:
        if handle is not None and handle in self.vfs._handles.files:
            return self.vfs._handles.files[handle].node
        if path is None:
            raise NoSuchNameError("the file is not open")
        return self.vfs.names.walk(path)

    def attributes(self, path: str | None, handle: int | None = None) -> Attributes:
        return self.vfs.attributes(self._node(path, handle), handle)

    def open(self, path: str, *, write: bool, truncate: bool) -> int:
        return self.vfs.open(self.vfs.names.walk(path), write=write, truncate=truncate)

    def create(self, path: str, mode: int, by: User | None = None) -> int:
        return self.vfs.create(*self.names.split(path), mode, by)[1]

    def truncate(self, path: str | None, size: int, handle: int | None = None) -> None:
        self.vfs.truncate(self._node(path, handle), size, handle)

    def opendir(self, path: str) -> int:
        return self.vfs.opendir(self.vfs.names.walk(path))

    def readlink(self, path: str) -> str:
        return self.vfs.readlink(self.vfs.names.walk(path))

    def xattrs(self, path: str) -> list[str]:
        return self.vfs.xattrs(self.vfs.names.walk(path))

    def xattr(self, path: str, name: str) -> bytes:
        return self.vfs.xattr(self.vfs.names.walk(path), name)
