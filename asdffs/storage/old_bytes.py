"""The old bytes of blocks, kept beside a file before they are changed, so that a session can be taken back.

``NAME.asdf.undo/`` has a file for each session in which blocks were changed, ``000001`` and so on.  It begins with a
line of JSON; records follow, each with a CRC-32:

| record   | fields                          | meaning                                                              |
|----------|---------------------------------|----------------------------------------------------------------------|
| SIZE     | number, size                    | the size of a block before its first change                          |
| BYTES    | number, offset, length, bytes   | content of a block before its first change                           |
| LEFT     | number, ``Why``                 | a change of this block is not kept, so the session stays             |
| END_SIZE | number, size                    | at the end of the session: the size of a block                       |
| END      | number, offset, length, CRC-32  | at the end of the session: what kept bytes were then                 |
| DONE     |                                 | the session has an end: the last records of it count                 |
| TAKING   |                                 | it is being taken back, so it has no end any more                    |

A record is durable before the change that it is about begins.  So what follows the last whole record is about a
change that was not made.  A session without an end was killed, or its undo was: whoever opens the file next for
writing ends it as the file is then, before anything else is changed.  Records may be those of another user, the owner
of the file: each field is checked.  One thread at a time.
"""

from __future__ import annotations

import enum
import json
import os
import struct
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from asdffs.errors import DamagedFileError, UntrustedFileError
from asdffs.printable import as_word
from asdffs.storage.sidecars import UNDO_SUFFIX

if TYPE_CHECKING:
    from asdffs.storage.file_backend import FileBackend, FileFolder

#: Bytes of content that are kept together.
PIECE: Final = 1 << 16
_HEAD: Final = '{"asdffs undo": 1, "blocks": %d, "inode": %d}\n'
#: Kind, number of the block, offset or size, length, CRC-32 of what follows; then the CRC-32 of these.
_RECORD: Final = struct.Struct(">BIQII")
_CRC: Final = struct.Struct(">I")
_WHOLE: Final = _RECORD.size + _CRC.size
SIZE, BYTES, LEFT, END_SIZE, END, DONE, TAKING = range(1, 8)
_LONGEST_HEAD: Final = 120
#: File sizes have 63 bits.
_LARGEST: Final = (1 << 63) - 1


class Why(enum.IntEnum):
    """Why a change is not kept."""

    NO_ROOM = 0
    REMOVED = 1
    FOREIGN = 2
    DAMAGED = 3


class Old(NamedTuple):
    """A record.  ``offset``: in the content of block ``number``; of a size, the size.  ``crc``: of the bytes.

    ``place``: where the bytes of BYTES are in the session's file.
    """

    kind: int
    number: int
    offset: int
    length: int
    crc: int
    place: int


