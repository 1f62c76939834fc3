"""Growth by FALLOC_FL_INSERT_RANGE: the strategy ``insert`` of ``gap``.

The range operations are not atomic across a crash: XFS leaves files whose extents are moved in
part, ext4 too.  So the record holds where every extent lay, and recovery tells from the extents
what was done (docs/design/journal.md).  Keeps the inode and so all names, modes and attributes.
"""

from __future__ import annotations

import contextlib
import errno
from typing import Final

from asdffs.errors import FailedFileError
from asdffs.format.plan import Plan
from asdffs.storage.open_file import OpenFile
from asdffs.storage.overlay import OverlayStore, Segment
from asdffs.storage.record import Gap, Image, Record, make_insertion
from asdffs.storage.store import Store
from asdffs.storage.strategy import Unsuitable, checked_journal, checked_shift
from asdffs.storage.unfinished import Position, as_recovered, finish_insertion, locate

_NO_INSERT: Final = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.EPERM})


def insert(file: OpenFile, plan: Plan) -> Store:
    """The file system opens the gap.  Raises ``Unsuitable`` or as ``gap.open_gap``."""
    journal = checked_journal(file)
    unit = file.store.unit()
    checked_shift(plan, unit)
    if not journal.can_insert():
        raise Unsuitable("the file system cannot insert")
    file.sync()  # invariant 8
    record, gap = _record(file, plan, plan.checked_move.source // unit * unit)
    file.write_record(record)  # invariant 2
    with file.moving.entered():
        _open(file, record, gap)
        return _fill(file, record, gap)


def _record(file: OpenFile, plan: Plan, offset: int) -> tuple[Record, Gap]:
    with file.relief.waiting():
        try:
            file.store.forget_pages(offset)
            extents = file.store.extents()
        except OSError as err:
            raise Unsuitable("the file system does not tell where the file lies") from err
    record = make_insertion(file.store, plan, offset, extents)
    if record.gap is None:
        raise ValueError("an insertion has a gap")
    return record, record.gap


def _open(file: OpenFile, record: Record, gap: Gap) -> None:
    """Open the gap, or leave the file as it was.  Raises ``Unsuitable``, ``OSError`` or as ``OpenFile``."""
    try:
        file.check_unchanged()  # invariant 1
        with file.relief.waiting():
            file.store.insert_range(gap.offset, gap.length)
    except OSError as err:
        _forget(file, record, gap)
        if err.errno in _NO_INSERT:
            raise Unsuitable(f"the file system refused to insert ({err.strerror})") from err
        raise
    except BaseException:  # whatever it was, an interrupt as well: nothing has moved, so the record must not stay
        file.retire()
        raise


def _forget(file: OpenFile, record: Record, gap: Gap) -> None:
    """An insertion failed: what of it was done is undone (invariant 4).  Raises ``FailedFileError``."""
    try:
        with file.relief.waiting():
            if locate(file.store, record, gap)[0] is not Position.OLD or file.store.size() != record.old_size:
                _collapse(file, record, gap)
    except OSError as err:
        raise _stuck(file, record, err) from err
    file.retire()
    file.note_signature()


def _fill(file: OpenFile, record: Record, gap: Gap) -> Store:
    """Reserve the room and write around the gap; all is taken back when that fails.

    From here on the file is the new one: for us at once, for others when it is written or recovered.
    """
    written: list[Image] = []
    try:
        try:
            with file.relief.waiting():
                file.store.allocate(gap.offset, gap.length)
            file.sync()  # invariant 9
            for image in record.images:
                written.append(image)
                file.store.write_at(image.offset, image.after)
            if file.store.size() != record.new_size:
                file.store.truncate(record.new_size)
        except OSError as err:
            return _take_back(file, record, gap, written, err)
        file.sync()  # invariant 3
        file.retire()
    except FailedFileError:  # what is on the disk is not known: show what recovery will make of it
        whole = [Segment(0, record.new_size)]
        return OverlayStore.of_images(file.store, record.new_size, record.images, whole)
    return file.store


def _take_back(file: OpenFile, record: Record, gap: Gap, written: list[Image], reason: OSError) -> Store:
    """Undo writes and insertion (invariant 4), and raise ``reason``.

    Raises ``FailedFileError`` as long as the gap is open.
    """
    try:
        for image in written:
            file.store.write_at(image.offset, image.before.ljust(len(image.after), b"\0"))
        file.sync()  # invariant 9
        with file.relief.waiting():
            _collapse(file, record, gap)
    except OSError as err:
        file.fail(f"a growth failed half-way and could not be undone ({err.strerror})")
        view = as_recovered(file.store, record, None)
        if view.size() == record.new_size:
            return view
        file.store = view
        raise reason from err
    with contextlib.suppress(FailedFileError):  # the file is the old one all the same, and nothing more is written
        file.retire()
    file.note_signature()
    raise reason


def _collapse(file: OpenFile, record: Record, gap: Gap) -> None:
    """Close the gap, whatever of it is there, durably.  Raises ``OSError``."""
    if locate(file.store, record, gap)[0] is Position.NEW:
        file.store.collapse_range(gap.offset, gap.length)
        file.store.sync()
    if finish_insertion(file.store, record, gap):
        raise OSError(errno.EIO, "the gap is still open")


def _stuck(file: OpenFile, record: Record, err: OSError) -> FailedFileError:
    file.store = as_recovered(file.store, record, None)
    return file.fail(f"a growth failed half-way and could not be undone ({err.strerror})")
