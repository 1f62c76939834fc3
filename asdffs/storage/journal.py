"""The journal: a record beside the file that makes an in-place change atomic.

After ``write`` has returned, ``recovery`` can complete the change of the record, whatever happens to the file.
Before, the file is untouched.  Bytes that are not in the record are not protected.  Only one thread uses the
journal, and it holds the exclusive lock on the file.

The sidecar ``.NAME.asdffs-journal`` is there from the first change on (integers big-endian; design/journal.md)::

     0  4096  owner note: JSON, then spaces; who holds the file (information, not synced)
  4096     8  magic "ASDFFSJ3"; zeros when no record is pending ("retired")
  4104     8  length of the body in bytes
  4112     4  CRC-32 of the body
  4116        body (``record``)
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import struct
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from asdffs.errors import LockedError, UntrustedFileError
from asdffs.storage.backend import Folder, MovableBackend, ReadBackend, ReadFolder
from asdffs.storage.sidecars import (
    NOTE_SIZE,
    check_name_trusted,
    check_trusted,
    is_payload_name,
    journal_name,
)

if TYPE_CHECKING:
    from asdffs.storage.record import Record

logger = logging.getLogger(__name__)

_MAGIC = b"ASDFFSJ3"
_COMMIT_MARK = struct.Struct(">8sQI")
#: Errors if a file without a name can get none: it is elsewhere, or there are no hard links, or no proc(5).
_NO_NAME = frozenset({errno.EXDEV, errno.ENOENT, errno.EPERM, errno.EOPNOTSUPP})
#: Longest piece of a record that is joined with others, in bytes.  So one call writes most records.
_SHORT = 1 << 20


class Journal:
    """The sidecar of one file.  ``open`` it once for each mount, and ``discard`` it at the end.

    Until the first record it has its room on the disk, but no name: who only reads leaves the directory as it is.
    """

    def __init__(self, folder: Folder, backend: MovableBackend, sidecar: str) -> None:
        self._folder = folder
        self._backend = backend
        self._sidecar = sidecar
        self._durable = False

    @classmethod
    def open(cls, folder: Folder, name: str) -> Journal:
        """Open the sidecar of the file ``name``, or create it without a name, and lock it.

        A mount whose file was replaced still holds the lock.  Raises ``LockedError``, ``UntrustedFileError`` or
        ``OSError``.
        """
        sidecar = journal_name(name)
        try:
            backend = _open_trusted(folder, name, sidecar)
        except FileNotFoundError:
            backend = folder.open_unnamed()
        if not folder.lock(backend):
            backend.close()
            raise _used_by_former()
        return cls(folder, backend, sidecar)

    @property
    def name(self) -> str:
        """The name of the sidecar in its folder."""
        return self._backend.name or self._sidecar

    def note_owner(self, note: dict[str, Any]) -> None:
        """Write who holds the file, as at most 4 KiB of JSON.  Raises ``OSError``."""
        text = json.dumps(note).encode()
        self._backend.write_at(0, text[:NOTE_SIZE].ljust(NOTE_SIZE))

    def write(self, record: Record) -> None:
        """Make ``record`` durable: from here on the change happens.  Raises ``OSError``."""
        self._make_durable()
        from asdffs.storage.record import build

        pieces = build(record)
        mark = _COMMIT_MARK.pack(_MAGIC, *_measured(pieces))
        place = NOTE_SIZE
        for piece in _gathered([mark, *pieces]):  # in any order: the checksum is wrong unless all are written
            self._backend.write_at(place, piece)
            place += len(piece)
        self._backend.sync()  # invariant 2

    def can_insert(self, device: int, *, unknown: bool) -> bool:
        """Return whether the file system of the file, on ``device``, supports insertion.

        The check changes the mtime, so it is done on the sidecar.  ``unknown``: the answer if that is on another file
        system, because the file is a mount point.
        """
        if self._backend.signature().device != device:
            return unknown
        return self._backend.can_insert()

    def reserve(self, size: int) -> None:
        """Reserve disk space for a record of ``size`` bytes, for a full disk.  Raises ``OSError``."""
        self._backend.allocate(0, NOTE_SIZE + _COMMIT_MARK.size + size)

    def pending(self) -> Record | None:
        """Return the record that waits to be applied; None if it is retired, torn or missing."""
        return read_record(self._backend)

    def retire(self) -> None:
        """Erase the record durably: the change is in the file, or undone.  Raises ``OSError``."""
        try:
            self._backend.write_at(NOTE_SIZE, bytes(_COMMIT_MARK.size))
        except OSError:  # a full disk that copies on write (btrfs) still allows truncation
            self._backend.truncate(NOTE_SIZE)
        self._backend.sync()  # invariant 3

    def set_aside(self) -> str:
        """Keep a record that matches no known state of the file, and return its new path."""
        taken = set(self._folder.names())
        number = next(n for n in range(1, len(taken) + 2) if f"{self._backend.name}.orphan-{n}" not in taken)
        self._backend = self._folder.replace(self._backend, f"{self._backend.name}.orphan-{number}")
        self._folder.sync()  # invariant 2: it may be the only copy of old bytes
        return self._folder.path(self._backend.name)

    def discard(self) -> None:
        """Remove the sidecar, unless it is gone or another file has its name.  Raises ``OSError``."""
        with contextlib.suppress(FileNotFoundError):
            if self._backend.name:
                self._check_named()
                self._folder.remove(self._backend.name)
        self._backend.close()

    def _make_durable(self) -> None:
        """Give the sidecar its name, durably, before the first record.  Raises as ``write``.

        Also of a sidecar that was there: whoever made it may have been killed before its name was durable.
        """
        if not self._backend.name:
            self._take_name()
        self._check_named()
        if not self._durable:
            self._folder.sync()  # invariant 2
            self._durable = True

    def _take_name(self) -> None:
        try:
            self._backend = self._folder.place(self._backend, self._sidecar)
        except FileExistsError as err:
            raise _used_by_former() from err
        except OSError as err:
            if err.errno not in _NO_NAME:
                raise
            self._backend = _copied(self._folder, self._backend, self._sidecar)

    def _check_named(self) -> None:
        """Raise ``FileNotFoundError`` if the sidecar was removed.  No recovery would find a record in it."""
        if self._folder.signature(self._backend.name).inode != self._backend.signature().inode:
            raise FileNotFoundError(errno.ENOENT, "the journal was removed", self._folder.path(self._backend.name))

    def close(self) -> None:
        """Close the sidecar without removing it."""
        self._backend.close()


def _open_trusted(folder: Folder, name: str, sidecar: str) -> MovableBackend:
    """Open the existing sidecar.  Raises ``UntrustedFileError`` or ``OSError``."""
    try:
        backend = folder.open(sidecar, writable=True)
    except PermissionError:  # if possible, report whose file it is
        check_name_trusted(folder, name, sidecar)
        raise
    try:
        check_trusted(folder, name, backend)
    except (UntrustedFileError, OSError):
        backend.close()
        raise
    return backend


def _used_by_former() -> LockedError:
    return LockedError("the file that had this name before is still mounted; unmount it first")


def _copied(folder: Folder, unnamed: MovableBackend, sidecar: str) -> MovableBackend:
    """Create the sidecar where the file system has no files without a name.  If that fails, nothing is left of it."""
    backend = folder.open(sidecar, writable=True, create=True)
    try:
        folder.lock(backend)
        backend.allocate(0, max(unnamed.size(), NOTE_SIZE))
        backend.write_at(0, unnamed.read_at(0, NOTE_SIZE))
    except OSError:
        backend.close()
        folder.remove(sidecar)
        raise
    unnamed.close()
    return backend


def read_record(backend: ReadBackend) -> Record | None:
    """Return the complete record in the sidecar ``backend``, or None."""
    mark = backend.read_at(NOTE_SIZE, _COMMIT_MARK.size)
    if len(mark) < _COMMIT_MARK.size:
        return None
    magic, length, crc = _COMMIT_MARK.unpack(mark)
    if magic != _MAGIC or length > backend.size():
        return None
    body = backend.read_at(NOTE_SIZE + _COMMIT_MARK.size, length)
    if len(body) != length or zlib.crc32(body) != crc:
        return None
    from asdffs.storage.record import parse  # most journals have no record

    try:
        record = parse(body)
    except (ValueError, OverflowError, struct.error):  # the checksum is right, but not of a record
        return None
    return record if record.fill is None or is_payload_name(record.fill.name) else None


def read_trusted(folder: ReadFolder, name: str) -> Record | None:
    """Return the record that is pending for the file ``name``, or None.

    A sidecar that cannot be read or is not trusted counts as none.
    """
    try:
        sidecar = folder.open(journal_name(name), writable=False)
    except OSError:
        return None
    try:
        check_trusted(folder, name, sidecar)
        return read_record(sidecar)
    except UntrustedFileError as err:
        logger.warning("%s", err)
        return None
    finally:
        sidecar.close()


def _measured(pieces: list[bytes]) -> tuple[int, int]:
    """Return the length and the CRC-32 of a body in pieces."""
    crc = 0
    for piece in pieces:
        crc = zlib.crc32(piece, crc)
    return sum(map(len, pieces)), crc


def _gathered(pieces: list[bytes]) -> Iterator[bytes]:
    """Join short pieces, and yield the pieces to write."""
    short: list[bytes] = []
    for piece in pieces:
        if len(piece) <= _SHORT:
            short.append(piece)
            continue
        if short:
            yield b"".join(short)
        yield piece
        short = []
    if short:
        yield b"".join(short)
