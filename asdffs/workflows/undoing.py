"""Takes back the last session of a file in which blocks were changed and their old bytes kept.

If some of these bytes were changed again, by another program or by a mount that kept nothing, nothing is taken back.
A crash in between does no harm: the same command goes on.
"""

from __future__ import annotations

import zlib
from typing import Final, NamedTuple, cast

from asdffs.document.document import Document
from asdffs.errors import MissingValueError, NotPermittedError, Remedy
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.old_bytes import (
    BYTES,
    END,
    END_SIZE,
    LEFT,
    PIECE,
    SIZE,
    TAKING,
    Old,
    Session,
    Why,
    last_session,
    remove_session,
    sessions_in,
)
from asdffs.storage.sidecars import UNDO_SUFFIX

_WHY: Final = {
    Why.NO_ROOM: "its old bytes were not all kept: there was no more room for them",
    Why.REMOVED: "it was removed or emptied in the session",
    Why.FOREIGN: "another program changed the file during the session",
    Why.DAMAGED: "its old bytes could not be read",
}


class TakenBack(NamedTuple):
    """The size of what was taken back: ``bytes`` in ``blocks``.  ``rest``: how many earlier sessions can follow."""

    blocks: int
    bytes: int
    rest: int


def take_back(document: Document, *, dry_run: bool = False) -> TakenBack:
    """Write the old bytes of the last session into the blocks, durably, and remove its record.

    ``dry_run``: write nothing.  Raises ``MissingValueError`` if there is no session, ``NotPermittedError`` if it
    cannot be taken back, ``UntrustedFileError``, ``DamagedFileError``, ``OSError``.
    """
    folder, name = cast(FileFolder, document.folder), document.path.rpartition("/")[2]
    found = last_session(folder, name)
    if found is None:
        sentence = f"there are no old bytes of it, in {name}{UNDO_SUFFIX}/"
        raise MissingValueError(sentence, remedy=Remedy.KEEP_OLD_BYTES)
    directory, session = found
    try:
        _check(document, session)
        old = {(one.number, one.offset): one.length for one in session.records() if one.kind == BYTES}
        if not dry_run:
            _write(document, session)
    finally:
        session.close()
    rest = len(sessions_in(directory)) - 1
    if not dry_run:
        remove_session(folder, name, directory, session.name)
    return TakenBack(len({number for number, _ in old}), sum(old.values()), rest)


def _check(document: Document, session: Session) -> None:
    """Raise ``NotPermittedError`` if the session is not complete, or something was changed after its end."""
    ends: dict[tuple[int, int, int], Old] = {}
    for one in session.records():
        if one.kind == LEFT:
            why = next((why for why in Why if why == one.offset), Why.NO_ROOM)
            raise NotPermittedError(_WHY[why], block=None if why == Why.FOREIGN else one.number)
        if one.kind in (END_SIZE, END):
            ends[one.kind, one.number, one.offset if one.kind == END else 0] = one
    if len(document.blocks) < session.count:
        raise NotPermittedError(f"the file had {session.count} blocks, and has {len(document.blocks)}")
    for one in session.records():
        if one.kind == SIZE:
            _check_size(document, one, ends.get((END_SIZE, one.number, 0)))
        elif one.kind == BYTES:
            _check_piece(document, one, ends.get((END, one.number, one.offset)))


def _check_size(document: Document, old: Old, end: Old | None) -> None:
    now = document.blocks[old.number].size
    if end is None or now not in (end.offset, old.offset):
        raise NotPermittedError(f"its size was changed again after the session, to {now}", block=old.number)


def _check_piece(document: Document, old: Old, end: Old | None) -> None:
    raw = document.blocks[old.number].read_at(old.offset, PIECE)
    if end is None or (len(raw), zlib.crc32(raw)) not in ((end.length, end.crc), (old.length, old.crc)):
        place = f"bytes {old.offset} to {old.offset + old.length}"
        raise NotPermittedError(f"{place} of it were changed again after the session", block=old.number)


def _write(document: Document, session: Session) -> None:
    """Write the old sizes and bytes.  If this is interrupted, the session has no end, and gets another one."""
    session.append(TAKING, 0, 0)
    session.sync()
    for one in session.records():
        if one.kind == SIZE and document.blocks[one.number].size != one.offset:
            document.blocks[one.number].truncate(one.offset)
    for one in session.records():
        if one.kind == BYTES:
            document.blocks[one.number].write_at(one.offset, session.bytes_of(one))
    document.finish()
