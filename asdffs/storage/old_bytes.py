"""The old bytes of blocks, kept beside a file before they are changed, so that a session can be taken back.

``NAME.asdf.undo/`` has a file for each session in which blocks were changed, ``000001`` and so on.  It begins with a
line of JSON; records follow, each with a CRC-32:

| record | fields                              | meaning                                                        |
|--------|-------------------------------------|----------------------------------------------------------------|
| SIZE   | number, size                        | the size of a block before its first change                    |
| BYTES  | number, offset, length, bytes       | content of a block before its first change                     |
| LEFT   | number                              | a change of this block is not kept: there was no more room     |
| NOW    | number, offset, length, CRC-32      | at the end of the session: what the same bytes were then       |

A record is durable before the change that it is about begins.  So what follows the last whole record is about a
change that was not made.  One thread at a time.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from asdffs.errors import DamagedFileError, UntrustedFileError
from asdffs.printable import as_word

if TYPE_CHECKING:
    from asdffs.storage.file_backend import FileBackend, FileFolder

#: How the directory of a file is called, after the name of the file.
SUFFIX: Final = ".undo"
_HEAD: Final = '{"asdffs undo": 1, "blocks": %d}\n'
#: Kind, number of the block, offset or size, length, CRC-32 of what follows; then the CRC-32 of these.
_RECORD: Final = struct.Struct(">BIQII")
_CRC: Final = struct.Struct(">I")
SIZE, BYTES, LEFT, NOW = range(1, 5)
_LONGEST_HEAD: Final = 100


class Old(NamedTuple):
    """A record.  ``offset``: in the content of block ``number``; of SIZE, the size.  ``crc``: of the bytes.

    ``place``: where the bytes of BYTES are in the session's file.
    """

    kind: int
    number: int
    offset: int
    length: int
    crc: int
    place: int


class Session:
    """The record of one session, to be read or continued.  ``count``: how many blocks the file had."""

    def __init__(self, backend: FileBackend, count: int) -> None:
        self._backend = backend
        self.count = count
        self._end = backend.size()

    @classmethod
    def create(cls, folder: FileFolder, name: str, count: int) -> Session:
        """Begin a session in ``folder``, durably.  Raises ``OSError``."""
        backend = folder.open(name, writable=True, create=True)
        backend.write_at(0, (_HEAD % count).encode())
        backend.sync()
        folder.sync()
        return cls(backend, count)

    @classmethod
    def open(cls, folder: FileFolder, name: str) -> Session:
        """Open a session to read it.  Raises ``DamagedFileError``, ``OSError``."""
        backend = folder.open(name, writable=False)
        head = backend.read_at(0, _LONGEST_HEAD).partition(b"\n")[0]
        try:
            facts: Any = json.loads(head)
            session = cls(backend, int(facts["blocks"]))
        except (ValueError, TypeError, KeyError) as err:
            backend.close()
            raise DamagedFileError("is no record of old bytes", path=folder.path(name)) from err
        session._end = len(head) + 1
        return session

    def append(
        self, kind: int, number: int, offset: int, payload: bytes = b"", crc: int = 0, length: int = 0
    ) -> None:
        """Add a record; ``sync`` makes it durable.  Raises ``OSError``, and then the record is not there."""
        fields = _RECORD.pack(kind, number, offset, len(payload) or length, zlib.crc32(payload) if payload else crc)
        record = fields + _CRC.pack(zlib.crc32(fields)) + payload
        self._backend.write_at(self._end, record)
        self._end += len(record)

    def sync(self) -> None:
        """Make all records durable.  Raises ``OSError``."""
        self._backend.sync()

    def records(self) -> Iterator[Old]:
        """Yield the whole records in order.  Raises ``OSError``."""
        place, size = self._end, self._backend.size()
        while place < size:
            raw = self._backend.read_at(place, _RECORD.size + _CRC.size)
            fields = raw[: _RECORD.size]
            if len(raw) < _RECORD.size + _CRC.size or _CRC.unpack(raw[_RECORD.size :])[0] != zlib.crc32(fields):
                return
            kind, number, offset, length, crc = _RECORD.unpack(fields)
            place += len(raw)
            found = Old(kind, number, offset, length, crc, place)
            if kind == BYTES:
                if place + length > size or zlib.crc32(self.bytes_of(found)) != crc:
                    return
                place += length
            yield found

    def bytes_of(self, old: Old) -> bytes:
        """Return the bytes of a record.  Raises ``OSError``."""
        return self._backend.read_at(old.place, old.length)

    def close(self) -> None:
        """Close the file."""
        self._backend.close()


def directory_of(folder: FileFolder, name: str) -> FileFolder:
    """Return the directory with the sessions of the file ``name``, which is made if it is missing.

    Raises ``UntrustedFileError`` if others may have changed it, ``OSError``.
    """
    from asdffs.storage.permissions import make_directory

    found = make_directory(folder, name + SUFFIX, name)
    if found is None:
        path = folder.path(name + SUFFIX)
        raise UntrustedFileError(f"{path} is not a directory of your own; look at it: ls -ld {as_word(path)}")
    return found


def sessions_in(directory: FileFolder) -> list[str]:
    """Return the names of the sessions, the oldest first.  Raises ``OSError``."""
    return sorted(name for name in directory.names() if name.isdecimal())


def size_of(directory: FileFolder, names: list[str]) -> int:
    """Return the bytes that sessions take.  Raises ``OSError``."""
    return sum(directory.status(name).st_size for name in names)


def remove_session(folder: FileFolder, of: str, directory: FileFolder, name: str) -> None:
    """Remove a session of the file ``of``, and the directory if it was the last one.  Raises ``OSError``."""
    directory.remove(name)
    directory.sync()
    if not directory.names():
        os.rmdir(of + SUFFIX, dir_fd=folder.fileno())
