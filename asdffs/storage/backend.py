"""Protocols of the disk: ``Backend`` is one open file, ``Folder`` is its directory.

All higher layers run the same on real files, in memory and in a crash simulation.  The implementations are
``file_backend``, ``overlay``, ``window`` and ``remote/backend``; all pass
``tests/contract/test_backends.py``, the last three its part about reading.  Only one thread at a time may use a
backend.
"""

from __future__ import annotations

import os
from typing import NamedTuple, Protocol


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
    pieces: list[bytes] = []
    offset, rest = found.offset, found.length
    while rest > 0 and (piece := os.pread(found.fd, rest, offset)):
        pieces.append(piece)
        offset, rest = offset + len(piece), rest - len(piece)
    return b"".join(pieces)


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


class Backend(Protocol):
    """One open file with positioned I/O only.  Offsets and lengths are in bytes.

    Every method raises ``OSError`` as the system reports it.
    """

    @property
    def name(self) -> str:
        """The file's name in its folder."""

    @property
    def writable(self) -> bool:
        """Whether the file was opened for writing."""

    def size(self) -> int:
        """Return the size in bytes."""

    def read_at(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes from ``offset``, fewer only at the end of the file."""

    def write_at(self, offset: int, payload: bytes | memoryview) -> None:
        """Write all of ``payload`` at ``offset``, or raise."""

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes, or extend it with zeros."""

    def sync(self) -> None:
        """Return when all writes are durable (fdatasync, which includes the size)."""

    def allocate(self, offset: int, length: int) -> None:
        """Reserve disk space for these bytes; a shorter file is extended with zeros."""

    def unit(self) -> int:
        """Return the granularity of ``insert_range``, ``collapse_range`` and clones, in bytes."""

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

    def extent(self, offset: int, length: int) -> bytes | Extent:
        """Return these bytes, or the place in a file where the kernel can read them."""

    def signature(self) -> Signature:
        """Return the signature of the open file."""

    def close(self) -> None:
        """Close the file descriptor, which also releases the lock.  May be called twice."""


class Folder(Protocol):
    """The directory of the file and its sidecars.  Every method may raise ``OSError``."""

    def path(self, name: str) -> str:
        """Return the absolute path of ``name``, for messages."""

    def whereabouts(self) -> str:
        """Return the path by which the directory is reached now: without symbolic links, whoever has moved it."""

    def names(self) -> list[str]:
        """Return the names of all files in the directory."""

    def open(self, name: str, *, writable: bool, create: bool = False) -> Backend:
        """Open ``name``; with ``create`` it must be new."""

    def open_unnamed(self) -> Backend:
        """Create a file without a name, which is '' in the backend; ``place`` gives it one.

        It vanishes when it is closed.  It may be on another file system; then ``place`` raises ``OSError``.
        """

    def signature(self, name: str) -> Signature:
        """Return the signature of the file that now has this name."""

    def why_kept(self, name: str) -> str:
        """Return why no other file can take the place of this one, as "it is a mount point"; '' if one can."""

    def lock(self, backend: Backend) -> bool:
        """Lock ``backend`` against other asdffs processes until ``close``; return False if another one holds it."""

    def copy_range(self, source: Backend, start: int, target: Backend, to: int, length: int) -> None:
        """Copy bytes between files in the fastest way; holes stay holes."""

    def can_clone(self, source: Backend, target: Backend) -> bool:
        """Return whether ``clone_range`` works between these files.  ``target`` is empty before and after."""

    def clone_range(self, source: Backend, start: int, target: Backend, to: int, length: int) -> None:
        """Make ``target`` share ``length`` bytes of ``source`` (0: up to its end).

        Offsets and lengths are multiples of ``Backend.unit``.
        """

    def free(self, of: Backend | None = None, *, after_sync: bool = False) -> int:
        """Return the bytes that can still be written on the file system of ``of``, else on that of the directory.

        ``after_sync``: flush everything first.  A file system with delayed allocation reports too large a
        number before.
        """

    def set_mode(self, backend: Backend, mode: int) -> None:
        """Set the permissions of ``backend`` to ``mode``."""

    def copy_attributes(self, source: Backend, target: Backend) -> None:
        """Copy mode, owner and extended attributes from ``source`` to ``target``.

        Raises ``OSError`` (EPERM) if the owner cannot be kept.
        """

    def replace(self, backend: Backend, name: str) -> Backend:
        """Rename ``backend`` to ``name`` atomically; return the same open file under its new name."""

    def place(self, backend: Backend, name: str) -> Backend:
        """Do the same as ``replace``, but raise ``FileExistsError`` if ``name`` exists."""

    def remove(self, name: str) -> None:
        """Remove ``name``."""

    def sync(self) -> None:
        """Return when created, replaced and removed names are durable."""
