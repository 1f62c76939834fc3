"""``MovableBackend`` and ``Folder`` in memory, with the same contract as on disk, and simulated addresses.

``MemoryFolder.step`` is called before every change; the crash tests record these steps and replay them.  One
thread at a time.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from asdffs.storage.backend import PhysicalExtent, ReadBackend, Signature, WriteBackend

#: The features that a folder supports by default: the range operations, and clones.
FEATURES = frozenset({"insert", "clone"})
#: Granularity of the range operations, in bytes.
UNIT = 256
#: Number of pages with neighbouring addresses, so that a file has several extents.
_RUN = 3
_INODES = itertools.count(1)


@dataclass(frozen=True, slots=True)
class MemoryStep:
    """One step of a range operation: move the pages ``[start, stop)`` by ``shift``, or resize to ``size`` bytes."""

    start: int = 0
    stop: int = 0
    shift: int = 0
    size: int | None = None


class MemoryFile:
    """The content and the pages of a file; ``pages[i]`` is the address of page i, or None in a hole."""

    def __init__(self, content: bytes = b"", inode: int | None = None) -> None:
        self.inode = next(_INODES) if inode is None else inode
        self.changes = 0
        self.holder: int | None = None
        self.content = bytearray()
        self.pages: list[int | None] = []
        self._next = 0
        self.write(0, content)

    def write(self, offset: int, payload: bytes) -> None:
        """Write ``payload``; a shorter file is extended with zeros."""
        self.resize(max(len(self.content), offset + len(payload)))
        self.content[offset : offset + len(payload)] = payload
        if payload:
            self.allocate(offset, len(payload))

    def resize(self, size: int) -> None:
        """Cut the file, or extend it with a hole."""
        del self.content[size:]
        self.content.extend(bytes(size - len(self.content)))
        count = -(-size // UNIT)
        del self.pages[count:]
        self.pages.extend([None] * (count - len(self.pages)))

    def allocate(self, offset: int, length: int) -> None:
        """Give addresses to the pages of a range, and extend the file."""
        self.resize(max(len(self.content), offset + length))
        for page in range(offset // UNIT, -(-(offset + length) // UNIT)):
            if self.pages[page] is None:
                self.pages[page] = self._next + self._next // _RUN
                self._next += 1

    def extents(self) -> list[PhysicalExtent]:
        """Return runs of pages with neighbouring addresses."""
        found: list[PhysicalExtent] = []
        for page, address in enumerate(self.pages):
            if address is None:
                continue
            here, there, last = page * UNIT, address * UNIT, found[-1] if found else None
            if last and (last.logical + last.length, last.physical + last.length) == (here, there):
                found[-1] = PhysicalExtent(last.logical, last.physical, last.length + UNIT)
            else:
                found.append(PhysicalExtent(here, there, UNIT))
        return found

    def insertion(self, offset: int, length: int) -> Iterator[MemoryStep]:
        """Yield the steps of an insert range.

        First the size, then the extents after ``offset``, the last one first.
        """
        yield MemoryStep(size=len(self.content) + length)
        for extent in reversed(self.extents()):
            start = max(extent.logical, offset)
            stop = extent.logical + extent.length
            if start < stop:
                yield MemoryStep(start // UNIT, stop // UNIT, length // UNIT)

    def collapsing(self, offset: int, length: int) -> Iterator[MemoryStep]:
        """Yield the steps of a collapse range.

        First the extents after the removed range, the first one first, then the size.
        """
        for extent in self.extents():
            if extent.logical >= offset + length:
                yield MemoryStep(extent.logical // UNIT, (extent.logical + extent.length) // UNIT, -(length // UNIT))
        yield MemoryStep(size=len(self.content) - length)

    def take(self, step: MemoryStep) -> None:
        """Carry out one step."""
        if step.size is not None:
            self.resize(step.size)
            return
        size, count = len(self.content), step.stop - step.start
        pages = self.pages[step.start : step.stop]
        content = bytes(self.content[step.start * UNIT : step.stop * UNIT])
        self.pages[step.start : step.stop] = [None] * count
        self.content[step.start * UNIT : step.start * UNIT + len(content)] = bytes(len(content))
        target = step.start + step.shift
        self.pages[target : target + count] = pages
        self.content[target * UNIT : target * UNIT + len(content)] = content
        del self.content[size:]  # the last page is not full

    def copy(self) -> MemoryFile:
        """Return another file with the same bytes, addresses and inode."""
        twin = MemoryFile(inode=self.inode)
        twin.content, twin.pages, twin._next = bytearray(self.content), list(self.pages), self._next
        return twin


class MemoryBackend:
    """One open file of a ``MemoryFolder``.  See ``MovableBackend``."""

    def __init__(self, folder: MemoryFolder, file: MemoryFile, name: str, *, writable: bool) -> None:
        self._folder = folder
        self.file = file
        self._name = name
        self._writable = writable

    @property
    def name(self) -> str:
        """The file's name in its folder."""
        return self._name

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

    def lock(self, backend: ReadBackend) -> bool:
        """Lock like flock does, among the backends of this folder."""
        file = _memory(backend).file
        if file.holder not in (None, id(backend)):
            return False
        file.holder = id(backend)
        return True

    def copy_range(self, source: ReadBackend, start: int, target: WriteBackend, to: int, length: int) -> None:
        """Copy bytes."""
        target.write_at(to, source.read_at(start, length))

    def clone_range(self, source: ReadBackend, start: int, target: WriteBackend, to: int, length: int) -> None:
        """Copy bytes; raises ``OSError`` in the cases in which a real clone does."""
        stop = start + length if length else source.size()
        if "clone" not in self.features:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        if start % UNIT or to % UNIT or (stop % UNIT and stop != source.size()):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        target.write_at(to, source.read_at(start, stop - start))

    def free(self, of: ReadBackend | None = None, *, after_sync: bool = False) -> int:
        """Return ``room``, which the test sets."""
        return self.room

    def set_mode(self, backend: ReadBackend, mode: int) -> None:
        """Do nothing: files in memory have no permissions."""

    def copy_attributes(self, source: ReadBackend, target: WriteBackend, *, most: int = 0o7777) -> None:
        """Do nothing: files in memory have no attributes."""

    def replace(self, backend: ReadBackend, name: str) -> MemoryBackend:
        """Rename the file of ``backend`` over the file with the new name."""
        self.step("replace", name, backend.name)
        file = self.files.pop(backend.name)
        self.files[name] = file
        renamed = MemoryBackend(self, file, name, writable=True)
        if file.holder == id(backend):
            file.holder = id(renamed)
        return renamed

    def place(self, backend: ReadBackend, name: str) -> MemoryBackend:
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


def _memory(backend: ReadBackend) -> MemoryBackend:
    if not isinstance(backend, MemoryBackend):
        raise TypeError("a memory folder accepts only its own files")
    return backend
