"""How the changes of a transaction are made: in place, or by filling a block from a payload; and undone.

Each sync and each record names the invariants of ``transaction`` that it serves.  One change at a time; while a step
waits for the disk others hold the main lock.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from typing import Final

from asdffs.errors import UntrustedFileError
from asdffs.format.plan import Plan
from asdffs.storage.open_file import OpenFile
from asdffs.storage.payload import Payload, open_payload, pour
from asdffs.storage.record import Fill, Record, make_record
from asdffs.storage.unfinished import apply, as_recovered, undo

logger = logging.getLogger(__name__)

#: Is told how many more bytes are done.
Step = Callable[[int], object]
#: Room that a fill leaves on the disk, in bytes.
_MARGIN: Final = 1 << 20
#: So many times what is needed is enough, whatever has no place yet.
_PLENTY: Final = 4


def in_place(file: OpenFile, plan: Plan) -> None:
    """Write what ``plan``, without a move, changes.  Raises ``FailedFileError``, ``StaleFileError``, ``OSError``."""
    record = make_record(file.backend, plan)
    file.write_record(record)  # invariants 1 and 2
    try:
        apply(file.backend, record.images, record.new_size)
    except OSError:
        _undo(file, record)  # invariant 4
        raise
    file.note_signature()  # before anybody else holds the main lock
    file.sync()  # invariant 3
    file.conclude()


def fill(file: OpenFile, plan: Plan, payload: Payload, offset: int, step: Step) -> None:
    """Write ``payload`` at ``offset`` of the file, and what ``plan`` changes besides.  Raises as ``in_place``.

    ``step(bytes)`` is told how it goes on.
    """
    filled = payload.fill(offset)
    with file.scheduler.waiting():
        payload.sync()  # invariant 12
        if _takes_room(file, filled) and not _has_room(file, payload.size + _MARGIN):
            raise OSError(errno.ENOSPC, "overwriting the block takes new room, and there is none", file.path)
        file.check_unchanged()  # invariant 1
        _reserve(file, offset, payload.size)  # once the record is there, a full disk would be a failure
    record = make_record(file.backend, plan, filled)
    file.write_record(record)  # invariants 1 and 2
    try:
        with file.scheduler.waiting():
            _pour(file, payload, filled, step)
        apply(file.backend, record.images, record.new_size)
    except OSError as err:  # the old bytes are gone, the new ones are safe
        raise file.fail(f"overwriting a block failed half-way ({err.strerror})") from err
    file.note_signature()
    file.sync()  # invariant 3
    file.conclude()


def _has_room(file: OpenFile, needed: int) -> bool:
    """Whether the disk has ``needed`` bytes: exactly, where it may not."""
    free = file.folder.free()
    return free >= _PLENTY * needed or (free >= needed and file.folder.free(after_sync=True) >= needed)


def _pour(file: OpenFile, payload: Payload, filled: Fill, step: Step) -> None:
    """Write the payload into the file.  A full disk may have room when what was freed just now is free indeed."""
    try:
        pour(payload.backend, file.backend, filled, poured=step)
    except OSError as err:
        if err.errno != errno.ENOSPC or file.folder.free(after_sync=True) < _MARGIN:
            raise
        pour(payload.backend, file.backend, filled, poured=step)


def show_recovered(file: OpenFile, adopt: Callable[[], None]) -> None:
    """In the state FAILED: read on from what recovery would make of the file now."""
    if not file.mode.failure or file.journal is None:
        return
    try:
        record = file.journal.pending()
        if record is None:
            return
        payload = open_payload(file.folder, file.backend.name, record.fill) if record.fill is not None else None
        view = as_recovered(file.backend, record, file.journal.progress(record), payload)
    except (UntrustedFileError, OSError) as err:
        logger.error("%s: what is read from now on may be wrong (%s)", file.path, err)
        return
    file.backend = view.backend
    if view.new:
        adopt()


def _undo(file: OpenFile, record: Record) -> None:
    try:
        undo(file.backend, record.images, record.old_size)
    except OSError as err:
        raise file.fail(f"a change failed half-way and could not be undone ({err.strerror})") from err
    file.sync()  # invariant 3
    file.retire()
    file.note_signature()


def _reserve(file: OpenFile, offset: int, length: int) -> None:
    """Also where it fails the file has another mtime, and may have some of the room."""
    try:
        if length:
            file.backend.allocate(offset, length)
    finally:
        file.note_signature()


def _takes_room(file: OpenFile, fill: Fill) -> bool:
    """Whether overwriting needs new room: where the file system copies on write, or the bytes are shared."""
    if file.journal is None or not file.journal.can_insert():
        return True
    try:
        extents = file.backend.extents()
    except OSError:
        return True
    return any(e.shared and e.logical < fill.stop and fill.offset < e.logical + e.length for e in extents)
