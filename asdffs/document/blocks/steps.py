"""The steps of a change of the file: writing in place, filling a block from a payload, and undoing.

Comments at each sync and each record name the invariants of ``transaction`` that it serves.  One change at a time.  A
step releases the main lock while it waits for the disk.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from typing import Final, cast

from asdffs.errors import UntrustedFileError
from asdffs.format.plan import Plan
from asdffs.storage.backend import MovableBackend
from asdffs.storage.open_file import OpenFile
from asdffs.storage.record import Fill, Record, make_record
from asdffs.storage.sidecars import Payload, open_payload, pour
from asdffs.storage.unfinished import apply, as_recovered, undo

logger = logging.getLogger(__name__)

#: Callback for progress: called with the number of bytes that were done since the last call.
Step = Callable[[int], object]
#: Bytes of the disk that a fill leaves free.
_MARGIN: Final = 1 << 20
#: If the free space is so many times the needed space, delayed allocations of the file system cannot matter.
_PLENTY: Final = 4


def in_place(file: OpenFile, plan: Plan) -> None:
    """Carry out a ``plan`` without a move.  Raises ``FailedFileError``, ``StaleFileError``, ``OSError``."""
    record = make_record(file.backend, plan)
    file.write_record(record)  # invariants 1 and 2
    try:
        apply(file.backend, record.images, record.new_size)
    except OSError:
        _undo(file, record)  # invariant 4
        raise
    file.note_signature()  # before another thread can take the main lock
    file.sync()  # invariant 3
    file.conclude()


def fill(file: OpenFile, plan: Plan, payload: Payload, offset: int, step: Step) -> None:
    """Write ``payload`` at ``offset`` of the file, then carry out ``plan``.

    ``step(bytes)`` is called after each part of the payload.  Raises as ``in_place``.
    """
    filled = payload.fill(offset)
    with file.scheduler.waiting():
        payload.sync()  # invariant 10
        if _takes_room(file, filled) and not _has_room(file, payload.size + _MARGIN):
            raise OSError(errno.ENOSPC, "overwriting the block needs more disk space than is free", file.path)
        file.check_unchanged()  # invariant 1
        reserve(file, offset, payload.size)  # once the record is written, a full disk would make the file FAILED
    record = make_record(file.backend, plan, filled)
    file.write_record(record)  # invariants 1 and 2
    try:
        with file.scheduler.waiting():
            _pour(file, payload, filled, step)
        apply(file.backend, record.images, record.new_size)
    except OSError as err:  # the old bytes are gone, but the payload has the new ones for recovery
        raise file.fail(f"overwriting a block failed half-way ({err.strerror})") from err
    file.note_signature()
    file.sync()  # invariant 3
    file.conclude()


def _has_room(file: OpenFile, needed: int) -> bool:
    """Return whether the disk has ``needed`` bytes free.  If it is close, sync first to know exactly."""
    free = file.folder.free(file.backend)
    return free >= _PLENTY * needed or (free >= needed and file.folder.free(file.backend, after_sync=True) >= needed)


def _pour(file: OpenFile, payload: Payload, filled: Fill, step: Step) -> None:
    """Write the payload into the file.

    If the disk is full, sync it and try once more: space that was just freed may not be available before.
    """
    try:
        pour(payload.backend, file.backend, filled, poured=step)
    except OSError as err:
        if err.errno != errno.ENOSPC or file.folder.free(file.backend, after_sync=True) < _MARGIN:
            raise
        pour(payload.backend, file.backend, filled, poured=step)


def show_recovered(file: OpenFile, adopt: Callable[[], None]) -> None:
    """Continue to read, in the mode FAILED, from a view of the file as recovery would make it now.

    Call ``adopt`` if that view is the new state of the file.
    """
    if not file.mode.failure or file.journal is None:
        return
    try:
        record = file.journal.pending()
        if record is None:
            return
        payload = open_payload(file.folder, file.backend.name, record.fill) if record.fill is not None else None
        view = as_recovered(file.backend, record, payload)
    except (UntrustedFileError, OSError) as err:
        logger.error("%s: data that is read from now on may be wrong (%s)", file.path, err)
        return
    file.backend = cast(MovableBackend, view.backend)  # nothing is written any more
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


def reserve(file: OpenFile, offset: int, length: int) -> None:
    """Reserve disk space for ``length`` bytes at ``offset``.

    Note the new signature even on failure: the file has another mtime then, and perhaps a part of the space.
    """
    try:
        if length:
            file.backend.allocate(offset, length)
    finally:
        file.note_signature()


def _takes_room(file: OpenFile, fill: Fill) -> bool:
    """Return whether overwriting needs more disk space.

    It does if the file shares the bytes with another file, or if the file system copies on write.  A file system that
    cannot insert ranges is taken for one that copies on write.
    """
    if file.journal is None or not file.journal.can_insert(file.signature.device, unknown=False):
        return True
    try:
        extents = file.backend.extents()
    except OSError:
        return True
    return any(e.shared and e.logical < fill.stop and fill.offset < e.logical + e.length for e in extents)
