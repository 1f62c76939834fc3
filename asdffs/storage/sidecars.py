"""Files beside the ASDF file: their names, whether to trust them, and payloads.

The journal of a file is ``.NAME.asdffs-journal``; temporary files are ``.asdffs-HASH-N.SUFFIX``.

In /tmp any user may put such a file beside another one, and recovery writes into the file the bytes that a journal
names.  So a journal or a payload is trusted only if every user who could have written it may also write the file.  It
must belong to this user or to the owner of the file.  Others may write it only if they may write the file.  It must
have only one name, so that it is not another file.

A *payload* has the new bytes of a block, complete and durable before they overwrite the block.  It is beside its
file, as ``.asdffs-HASH-N.payload``, until the record that names it is retired.  Without a journal there is no such
record, and the payload has no name.  One thread at a time.
"""

from __future__ import annotations

import contextlib
import os
import re
import zlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from asdffs.errors import UntrustedFileError
from asdffs.printable import as_word
from asdffs.storage.backend import Access, Folder, MovableBackend, ReadBackend, ReadFolder, WriteBackend
from asdffs.storage.file_backend import FileBackend, FileFolder

if TYPE_CHECKING:
    from asdffs.storage.backend import Access, Folder, MovableBackend, ReadBackend, ReadFolder, WriteBackend
    from asdffs.storage.record import Fill

#: Bytes of the longest name that file systems allow.
_LONGEST: Final = 255
JOURNAL_SUFFIX: Final = ".asdffs-journal"
#: What the names of all temporary files begin with.
_TEMPORARY: Final = ".asdffs-"
#: The ending of the directory with old bytes of blocks (``old_bytes``), after the name of the file.
UNDO_SUFFIX: Final = ".undo"
#: Bytes for the note about the owner at the begin of a journal.
NOTE_SIZE: Final = 4096


def journal_name(name: str) -> str:
    """Return the name of the sidecar of the file ``name``; hashed if the plain one would be too long."""
    plain = f".{name}{JOURNAL_SUFFIX}"
    if len(os.fsencode(plain)) <= _LONGEST:
        return plain
    import hashlib

    return f".{hashlib.sha256(os.fsencode(name)).hexdigest()[:32]}{JOURNAL_SUFFIX}"


def has_journal(folder: ReadFolder, name: str) -> bool:
    """Return whether the file ``name`` has a journal: it is open for writing, or a change was interrupted."""
    try:
        folder.signature(journal_name(name))
    except OSError:
        return False
    return True


_GROUP_MAY_WRITE: Final = 0o020
_OTHERS_MAY_WRITE: Final = 0o002


def check_trusted(folder: ReadFolder, name: str, sidecar: ReadBackend) -> None:
    """Raise ``UntrustedFileError`` unless ``sidecar`` of the file ``name`` is trusted; or ``OSError``."""
    _check(folder, name, sidecar.name, sidecar.signature().access)


def check_name_trusted(folder: ReadFolder, name: str, sidecar: str) -> None:
    """Do the same as ``check_trusted`` for a sidecar that could not be opened."""
    _check(folder, name, sidecar, folder.signature(sidecar).access)


def _check(folder: ReadFolder, name: str, sidecar: str, access: Access) -> None:
    reason = _distrust(access, folder.signature(name).access)
    if reason:
        path = folder.path(sidecar)
        advice = f"look at it, then remove it: rm {as_word(path)}"
        raise UntrustedFileError(f"{path} {reason}, so it is not used; {advice}")


def is_trusted(folder: ReadFolder, name: str, sidecar: ReadBackend) -> bool:
    """Return whether ``sidecar`` is trusted; False also if that is unknown."""
    try:
        check_trusted(folder, name, sidecar)
    except (UntrustedFileError, OSError):
        return False
    return True


def _distrust(sidecar: Access, file: Access) -> str:
    """Return why the sidecar is not trusted; empty if it is."""
    if sidecar.user not in (os.geteuid(), file.user):
        return f"belongs to another user ({sidecar.user})"
    if sidecar.links != 1:
        return "has several names"
    allowed = file.mode & _OTHERS_MAY_WRITE
    if sidecar.group == file.group:
        allowed |= file.mode & _GROUP_MAY_WRITE
    if sidecar.mode & (_GROUP_MAY_WRITE | _OTHERS_MAY_WRITE) & ~allowed:
        return "can be written by others"
    return ""


#: Suffix of the names of payloads.
PAYLOAD_SUFFIX: Final = ".payload"
_PAYLOAD_NAME: Final = re.compile(rf"\.asdffs-[0-9a-f]{{16}}-\d{{1,20}}{re.escape(PAYLOAD_SUFFIX)}")
_POURED_AT_ONCE: Final = 1 << 22


