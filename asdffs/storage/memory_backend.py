"""Backend and Folder in memory, with the same contract as on disk.

``MemoryFolder.step`` is called before every change; the crash tests record these steps and replay them.  One
thread at a time.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from asdffs.storage.backend import Backend, PhysicalExtent, Signature
from asdffs.storage.memory_file import UNIT, MemoryFile

#: The features that a folder supports by default: the range operations, and clones.
FEATURES = frozenset({"insert", "clone"})


class MemoryBackend:
    """One open file of a ``MemoryFolder``.  See ``Backend``."""

    def __init__(self, folder: MemoryFolder, file: MemoryFile, name: str, *, writable: bool) -> None:
        self._folder = folder
        self.file = file
        self._name = name
        self._writable = writable

    @property
    def name(self) -> str:
        """The file's name in its folder."""
        return self._name

    @property
    def writable(self) -> bool:
        """Whether the file was opened for writing."""
        return self._writable

    def size(self) -> int:
        """Return the size in bytes."""
        return len(self.file.content)

    def read_at(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes from ``offset``, fewer only at the end."""
        return bytes(self.file.content[offset : offset + length])

    def write_at(self, offset: int, payload: bytes | memoryview) -> None:
        """Write all of ``payload``; a shorter file is extended with zeros."""
        self._change("write", offset, bytes(payload))
        self.file.write(offset, bytes(payload))

    def truncate(self, size: int) -> None:
        """Cut the file, or extend it with zeros."""
        self._change("truncate", size)
        self.file.resize(size)

    def sync(self) -> None:
        """Report a step; there is nothing to wait for."""
        self._folder.step("sync", self._name)

    def extent(self, offset: int, length: int) -> bytes:
        """Return the bytes, because there is no file descriptor."""
        return self.read_at(offset, length)

    def signature(self) -> Signature:
        """Return the inode, the size and the number of changes as a signature."""
        return Signature(0, self.file.inode, self.size(), self.file.changes, self.file.changes)

    def close(self) -> None:
        """Release the lock; a file without a name vanishes."""
        if self.file.holder == id(self):
            self.file.holder = None
        if self._folder.files.get("") is self.file:
            del self._folder.files[""]

    def allocate(self, offset: int, length: int) -> None:
        """Give the pages addresses."""
        self._change("allocate", offset, length)
        self.file.allocate(offset, length)

    def unit(self) -> int:
        """Return the size of a page, in bytes."""
        return UNIT

    def can_insert(self) -> bool:
        """Return whether the folder supports insertion."""
        return "insert" in self._folder.features

    def forget_pages(self, offset: int) -> None:
        """Do nothing: there is no cache."""

    def insert_range(self, offset: int, length: int) -> None:
        """Move the bytes after ``offset``, one extent at a time; raises ``OSError``."""
        self._check_range("insert", offset, length, most=self.size())
        self._change("insert", offset, length)
        for step in list(self.file.insertion(offset, length)):
            self.file.take(step)

    def collapse_range(self, offset: int, length: int) -> None:
        """Remove bytes, one extent at a time; raises ``OSError``."""
        self._check_range("insert", offset, length, most=self.size() - length)
        self._change("collapse", offset, length)
        for step in list(self.file.collapsing(offset, length)):
            self.file.take(step)

    def extents(self) -> list[PhysicalExtent]:
        """Return the addresses of the pages."""
        return self.file.extents()

    def _check_range(self, feature: str, offset: int, length: int, *, most: int) -> None:
        if feature not in self._folder.features:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        if offset % UNIT or length % UNIT or offset >= most:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    def _change(self, kind: str, *details: object) -> None:
        if not self._writable:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        self._folder.step(kind, self._name, *details)
        self.file.changes += 1


class MemoryFolder:
    """A directory in memory.  See ``Folder``.

    ``features``: the supported ones of ``FEATURES``.  ``room``: the value of ``free``, in bytes.  ``step(kind,
    name, *details)`` is called before every change; a test replaces it to record the steps, or to stop at one.
    """

    def __init__(self, files: dict[str, bytes] | None = None, features: frozenset[str] = FEATURES) -> None:
        self.features = features
        self.room = 1 << 40
        self.files = {name: MemoryFile(content) for name, content in (files or {}).items()}
        self.step: Callable[..., None] = lambda kind, name, *details: None

    def path(self, name: str) -> str:
        """Return the path of ``name`` under a root that does not exist."""
        return f"/memory/{name}"

    def whereabouts(self) -> str:
        """See ``Folder``."""
        return "/memory"

    def names(self) -> list[str]:
        """Return the names of all files."""
        return [name for name in self.files if name]

    def open(self, name: str, *, writable: bool, create: bool = False) -> MemoryBackend:
        """Open or create ``name``; raises ``OSError``."""
        if create:
            if name in self.files:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
            file = MemoryFile()
            self.step("create", name, file.inode)
            self.files[name] = file
        return MemoryBackend(self, self._file(name), name, writable=writable)

    def open_unnamed(self) -> MemoryBackend:
        """See ``Folder``; there is one such file at a time."""
        self.files.pop("", None)
        return self.open("", writable=True, create=True)

    def signature(self, name: str) -> Signature:
        """Return the signature of the file of that name; raises ``OSError``."""
        return MemoryBackend(self, self._file(name), name, writable=False).signature()

    def why_kept(self, name: str) -> str:
        """See ``Folder``."""
        links = sum(file is self._file(name) for file in self.files.values())
        return "it has several names" if links > 1 else ""

    def lock(self, backend: Backend) -> bool:
        """Lock like flock does, among the backends of this folder."""
        file = _memory(backend).file
        if file.holder not in (None, id(backend)):
            return False
        file.holder = id(backend)
        return True

    def copy_range(self, source: Backend, start: int, target: Backend, to: int, length: int) -> None:
        """Copy bytes."""
        target.write_at(to, source.read_at(start, length))

    def can_clone(self, source: Backend, target: Backend) -> bool:
        """Return whether the folder supports clones and the file is large enough."""
        return "clone" in self.features and source.size() >= UNIT

    def clone_range(self, source: Backend, start: int, target: Backend, to: int, length: int) -> None:
        """Copy bytes; raises ``OSError`` in the cases in which a real clone does."""
        stop = start + length if length else source.size()
        if "clone" not in self.features:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        if start % UNIT or to % UNIT or (stop % UNIT and stop != source.size()):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        target.write_at(to, source.read_at(start, stop - start))

    def free(self, of: Backend | None = None, *, after_sync: bool = False) -> int:
        """Return ``room``, which the test sets."""
        return self.room

    def set_mode(self, backend: Backend, mode: int) -> None:
        """Do nothing: files in memory have no permissions."""

    def copy_attributes(self, source: Backend, target: Backend) -> None:
        """Do nothing: files in memory have no attributes."""

    def replace(self, backend: Backend, name: str) -> MemoryBackend:
        """Rename the file of ``backend`` over the file with the new name."""
        self.step("replace", name, backend.name)
        file = self.files.pop(backend.name)
        self.files[name] = file
        renamed = MemoryBackend(self, file, name, writable=backend.writable)
        if file.holder == id(backend):
            file.holder = id(renamed)
        return renamed

    def place(self, backend: Backend, name: str) -> MemoryBackend:
        """Do the same as ``replace``, unless the name exists; raises ``OSError``."""
        if name in self.files:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        return self.replace(backend, name)

    def remove(self, name: str) -> None:
        """Remove ``name``; raises ``OSError``."""
        self._file(name)
        self.step("remove", name)
        del self.files[name]

    def sync(self) -> None:
        """Report a step; there is nothing to wait for."""
        self.step("syncdir", "")

    def _file(self, name: str) -> MemoryFile:
        if name not in self.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return self.files[name]


def _memory(backend: Backend) -> MemoryBackend:
    if not isinstance(backend, MemoryBackend):
        raise TypeError("a memory folder accepts only its own files")
    return backend
