"""Protocols of the disk: Store (one open file) and Folder (the directory it lies in).

Purpose: everything above runs the same on real files, in memory and in a crash
simulation.  Users: ``journal``, ``recovery``, ``gap``, ``document``.  Implementations:
``file_store``, ``memory_store``, ``overlay``; all pass ``tests/contract/test_stores.py``.
A store is used by one thread at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Signature:
    """What tells whether somebody else changed a file (facts of ``fstat``; times in ns)."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


@dataclass(frozen=True, slots=True)
class Extent:
    """``length`` bytes at ``offset`` of the open file ``fd``: read without passing through Python."""

    fd: int
    offset: int
    length: int


class Store(Protocol):
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

    def open(self, name: str, *, writable: bool, create: bool = False) -> Store:
        """Open ``name``; with ``create`` it must be new."""

    def signature(self, name: str) -> Signature:
        """The signature of what ``name`` names now."""

    def links(self, name: str) -> int:
        """Number of names of that file."""

    def lock(self, store: Store) -> bool:
        """Lock ``store`` against other asdffs; False when another holds it.  Ends with ``close``."""

    def copy_range(self, source: Store, start: int, target: Store, to: int, length: int) -> None:
        """Copy bytes between files, holes kept as holes, by the fastest way there is."""

    def copy_attributes(self, source: Store, target: Store) -> None:
        """Give ``target`` the mode, owner and extended attributes of ``source``."""

    def replace(self, store: Store, name: str) -> Store:
        """Rename ``store`` to ``name``, atomically; the same open file under its new name."""

    def remove(self, name: str) -> None:
        """Remove ``name``."""

    def sync(self) -> None:
        """Return when names created, replaced and removed are durable."""
