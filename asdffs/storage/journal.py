"""The journal: a redo record beside the file that makes an in-place change atomic.

Guarantee: after ``write`` returned, the change described by the record is made whole by
``recovery`` whatever happens to the file; before, the file is untouched.  Limit: it says
nothing about bytes that are not in the record.  Users: ``document/transaction`` and
``recovery``.  One thread; the holder of the exclusive lock on the file.

The sidecar ``.NAME.asdffs-journal`` (integers big-endian; docs/design/journal.md)::

     0  4096  owner note: JSON, then spaces; who holds the file (information, not synced)
  4096     8  magic "ASDFFSJ1"; zeros when no record is pending ("retired")
  4104     8  length of the body in bytes
  4112     4  CRC-32 of the body
  4116        body: inode, old size, new size, witness offset, witness length (5 x 8 bytes),
              witness CRC-32 (4), number of writes (4); then for each write its offset,
              the length of its before-image and of its after-image (3 x 8), and both images
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import struct
import zlib
from dataclasses import dataclass
from typing import Any

from asdffs.format.plan import Plan
from asdffs.format.span import Span
from asdffs.storage.store import Folder, Store

_NOTE_SIZE = 4096
_MAGIC = b"ASDFFSJ1"
_COMMIT_MARK = struct.Struct(">8sQI")
_BODY = struct.Struct(">QQQQQII")
_WRITE = struct.Struct(">QQQ")
#: Bytes beside the change that identify the file besides its inode and size.
_WITNESS = 512
_LONGEST_NAME = 255
#: How the names of all sidecars end.
JOURNAL_SUFFIX = ".asdffs-journal"


@dataclass(frozen=True, slots=True)
class Image:
    """One write: the bytes before (shorter where the file ended) and after, at ``offset``."""

    offset: int
    before: bytes
    after: bytes


@dataclass(frozen=True, slots=True)
class Record:
    """One pending change and what identifies the file it belongs to."""

    inode: int
    old_size: int
    new_size: int
    witness_offset: int
    witness_length: int
    witness_crc: int
    images: tuple[Image, ...]


def journal_name(name: str) -> str:
    """Name of the sidecar of the file ``name``; hashed when the plain one would be too long."""
    plain = f".{name}{JOURNAL_SUFFIX}"
    if len(os.fsencode(plain)) <= _LONGEST_NAME:
        return plain
    return f".{hashlib.sha256(os.fsencode(name)).hexdigest()[:32]}{JOURNAL_SUFFIX}"


def make_record(store: Store, plan: Plan) -> Record:
    """The record of an in-place ``plan`` on ``store``: reads the before-images and the witness."""
    images = tuple(
        Image(write.offset, store.read_at(write.offset, len(write.payload)), write.payload) for write in plan.writes
    )
    unchanged = _unchanged(plan)
    start = unchanged.start
    witness = store.read_at(start, min(_WITNESS, len(unchanged)))
    inode = store.signature().inode
    return Record(inode, plan.old_size, plan.new_size, start, len(witness), zlib.crc32(witness), images)


def _unchanged(plan: Plan) -> Span:
    """The longest run of bytes that ``plan`` leaves alone; empty when there is none."""
    end = min(plan.old_size, plan.new_size)
    writes = [Span(write.offset, write.offset + len(write.payload)) for write in plan.writes if write.offset < end]
    writes.sort(key=lambda span: span.start)
    starts = [0, *(span.stop for span in writes)]
    stops = [*(span.start for span in writes), end]
    spans = [Span(start, stop) for start, stop in zip(starts, stops, strict=True) if start <= stop]
    return max(spans, key=len, default=Span(0, 0))


class Journal:
    """The sidecar of one file.  ``open`` it once per mount; ``discard`` it at the end."""

    def __init__(self, folder: Folder, store: Store) -> None:
        self._folder = folder
        self._store = store

    @classmethod
    def open(cls, folder: Folder, name: str) -> Journal:
        """Open the sidecar of the file ``name``, or create it, durably.  Raises ``OSError``."""
        sidecar = journal_name(name)
        try:
            return cls(folder, folder.open(sidecar, writable=True))
        except FileNotFoundError:
            return cls(folder, _create(folder, sidecar))

    def note_owner(self, note: dict[str, Any]) -> None:
        """Say who holds the file; at most 4 KiB of JSON.  Raises ``OSError``."""
        text = json.dumps(note).encode()
        self._store.write_at(0, text[:_NOTE_SIZE].ljust(_NOTE_SIZE))

    def write(self, record: Record) -> None:
        """Make ``record`` durable: from here on the change happens.  Raises ``OSError``."""
        self._check_named()
        body = _build(record)
        mark = _COMMIT_MARK.pack(_MAGIC, len(body), zlib.crc32(body))
        self._store.write_at(_NOTE_SIZE, mark + body)
        self._store.sync()

    def pending(self) -> Record | None:
        """The record that waits to be applied; None when retired, torn or absent."""
        return read_record(self._store)

    def retire(self) -> None:
        """Forget the record, durably: the change is in the file, or undone.  Raises ``OSError``."""
        self._store.write_at(_NOTE_SIZE, bytes(_COMMIT_MARK.size))
        self._store.sync()

    def set_aside(self) -> str:
        """Keep a record that belongs to no known state of the file; its new path."""
        taken = set(self._folder.names())
        number = next(n for n in range(1, len(taken) + 2) if f"{self._store.name}.orphan-{n}" not in taken)
        self._store = self._folder.replace(self._store, f"{self._store.name}.orphan-{number}")
        self._folder.sync()
        return self._folder.path(self._store.name)

    def discard(self) -> None:
        """Remove the sidecar.  Raises ``OSError``."""
        with contextlib.suppress(FileNotFoundError):
            self._folder.remove(self._store.name)
        self._store.close()

    def _check_named(self) -> None:
        """Raise ``FileNotFoundError`` when somebody removed the sidecar: no recovery would find a record in it."""
        if self._folder.signature(self._store.name).inode != self._store.signature().inode:
            raise FileNotFoundError(errno.ENOENT, "the journal was removed", self._folder.path(self._store.name))

    def close(self) -> None:
        """Close the sidecar and leave it where it is."""
        self._store.close()


def _create(folder: Folder, sidecar: str) -> Store:
    """A new sidecar with room for a small record, durable; nothing is left of it when that fails."""
    store = folder.open(sidecar, writable=True, create=True)
    try:
        store.write_at(0, b" " * _NOTE_SIZE + bytes(_NOTE_SIZE))
        store.sync()
        folder.sync()
    except OSError:
        store.close()
        folder.remove(sidecar)
        raise
    return store


def read_owner(folder: Folder, name: str) -> dict[str, Any]:
    """The owner note of the file ``name``; empty when there is none to be read."""
    try:
        store = folder.open(journal_name(name), writable=False)
    except OSError:
        return {}
    try:
        note = json.loads(store.read_at(0, _NOTE_SIZE))
    except (OSError, ValueError):
        return {}
    finally:
        store.close()
    return note if isinstance(note, dict) else {}


def read_record(store: Store) -> Record | None:
    """The complete record in the sidecar ``store``, or None."""
    mark = store.read_at(_NOTE_SIZE, _COMMIT_MARK.size)
    if len(mark) < _COMMIT_MARK.size:
        return None
    magic, length, crc = _COMMIT_MARK.unpack(mark)
    if magic != _MAGIC or length > store.size():
        return None
    body = store.read_at(_NOTE_SIZE + _COMMIT_MARK.size, length)
    return _parse(body) if len(body) == length and zlib.crc32(body) == crc else None


def _build(record: Record) -> bytes:
    pieces = [
        _BODY.pack(
            record.inode,
            record.old_size,
            record.new_size,
            record.witness_offset,
            record.witness_length,
            record.witness_crc,
            len(record.images),
        )
    ]
    for image in record.images:
        pieces += [_WRITE.pack(image.offset, len(image.before), len(image.after)), image.before, image.after]
    return b"".join(pieces)


def _parse(body: bytes) -> Record:
    *fields, count = _BODY.unpack_from(body)
    images = []
    place = _BODY.size
    for _ in range(count):
        offset, before, after = _WRITE.unpack_from(body, place)
        place += _WRITE.size
        images.append(Image(offset, body[place : place + before], body[place + before : place + before + after]))
        place += before + after
    return Record(*(*fields, tuple(images)))
