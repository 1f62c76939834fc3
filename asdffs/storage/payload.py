"""Payloads: what a block is overwritten with, whole and durable in a file of its own before.

A payload lies beside the file it is for, as ``.asdffs-HASH-N.payload``, from when it is made until the record that
names it is retired.  Without a journal there is no such record, and the payload has no name.  Also the names of all
temporary files.  One thread at a time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from asdffs.errors import UntrustedFileError
from asdffs.storage.backend import Backend, Folder
from asdffs.storage.file_backend import FileBackend, FileFolder
from asdffs.storage.trust import check_trusted

if TYPE_CHECKING:
    from asdffs.storage.record import Fill

#: How names of payloads end.
PAYLOAD_SUFFIX: Final = ".payload"
_PAYLOAD_NAME: Final = re.compile(rf"\.asdffs-[0-9a-f]{{16}}-\d{{1,20}}{re.escape(PAYLOAD_SUFFIX)}")
_POURED_AT_ONCE: Final = 1 << 22


@dataclass(slots=True)
class Payload:
    """``size`` bytes in ``backend``, with the CRC-32 ``crc``; written from start to end.

    ``named``: whether recovery can find it.
    """

    folder: Folder
    backend: Backend
    named: bool
    size: int = 0
    crc: int = 0

    def append(self, piece: bytes) -> None:
        """Write ``piece`` behind what there is.  Raises ``OSError``."""
        self.backend.write_at(self.size, piece)
        self.size += len(piece)
        self.crc = zlib.crc32(piece, self.crc)

    def sync(self) -> None:
        """Return when it and its name are durable.  Raises ``OSError``."""
        if self.named:
            self.backend.sync()  # invariant 12
            self.folder.sync()  # invariant 12

    def fill(self, offset: int) -> Fill:
        """To be written at ``offset`` of the file."""
        from asdffs.storage.record import Fill  # who only needs temporary names need not import it

        return Fill(offset, self.size, self.backend.signature().inode, self.crc, self.backend.name)

    def discard(self, *, keep: bool = False) -> None:
        """Close and remove it, or ``keep`` it for recovery, which also removes what cannot be removed now."""
        self.backend.close()
        if self.named and not keep:
            with contextlib.suppress(OSError):
                self.folder.remove(self.backend.name)


def create_payload(folder: Folder, name: str, *, spool: str | None, named: bool) -> Payload:
    """An empty payload for the file ``name``; unless ``named``, in ``spool`` (None: the system's directory).

    Raises ``OSError``.
    """
    if named:
        return Payload(folder, create_temporary(folder, name, PAYLOAD_SUFFIX), named=True)
    return create_unnamed(spool)


def create_unnamed(spool: str | None) -> Payload:
    """An empty payload without a name, in ``spool`` (None: the system's directory).  Raises ``OSError``."""
    place = spool or tempfile.gettempdir()
    with tempfile.TemporaryFile(dir=place) as file:  # without a name from the beginning where that can be
        return Payload(FileFolder(place), FileBackend(os.dup(file.fileno()), "payload", writable=True), named=False)


def open_payload(folder: Folder, name: str, fill: Fill) -> Backend | None:
    """The payload of the file ``name`` that ``fill`` names; None when it is gone, or not what it was.

    Raises ``UntrustedFileError``, ``OSError``.
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


def is_poured(backend: Backend, fill: Fill) -> bool:
    """Whether the file has all bytes of the payload.  Raises ``OSError``."""
    return _crc(backend, fill.offset, fill.length) == fill.crc


def pour(payload: Backend, backend: Backend, fill: Fill, *, poured: Callable[[int], object] = lambda _: None) -> None:
    """Write the payload to its place; ``poured(bytes)`` is told how it goes on.  Idempotent.  Raises ``OSError``."""
    for place in range(0, fill.length, _POURED_AT_ONCE):
        piece = payload.read_at(place, min(_POURED_AT_ONCE, fill.length - place))
        backend.write_at(fill.offset + place, piece)
        poured(len(piece))


def is_payload_name(name: str) -> bool:
    """Whether a file of that name may be a payload: a record names nothing else."""
    return _PAYLOAD_NAME.fullmatch(name) is not None


def temporary_prefix(name: str) -> str:
    """How names of temporary files for the file ``name`` begin; short enough for any name."""
    return f".asdffs-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}-"


def create_temporary(folder: Folder, name: str, suffix: str) -> Backend:
    """A new empty file for the file ``name``, in ``folder``, whose name ends with ``suffix``.  Raises ``OSError``."""
    prefix = temporary_prefix(name)
    number = 0
    taken = set(folder.names())
    while True:
        number += 1
        if f"{prefix}{number}{suffix}" in taken:
            continue
        with contextlib.suppress(FileExistsError):  # of another process
            return folder.open(f"{prefix}{number}{suffix}", writable=True, create=True)


def _crc(backend: Backend, offset: int, length: int) -> int:
    crc = 0
    for place in range(0, length, _POURED_AT_ONCE):
        crc = zlib.crc32(backend.read_at(offset + place, min(_POURED_AT_ONCE, length - place)), crc)
    return crc