class Session:
    """The record of one session.

    ``name``: of its file.  ``count``: how many blocks the ASDF file had, and ``inode``: its number, when it began.
    """

    def __init__(self, backend: FileBackend, count: int, inode: int, start: int) -> None:
        self._backend = backend
        self.name = backend.name
        self.count, self.inode = count, inode
        self._start = start
        self._end: int | None = None  # where the next record goes, once that is known

    @classmethod
    def create(cls, folder: FileFolder, name: str, count: int, inode: int) -> Session:
        """Begin a session in ``folder``, durably.  Raises ``OSError``, and then there is none."""
        backend = folder.open(name, writable=True, create=True)
        try:
            head = (_HEAD % (count, inode)).encode()
            backend.write_at(0, head)
            backend.sync()
            folder.sync()
        except OSError:
            backend.close()
            folder.remove(name)
            raise
        return cls(backend, count, inode, len(head))

    @classmethod
    def open(cls, folder: FileFolder, name: str) -> Session:
        """Open a session to read and end it.  Raises ``DamagedFileError`` if it has no head, ``OSError``."""
        backend = folder.open(name, writable=True)
        head = backend.read_at(0, _LONGEST_HEAD).partition(b"\n")[0]
        try:
            facts: Any = json.loads(head)
            count, inode = int(facts["blocks"]), int(facts["inode"])
            if not 0 <= count < 1 << 32:
                raise ValueError(count)
        except (ValueError, TypeError, KeyError, OverflowError) as err:
            backend.close()
            raise DamagedFileError("is no record of old bytes", path=folder.path(name)) from err
        return cls(backend, count, inode, len(head) + 1)

    @property
    def ended(self) -> bool:
        """True if the last record ends the session, or says that it cannot be taken back."""
        last = self._record_at(max(self._start, self._backend.size() - _WHOLE))
        return last is not None and last.kind in (DONE, LEFT)

    def append(
        self, kind: int, number: int, offset: int, payload: bytes = b"", crc: int = 0, length: int = 0
    ) -> None:
        """Add a record; ``sync`` makes it durable.  Raises ``OSError``, and then the record is not there."""
        if self._end is None:
            self._end = max((one.place + _bytes_in(one) for one in self.records()), default=self._start)
        fields = _RECORD.pack(kind, number, offset, len(payload) or length, zlib.crc32(payload) if payload else crc)
        record = fields + _CRC.pack(zlib.crc32(fields)) + payload
        self._backend.write_at(self._end, record)
        self._end += len(record)

    def sync(self) -> None:
        """Make all records durable.  Raises ``OSError``."""
        self._backend.sync()

    def records(self) -> Iterator[Old]:
        """Yield the whole records in order.  Raises ``DamagedFileError`` for an impossible one, ``OSError``."""
        place, size = self._start, self._backend.size()
        while (found := self._record_at(place)) is not None:
            self._check(found)
            place = found.place + _bytes_in(found)
            if place > size or (found.kind == BYTES and zlib.crc32(self.bytes_of(found)) != found.crc):
                return
            yield found

    def _record_at(self, place: int) -> Old | None:
        """Return the record whose fields begin at ``place``; None if there is none, or a part of one."""
        raw = self._backend.read_at(place, _WHOLE)
        fields = raw[: _RECORD.size]
        if len(raw) < _WHOLE or _CRC.unpack(raw[_RECORD.size :])[0] != zlib.crc32(fields):
            return None
        return Old._make((*_RECORD.unpack(fields), place + _WHOLE))

    def _check(self, old: Old) -> None:
        """Raise ``DamagedFileError`` for a record that no session has."""
        possible = SIZE <= old.kind <= TAKING and old.offset <= _LARGEST and old.length <= PIECE
        possible = possible and (old.kind not in (BYTES, END) or old.offset % PIECE == 0)
        if not possible or (old.number >= self.count and old.kind not in (LEFT, DONE, TAKING)):
            raise DamagedFileError(f"has a record that no session has, before byte {old.place}", path=self.name)

    def bytes_of(self, old: Old) -> bytes:
        """Return the bytes of a record.  Raises ``OSError``."""
        return self._backend.read_at(old.place, old.length)

    def close(self) -> None:
        """Close the file."""
        self._backend.close()


def _bytes_in(old: Old) -> int:
    return old.length if old.kind == BYTES else 0


def directory_of(folder: FileFolder, name: str) -> FileFolder:
    """Return the directory with the sessions of the file ``name``, which is made if it is missing.

    Raises ``UntrustedFileError`` if others may have changed it, ``OSError``.
    """
    from asdffs.storage.permissions import make_directory

    found = make_directory(folder, name + UNDO_SUFFIX, name)
    if found is None:
        path = folder.path(name + UNDO_SUFFIX)
        raise UntrustedFileError(f"{path} is not a directory of your own; look at it: ls -ld {as_word(path)}")
    return found


def sessions_in(directory: FileFolder) -> list[str]:
    """Return the names of the sessions, the oldest first.  Raises ``OSError``."""
    return sorted(name for name in directory.names() if name.isascii() and name.isdecimal())


def size_of(directory: FileFolder, names: list[str]) -> int:
    """Return the bytes that sessions take.  Raises ``OSError``."""
    return sum(directory.status(name).st_size for name in names)


def last_session(folder: FileFolder, of: str) -> tuple[FileFolder, Session] | None:
    """Return the directory and the last session of the file ``of``; None without one.

    One without a head is removed: no change has followed it.  Raises ``UntrustedFileError``, ``OSError``.
    """
    if not folder.has(of + UNDO_SUFFIX):
        return None
    directory = directory_of(folder, of)
    for name in reversed(sessions_in(directory)):
        try:
            return directory, Session.open(directory, name)
        except DamagedFileError:
            if directory.status(name).st_size >= _LONGEST_HEAD:
                raise
            directory.remove(name)
    return None


def remove_session(folder: FileFolder, of: str, directory: FileFolder, name: str) -> None:
    """Remove a session of the file ``of``, and the directory if it was the last one.  Raises ``OSError``."""
    directory.remove(name)
    directory.sync()
    if not directory.names():
        os.rmdir(of + UNDO_SUFFIX, dir_fd=folder.fileno())
