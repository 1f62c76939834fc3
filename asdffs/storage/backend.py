"""Protocols of the disk: Backend (one open file) and Folder (the directory it lies in).

Purpose: everything above runs the same on real files, in memory and in a crash simulation.  Implementations:
``file_backend``, ``memory_backend``, ``overlay``; all pass ``tests/contract/test_backends.py``.  A backend is used by
one thread at a time.
"""

from __future__ import annotations

import os
from typing import NamedTuple, Protocol


class Access(NamedTuple):
    """Who may use a file: permission bits, owner, group; and its number of names."""

    mode: int = 0o600
    user: int = 0
    group: int = 0
    links: int = 1


class Signature(NamedTuple):
    """What tells whether somebody else changed a file (facts of ``fstat``; times in ns)."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    access: Access = Access()

    def is_same_content(self, now: Signature) -> bool:
        """Whether the file that was like this and is like ``now`` has the same content.

        A program may write and put the mtime back; then only the ctime tells.  chmod, chown and link move that, too,
        but then ``access`` differs.
        """
        return self[:4] == now[:4] and (self.ctime_ns == now.ctime_ns or self.access != now.access)


class Extent(NamedTuple):
    """``length`` bytes at ``offset`` of the open file ``fd``: read without passing through Python."""

    fd: int
    offset: int
    length: int


def read_bytes(found: bytes | Extent) -> bytes:
    """The bytes of a read, wherever they are.  Raises ``OSError``."""
    if isinstance(found, bytes):
        return found
    pieces: list[bytes] = []
    offset, rest = found.offset, found.length
    while rest > 0 and (piece := os.pread(found.fd, rest, offset)):
        pieces.append(piece)
        offset, rest = offset + len(piece), rest - len(piece)
    return b"".join(pieces)


def read_into(found: bytes | Extent, buffer: memoryview) -> int:
    """As ``read_bytes``, into ``buffer``, which has room; how many bytes.  Raises ``OSError``."""
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
    """``length`` bytes of the file from ``logical`` on lie on the disk from address ``physical`` on.

    ``shared``: with another file, or another place of this one: a write gives them another address.
    """

    logical: int
    physical: int
    length: int
    shared: bool = False


class Backend(Protocol):
    """One open file, positioned I/O only.  Offsets and lengths in bytes.

    Every method raises ``OSError`` as the system gave it.
    """

    @property
    def name(self) -> str:
        """The file's name in its folder."""

    @property
    def writable(self) -> bool:
        """Whether it was opened for writing."""

    def size(self) -> int:
        """Size in bytes."""

    def read_at(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``, fewer only where the file ends."""

    def write_at(self, offset: int, payload: bytes | memoryview) -> None:
        """Write all of ``payload`` at ``offset``, or raise."""

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes, or extend it with zeros."""

    def sync(self) -> None:
        """Return when all that was written is durable (fdatasync; the size included)."""

    def allocate(self, offset: int, length: int) -> None:
        """Reserve room on the disk; where the file was shorter, it is extended with zeros."""

    def unit(self) -> int:
        """What offsets and lengths of ``insert_range``, ``collapse_range`` and clones are multiples of, in bytes."""

    def can_insert(self) -> bool:
        """Whether ``insert_range`` works here; to ask may change the mtime."""

    def forget_pages(self, offset: int) -> None:
        """Give up cached pages from ``offset`` on: ``insert_range`` would, while readers wait for it."""

    def insert_range(self, offset: int, length: int) -> None:
        """Move all bytes from ``offset`` on by ``length``, without copying; a hole is left.  Not atomic."""

    def collapse_range(self, offset: int, length: int) -> None:
        """Remove ``length`` bytes at ``offset``, without copying.  Not atomic."""

    def extents(self) -> list[PhysicalExtent]:
        """Where the file lies on the disk, holes left out; what was written is flushed to get addresses.

        Raises ``OSError`` (EOPNOTSUPP) when an address is not stable, or not told.
        """

    def extent(self, offset: int, length: int) -> bytes | Extent:
        """Those bytes, or where a program outside Python may read them."""

    def signature(self) -> Signature:
        """The signature of the open file."""

    def close(self) -> None:
        """Give up the descriptor and with it the lock.  Harmless a second time."""


class Folder(Protocol):
    """The directory that holds the file and its sidecars.  Raises ``OSError``."""

    def path(self, name: str) -> str:
        """The absolute path of ``name``, for messages."""

    def names(self) -> list[str]:
        """Names of all files in it."""

    def open(self, name: str, *, writable: bool, create: bool = False) -> Backend:
        """Open ``name``; with ``create`` it must be new."""

    def signature(self, name: str) -> Signature:
        """The signature of what ``name`` names now."""

    def links(self, name: str) -> int:
        """Number of names of that file."""

    def lock(self, backend: Backend) -> bool:
        """Lock ``backend`` against other asdffs; False when another holds it.  Ends with ``close``."""

    def copy_range(self, source: Backend, start: int, target: Backend, to: int, length: int) -> None:
        """Copy bytes between files, holes kept as holes, by the fastest way there is."""

    def can_clone(self, source: Backend, target: Backend) -> bool:
        """Whether ``clone_range`` works between them; ``target`` is empty, and again after."""

    def clone_range(self, source: Backend, start: int, target: Backend, to: int, length: int) -> None:
        """Have ``target`` share bytes of ``source``; ``length`` 0: to its end.  See ``Backend.unit``."""

    def free(self, *, after_sync: bool = False) -> int:
        """Bytes that can still be written on this file system.

        ``after_sync``: when all that was written has its place.  Where room is given late the number is too large
        before.
        """

    def set_mode(self, backend: Backend, mode: int) -> None:
        """Give ``backend`` the permissions ``mode``."""

    def copy_attributes(self, source: Backend, target: Backend) -> None:
        """Give ``target`` the mode, owner and extended attributes of ``source``.

        Raises ``OSError`` (EPERM) when the owner cannot be kept.
        """

    def replace(self, backend: Backend, name: str) -> Backend:
        """Rename ``backend`` to ``name``, atomically; the same open file under its new name."""

    def place(self, backend: Backend, name: str) -> Backend:
        """As ``replace``, but ``FileExistsError`` when there is a ``name`` already."""

    def remove(self, name: str) -> None:
        """Remove ``name``."""

    def sync(self) -> None:
        """Return when names created, replaced and removed are durable."""