class Payload:
    """``size`` bytes in ``backend``, with the CRC-32 ``crc``; written from start to end.

    ``named``: whether recovery can find it.
    """

    def __init__(self, folder: Folder, backend: WriteBackend, *, named: bool) -> None:
        self.folder = folder
        self.backend = backend
        self.named = named
        self.size = 0
        self.crc = 0

    def append(self, piece: bytes) -> None:
        """Write ``piece`` at the end.  Raises ``OSError``."""
        self.backend.write_at(self.size, piece)
        self.size += len(piece)
        self.crc = zlib.crc32(piece, self.crc)

    def sync(self) -> None:
        """Return when the payload and its name are durable.  Raises ``OSError``."""
        if self.named:
            self.backend.sync()  # invariant 10
            self.folder.sync()  # invariant 10

    def fill(self, offset: int) -> Fill:
        """Return the fill that writes this payload at ``offset`` of the file."""
        from asdffs.storage.record import Fill  # not needed for temporary names

        return Fill(offset, self.size, self.backend.signature().inode, self.crc, self.backend.name)

    def discard(self, *, keep: bool = False) -> None:
        """Close and remove the payload, or ``keep`` it for recovery.

        If it cannot be removed now, recovery removes it.
        """
        self.backend.close()
        if self.named and not keep:
            with contextlib.suppress(OSError):
                self.folder.remove(self.backend.name)


def create_unnamed(spool: str) -> Payload:
    """Return an empty payload without a name, in the directory ``spool``.  Raises ``OSError``."""
    from tempfile import TemporaryFile  # late: it takes a while

    with TemporaryFile(dir=spool) as file:  # never has a name, if the file system supports that
        return Payload(FileFolder(spool), FileBackend(os.dup(file.fileno()), "payload"), named=False)


def open_payload(folder: ReadFolder, name: str, fill: Fill) -> ReadBackend | None:
    """Open the payload of the file ``name`` that ``fill`` names; None if it is missing or has changed.

    Raises ``UntrustedFileError`` or ``OSError``.
    """
    try:
        backend = folder.open(fill.name, writable=False)
    except FileNotFoundError:
        return None
    try:
        check_trusted(folder, name, backend)
        if backend.signature().inode == fill.inode and _crc(backend, 0, fill.length) == fill.crc:
            return backend
    except (UntrustedFileError, OSError):
        backend.close()
        raise
    backend.close()
    return None


def is_poured(backend: ReadBackend, fill: Fill) -> bool:
    """Return whether the file has all bytes of the payload already.  Raises ``OSError``."""
    return _crc(backend, fill.offset, fill.length) == fill.crc


def pour(
    payload: ReadBackend, backend: WriteBackend, fill: Fill, *, poured: Callable[[int], object] = lambda _: None
) -> None:
    """Write the payload to its place in the file.  Idempotent.

    ``poured(bytes)`` is called after each piece.  Raises ``OSError``.
    """
    for place in range(0, fill.length, _POURED_AT_ONCE):
        piece = payload.read_at(place, min(_POURED_AT_ONCE, fill.length - place))
        backend.write_at(fill.offset + place, piece)
        poured(len(piece))


def is_payload_name(name: str) -> bool:
    """Return whether a payload may have this file name: a record names no other files."""
    return _PAYLOAD_NAME.fullmatch(name) is not None


def temporary_prefix(name: str) -> str:
    """Return the prefix of all temporary files for the file ``name``; short enough for any name."""
    from hashlib import sha256  # this takes 3 ms, and most starts need none

    return f"{_TEMPORARY}{sha256(os.fsencode(name)).hexdigest()[:16]}-"


def temporaries(name: str, names: Iterable[str]) -> list[str]:
    """Return those of ``names`` that are names of temporary files for the file ``name``."""
    found = [other for other in names if other.startswith(_TEMPORARY)]
    prefix = temporary_prefix(name) if found else ""
    return [other for other in found if other.startswith(prefix)]


def create_temporary(folder: Folder, name: str, suffix: str) -> MovableBackend:
    """Create an empty file in ``folder`` for the file ``name``; its name ends with ``suffix``.

    Raises ``OSError``.
    """
    prefix = temporary_prefix(name)
    number = 0
    taken = set(folder.names())
    while True:
        number += 1
        if f"{prefix}{number}{suffix}" in taken:
            continue
        with contextlib.suppress(FileExistsError):  # another process made it just now
            return folder.open(f"{prefix}{number}{suffix}", writable=True, create=True)


def _crc(backend: ReadBackend, offset: int, length: int) -> int:
    crc = 0
    for place in range(0, length, _POURED_AT_ONCE):
        crc = zlib.crc32(backend.read_at(offset + place, min(_POURED_AT_ONCE, length - place)), crc)
    return crc
