"""Protocols of the disk: an open file is a ``ReadBackend``, and what can be done besides is in the types above it.

| protocol        | adds                                   | implemented by                                        |
|-----------------|----------------------------------------|-------------------------------------------------------|
| ReadBackend     | read, size, signature                  | ``WindowBackend``, ``unfinished.OverlayBackend``      |
| RemoteFile      | URL, version, requests ahead           | ``features/remote``                                   |
| WriteBackend    | write, truncate, allocate, sync        |                                                       |
| MovableBackend  | insert and collapse ranges, extents    | ``file_backend.FileBackend``; in memory, for the tests|

``ReadFolder`` and ``Folder`` are the directory of a file, to read and to write.  All implementations pass
``tests/contract/test_backends.py``.  Only one thread at a time may use a backend.
"""

from __future__ import annotations

import abc
import os
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol


class Access(NamedTuple):
    """The permission bits, owner and group of a file, and its number of names."""

    mode: int = 0o600
    user: int = 0
    group: int = 0
    links: int = 1


class Signature(NamedTuple):
    """The facts of ``fstat`` that show whether another program changed a file.  Times are in ns."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    access: Access = Access()

    def is_same_content(self, now: Signature) -> bool:
        """Return whether a file with this signature, which now has the signature ``now``, has the same content.

        A program may write and then restore the mtime; only the ctime shows that.  chmod, chown and link change
        the ctime, too, but then ``access`` differs.
        """
        return self[:4] == now[:4] and (self.ctime_ns == now.ctime_ns or self.access != now.access)


class Extent(NamedTuple):
    """``length`` bytes at ``offset`` of the open file ``fd``, which the kernel can read without Python."""

    fd: int
    offset: int
    length: int


def read_bytes(found: bytes | Extent) -> bytes:
    """Return the bytes of a read result, from memory or from its file.  Raises ``OSError``."""
    if isinstance(found, bytes):
        return found
    fd, offset, rest = found
    pieces = [os.pread(fd, rest, offset)]  # nearly always all of them
    while pieces[-1] and len(pieces[-1]) < rest:
        offset, rest = offset + len(pieces[-1]), rest - len(pieces[-1])
        pieces.append(os.pread(fd, rest, offset))
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def read_into(found: bytes | Extent, buffer: memoryview) -> int:
    """Copy the bytes of a read result into ``buffer``, and return their number.

    The buffer must have room for them.  Raises ``OSError``.
    """
    if isinstance(found, bytes):
        buffer[: len(found)] = found
        return len(found)
    done = 0
    while done < found.length:
        count = os.preadv(found.fd, [buffer[done : found.length]], found.offset + done)
        if not count:
            break
        done += count
    return done


class PhysicalExtent(NamedTuple):
    """``length`` bytes of the file from ``logical`` on are on the disk at address ``physical``.

    ``shared``: another file, or another place of this file, uses the same address.  A write then gives the
    bytes a new address.
    """

    logical: int
    physical: int
    length: int
    shared: bool = False


class ReadBackend(Protocol):
    """One open file with positioned I/O only.  Offsets and lengths are in bytes.

    Every method raises ``OSError`` as the system reports it.
    """

    @property
    def name(self) -> str:
        """The file's name in its folder."""

    def size(self) -> int:
        """Return the size in bytes."""

    def read_at(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes from ``offset``, fewer only at the end of the file."""

    def extent(self, offset: int, length: int) -> bytes | Extent:
        """Return these bytes, or the place in a file where the kernel can read them."""

    def unit(self) -> int:
        """Return the granularity of ``insert_range``, ``collapse_range`` and clones, in bytes."""

    def signature(self) -> Signature:
        """Return the signature of the open file."""

    def close(self) -> None:
        """Close the file descriptor, which also releases the lock.  May be called twice."""


class WriteBackend(ReadBackend, Protocol):
    """An open file that may be written."""

    def write_at(self, offset: int, payload: bytes | memoryview) -> None:
        """Write all of ``payload`` at ``offset``, or raise."""

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes, or extend it with zeros."""

    def sync(self) -> None:
        """Return when all writes are durable (fdatasync, which includes the size)."""

    def allocate(self, offset: int, length: int) -> None:
        """Reserve disk space for these bytes; a shorter file is extended with zeros."""


class MovableBackend(WriteBackend, Protocol):
    """An open file whose bytes the file system may move without a copy."""

    def can_insert(self) -> bool:
        """Return whether ``insert_range`` works for this file.  The check may change the mtime."""

    def forget_pages(self, offset: int) -> None:
        """Drop cached pages from ``offset`` on.

        ``insert_range`` would drop them as well, but readers would have to wait for it.
        """

    def insert_range(self, offset: int, length: int) -> None:
        """Move all bytes from ``offset`` on by ``length``, without a copy.  Leaves a hole.  Not atomic."""

    def collapse_range(self, offset: int, length: int) -> None:
        """Remove ``length`` bytes at ``offset``, without a copy.  Not atomic."""

    def extents(self) -> list[PhysicalExtent]:
        """Return where the file is on the disk, without holes; flush it first, so that all bytes have addresses.

        Raises ``OSError`` (EOPNOTSUPP) if an address is not stable or not known.
        """


class RemoteFile(abc.ABC):
    """What a ``ReadBackend`` of a file on a server has besides, for ``isinstance``.

    ``location``: the whole URL, which may have secrets.  ``validator``: what tells this version of the file from
    another, with ``size``, and the ETag or None as ``tag``.
    """

    location: str
    validator: Any

    @abc.abstractmethod
    def requests(self) -> dict[str, Any]:
        """Return what the requests were so far, as JSON has it; ``whole``: whether no read needs another one."""

    @abc.abstractmethod
    def fetch_ahead(self, parts: Sequence[tuple[int, int]]) -> None:
        """Ask for all ``parts`` (start and stop) at the same time: reads of them follow.  Returns at once."""


class ReadFolder(Protocol):
    """The directory of a file that is only read.  Every method may raise ``OSError``."""

    def path(self, name: str) -> str:
        """Return the absolute path of ``name``, for messages."""

    def whereabouts(self) -> str:
        """Return the path by which the directory is reached now: without symbolic links, whoever has moved it."""

    def open(self, name: str, *, writable: bool) -> ReadBackend:
        """Open ``name``; a folder to read refuses ``writable``."""

    def signature(self, name: str) -> Signature:
        """Return the signature of the file that now has this name."""


class Folder(ReadFolder, Protocol):
    """The directory of a file and its sidecars."""

    def names(self) -> list[str]:
        """Return the names of all files in the directory."""

    def open(self, name: str, *, writable: bool, create: bool = False) -> MovableBackend:
        """Open ``name``; with ``create`` it must be new."""

    def open_unnamed(self) -> MovableBackend:
        """Create a file without a name, which is '' in the backend; ``place`` gives it one.

        It vanishes when it is closed.  It may be on another file system; then ``place`` raises ``OSError``.
        """

    def why_kept(self, name: str) -> str:
        """Return why no other file can take the place of this one, as "it is a mount point"; '' if one can."""

    def lock(self, backend: ReadBackend) -> bool:
        """Lock ``backend`` against other asdffs processes until ``close``; return False if another one holds it."""

    def copy_range(self, source: ReadBackend, start: int, target: WriteBackend, to: int, length: int) -> None:
        """Copy bytes between files in the fastest way; holes stay holes."""

    def clone_range(self, source: ReadBackend, start: int, target: WriteBackend, to: int, length: int) -> None:
        """Make ``target`` share ``length`` bytes of ``source`` (0: up to its end).

        Offsets and lengths are multiples of ``unit``.
        """

    def free(self, of: ReadBackend | None = None, *, after_sync: bool = False) -> int:
        """Return the bytes that can still be written on the file system of ``of``, else on that of the directory.

        ``after_sync``: flush everything first.  A file system with delayed allocation reports too large a
        number before.
        """

    def set_mode(self, backend: WriteBackend, mode: int) -> None:
        """Set the permissions of ``backend`` to ``mode``."""

    def copy_attributes(self, source: ReadBackend, target: WriteBackend, *, most: int = 0o7777) -> None:
        """Copy mode, owner and extended attributes from ``source`` to ``target``.

        ``most``: the permissions of ``target`` are among these at all times.  Raises ``OSError`` (EPERM) if the owner
        cannot be kept.
        """

    def replace(self, backend: WriteBackend, name: str) -> MovableBackend:
        """Rename ``backend`` to ``name`` atomically; return the same open file under its new name."""

    def place(self, backend: WriteBackend, name: str) -> MovableBackend:
        """Do the same as ``replace``, but raise ``FileExistsError`` if ``name`` exists."""

    def remove(self, name: str) -> None:
        """Remove ``name``."""

    def sync(self) -> None:
        """Return when created, replaced and removed names are durable."""


class WindowBackend:
    """The ``length`` bytes from ``start`` of the file ``whole``: an ASDF file inside another file.

    Offsets count from the beginning of the part; ``signature`` and ``close`` are those of the whole file.  Changes
    are planned for the whole file.
    """

    def __init__(self, whole: ReadBackend, start: int, length: int) -> None:
        self.whole = whole
        self._start = start
        self._length = length

    @property
    def name(self) -> str:
        """The name of the whole file."""
        return self.whole.name

    def size(self) -> int:
        """Return the size of the part: fewer bytes if the whole file was cut."""
        return max(0, min(self._length, self.whole.size() - self._start))

    def read_at(self, offset: int, length: int) -> bytes:
        """Return bytes of the part."""
        return self.whole.read_at(self._start + offset, self._inside(offset, length))

    def extent(self, offset: int, length: int) -> bytes | Extent:
        """Return bytes of the part, or their place."""
        return self.whole.extent(self._start + offset, self._inside(offset, length))

    def unit(self) -> int:
        """Return that of the whole file."""
        return self.whole.unit()

    def signature(self) -> Signature:
        """Return that of the whole file."""
        return self.whole.signature()

    def close(self) -> None:
        """Close the whole file."""
        self.whole.close()

    def _inside(self, offset: int, length: int) -> int:
        return max(0, min(length, self._length - offset))
