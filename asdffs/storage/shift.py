"""Growth by copying within the file, the last bytes first: the strategy ``shift`` of ``gap``.

For a disk without room for a second copy, and for file systems that support neither clones nor insertion.  Each
piece is in the journal before it overwrites other bytes, so a crash loses none: recovery continues from there.
Slow, because every byte is written three times.  Keeps the inode and all names.  After the first piece is
written, the shift cannot be undone, only completed.
"""

from __future__ import annotations

from typing import Final

from asdffs.errors import StaleFileError
from asdffs.format.plan import Plan
from asdffs.storage.backend import Backend
from asdffs.storage.journal import Journal
from asdffs.storage.open_file import OpenFile
from asdffs.storage.record import Gap, Record, make_shift
from asdffs.storage.strategy import checked_journal, checked_shift
from asdffs.storage.unfinished import finish_shift

#: Bytes that are moved and journalled at a time.
PIECE: Final = 4 << 20


def shift(file: OpenFile, plan: Plan) -> Backend:
    """Move the blocks by copying.  Raises ``Unsuitable``, and the errors of ``gap.open_gap``."""
    journal = checked_journal(file)
    checked_shift(plan, 1)
    record, gap = _record(file, plan)
    with file.scheduler.waiting():
        journal.reserve_progress(record)
    file.write_record(record)  # invariants 1 and 2
    with file.moving.entered():
        _extend(file, record)
        return _move(file, journal, record, gap)


def _record(file: OpenFile, plan: Plan) -> tuple[Record, Gap]:
    record = make_shift(file.backend, plan, min(PIECE, plan.checked_move.length))
    if record.gap is None:
        raise ValueError("the record of a shift needs a gap")
    return record, record.gap


def _extend(file: OpenFile, record: Record) -> None:
    """Reserve the additional disk space of the file.  If that fails, the file gets its old size."""
    try:
        with file.scheduler.waiting():
            file.check_unchanged()  # invariant 1
            if record.new_size > record.old_size:
                file.backend.allocate(record.old_size, record.new_size - record.old_size)
            file.note_signature()
    except StaleFileError:
        file.retire()
        raise
    except OSError:
        _take_back(file, record)
        raise


def _take_back(file: OpenFile, record: Record) -> None:
    """Restore the old size; nothing has moved yet (invariant 4).  Raises ``FailedFileError``."""
    try:
        if file.backend.size() > record.old_size:
            file.backend.truncate(record.old_size)
    except OSError as err:
        raise file.fail(f"a growth failed half-way and could not be undone ({err.strerror})") from err
    file.sync()  # invariant 3
    file.retire()
    file.note_signature()


def _move(file: OpenFile, journal: Journal, record: Record, gap: Gap) -> Backend:
    try:
        with file.scheduler.waiting():
            finish_shift(
                file.backend, record, gap, journal, before=file.check_unchanged, after=file.note_signature
            )  # invariant 1
    except StaleFileError as err:
        if journal.progress(record) is None:  # nothing was written, and the file is another program's now
            file.retire()
            raise
        raise file.fail("another program changed the file while its blocks were being moved") from err
    except OSError as err:
        if journal.progress(record) is None:
            _take_back(file, record)
            raise
        raise file.fail(f"moving the blocks failed half-way ({err.strerror})") from err
    file.conclude()
    return file.backend
