"""Growth by FALLOC_FL_INSERT_RANGE: the strategy ``insert`` of ``gap``.

The range operations are not atomic: after a crash, XFS and ext4 leave files of which only some extents have
moved.  So the record holds the old address of every extent, and recovery compares addresses to find out what
was done (docs/design/journal.md).  Keeps the inode, and so all names, modes and attributes.
"""

from __future__ import annotations

import errno
from typing import Final

from asdffs.errors import StaleFileError
from asdffs.format.plan import Plan
from asdffs.storage.backend import Backend
from asdffs.storage.open_file import OpenFile
from asdffs.storage.record import Gap, Record, RecordImage, make_insertion
from asdffs.storage.strategy import Unsuitable, checked_journal, checked_shift
from asdffs.storage.unfinished import Position, finish_insertion, locate

_NO_INSERT: Final = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.EPERM})


def insert(file: OpenFile, plan: Plan) -> Backend:
    """Let the file system open the gap.  Raises ``Unsuitable``, and the errors of ``gap.open_gap``."""
    journal = checked_journal(file)
    unit = file.backend.unit()
    checked_shift(plan, unit)
    if not journal.can_insert(file.backend, unknown=True):
        raise Unsuitable("the file system cannot insert")
    file.sync()  # invariant 8
    record, gap = _record(file, plan, plan.checked_move.source // unit * unit)
    file.write_record(record)  # invariants 1 and 2
    with file.moving.entered():
        _open(file, record, gap)
        _fill(file, record, gap)
        file.conclude()
    return file.backend  # no thread gets the main lock before the caller knows the new offsets


def _record(file: OpenFile, plan: Plan, offset: int) -> tuple[Record, Gap]:
    with file.scheduler.waiting():
        try:
            file.backend.forget_pages(offset)
            extents = file.backend.extents()
        except OSError as err:
            raise Unsuitable("the file system does not report the addresses of the file") from err
    if any(extent.shared for extent in extents):
        raise Unsuitable("the file shares bytes with another file, so a write would change their addresses")
    record = make_insertion(file.backend, plan, offset, extents)
    if record.gap is None:
        raise ValueError("the record of an insertion needs a gap")
    return record, record.gap


def _open(file: OpenFile, record: Record, gap: Gap) -> None:
    """Open the gap, or leave the file as it was.  Raises ``Unsuitable``, ``OSError`` and errors of ``OpenFile``."""
    try:
        with file.scheduler.waiting():
            file.check_unchanged()  # invariant 1
            file.backend.insert_range(gap.offset, gap.length)
    except StaleFileError:
        file.retire()
        raise
    except OSError as err:
        _take_back(file, record, gap, [])
        if err.errno in _NO_INSERT:
            raise Unsuitable(f"the file system refused to insert ({err.strerror})") from err
        raise


def _fill(file: OpenFile, record: Record, gap: Gap) -> None:
    """Reserve the space of the gap and write around it.  If that fails, everything is undone."""
    written: list[RecordImage] = []
    try:
        with file.scheduler.waiting():
            file.backend.allocate(gap.offset, gap.length)
        file.sync()  # invariant 9
        for image in record.images:
            written.append(image)
            file.backend.write_at(image.offset, image.after)
        if file.backend.size() != record.new_size:
            file.backend.truncate(record.new_size)
    except OSError:
        _take_back(file, record, gap, written)
        raise
    file.note_signature()  # before another thread gets the main lock
    file.sync()  # invariant 3


def _take_back(file: OpenFile, record: Record, gap: Gap, written: list[RecordImage]) -> None:
    """Undo the ``written`` images and the insertion, as far as it happened (invariant 4).

    Raises ``FailedFileError``.
    """
    try:
        for image in written:
            file.backend.write_at(image.offset, image.before.ljust(len(image.after), b"\0"))
        file.sync()  # invariant 9
        with file.scheduler.waiting():
            _collapse(file, record, gap)
    except OSError as err:
        raise file.fail(f"a growth failed half-way and could not be undone ({err.strerror})") from err
    file.retire()
    file.note_signature()


def _collapse(file: OpenFile, record: Record, gap: Gap) -> None:
    """Close the gap durably, if it was opened.  Raises ``OSError``."""
    if locate(file.backend, record, gap)[0] is Position.NEW:
        file.backend.collapse_range(gap.offset, gap.length)
        file.backend.sync()  # invariant 3
    if finish_insertion(file.backend, record, gap):
        raise OSError(errno.EIO, "the gap is still open")
