"""Takes back the last session of a file in which blocks were changed and their old bytes kept.

If another program, or a session without that option, changed some of these bytes again, nothing is taken back.  A
crash in between does no harm: the same command goes on.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple, cast

from asdffs.document.document import Document
from asdffs.errors import MissingValueError, NotPermittedError, Remedy
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.old_bytes import (
    BYTES,
    LEFT,
    NOW,
    SIZE,
    SUFFIX,
    Old,
    Session,
    directory_of,
    remove_session,
    sessions_in,
)


class TakenBack(NamedTuple):
    """What was taken back: ``bytes`` of ``blocks``; ``rest``: how many earlier sessions there are."""

    blocks: int
    bytes: int
    rest: int


def take_back(document: Document, *, dry_run: bool = False) -> TakenBack:
    """Write the old bytes of the last session into the blocks, durably, and remove its record.

    ``dry_run``: write nothing.  Raises ``MissingValueError`` if there is no session, ``NotPermittedError`` if it
    cannot be taken back, ``UntrustedFileError``, ``DamagedFileError``, ``OSError``.
    """
    folder, name = cast(FileFolder, document.folder), document.path.rpartition("/")[2]
    if not folder.has(name + SUFFIX):
        raise MissingValueError(f"there are no old bytes of it, in {name}{SUFFIX}/", remedy=Remedy.KEEP_OLD_BYTES)
    directory = directory_of(folder, name)
    names = sessions_in(directory)
    if not names:
        raise MissingValueError(f"there are no old bytes of it, in {name}{SUFFIX}/", remedy=Remedy.KEEP_OLD_BYTES)
    session = Session.open(directory, names[-1])
    try:
        records = list(session.records())
        _check(document, session, records)
        old = [one for one in records if one.kind == BYTES]
        if not dry_run:
            _write(document, session, records)
    finally:
        session.close()
    if not dry_run:
        remove_session(folder, name, directory, names[-1])
    return TakenBack(len({one.number for one in old}), sum(one.length for one in old), len(names) - 1)


def _check(document: Document, session: Session, records: list[Old]) -> None:
    """Raise ``NotPermittedError`` if the session is not complete, or something was changed after it."""
    if left := [one.number for one in records if one.kind == LEFT]:
        raise NotPermittedError("its old bytes were not all kept: there was no more room for them", block=left[0])
    if len(document.blocks) < session.count:
        raise NotPermittedError(f"the file had {session.count} blocks, and has {len(document.blocks)}")
    now = {(one.number, one.offset): one for one in records if one.kind == NOW}
    for old in (one for one in records if one.kind == BYTES):
        told = now.get((old.number, old.offset))
        if told is None:
            continue  # the session ended without a word: it was killed
        raw = document.blocks[old.number].read_at(old.offset, max(told.length, old.length))
        if zlib.crc32(raw[: told.length]) != told.crc and zlib.crc32(raw[: old.length]) != old.crc:
            place = f"bytes {old.offset} to {old.offset + old.length}"
            raise NotPermittedError(f"{place} of it were changed again after the session", block=old.number)


def _write(document: Document, session: Session, records: list[Old]) -> None:
    sizes = {one.number: one.offset for one in records if one.kind == SIZE}
    for number, size in sizes.items():
        if document.blocks[number].size != size:
            document.blocks[number].truncate(size)
    for old in (one for one in records if one.kind == BYTES):
        document.blocks[old.number].write_at(old.offset, session.bytes_of(old))
    document.finish()
